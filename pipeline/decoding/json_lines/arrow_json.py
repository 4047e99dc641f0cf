"""Many lines at once by Arrow's JSON reader, and which of them it can't read.

The reader takes a whole block or nothing. In a block that it refuses, patterns tell the lines that
it may refuse, and the rest is read again. If it is refused again, or is only a part of the block,
the reader itself is asked, which names the row at which it stopped; that takes one more parse.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from oriel.pipeline.decoding.json_lines.patterns import PLAIN, misfits
from oriel.pipeline.windows import Flags

#: In the place of a line that is not read: a record without any field.
_NO_LINE = b"{}"

#: With more lines than so many of a hundred that are not plain, it is quicker to ask the reader.
_MOST_ODD = 6
#: Once it has refused one in so many, it is quicker to read the rest line by line.
_MOST_REFUSED = 8
#: So few lines aren't searched further if some of them are refused.
_FEW_LINES = 16

_ROW = re.compile(r"in row (\d+)$")


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks of lines as rows of ``row_type``."""

    row_type: pa.StructType

    def read(
        self, lines: pa.BinaryArray, unread: Flags, *, careful: bool = False
    ) -> tuple[pa.StructArray, Flags]:
        """Rows of ``lines`` (no nulls), and which of them are not read.

        Lines that are ``unread`` are left out; those that the reader refuses, and perhaps a few
        that it would not, join them. A row that is not read is null. Where it is likely that some
        lines are refused, ``careful`` saves the attempt to read them all.
        """
        rows = None if careful else self._rows(lines, unread)
        if rows is not None:
            return rows, unread
        if len(lines) <= _FEW_LINES:
            return pa.nulls(len(lines), self.row_type), np.ones(len(lines), np.bool_)
        unread = unread | _matches(lines, misfits(self.row_type))
        rows = self._rows(lines, unread)
        if rows is not None:
            return rows, unread
        odd = unread | ~_matches(lines, PLAIN)
        if 100 * np.count_nonzero(odd & ~unread) <= _MOST_ODD * len(lines):
            rows = self._rows(lines, odd)
            if rows is not None:
                return rows, odd
        unread = self._refused(lines, unread)
        rows = self._rows(lines, unread)
        return (rows, unread) if rows is not None else self._read_halves(lines, unread)

    def _read_halves(self, lines: pa.BinaryArray, unread: Flags) -> tuple[pa.StructArray, Flags]:
        """Read each half by itself: the reader can't say which number it could not convert."""
        half = len(lines) // 2
        rows, still_unread = self.read(lines[:half], unread[:half])
        more_rows, more_unread = self.read(lines[half:], unread[half:])
        return pa.concat_arrays([rows, more_rows]), np.concatenate([still_unread, more_unread])

    def _rows(self, lines: pa.BinaryArray, unread: Flags) -> pa.StructArray | None:
        """The rows, or None if the reader refuses a line."""
        try:
            table = self._parse(_joined(lines, unread))
        except pa.ArrowInvalid:
            return None
        if len(table) != len(lines):
            return None
        columns = [table[field.name].combine_chunks() for field in self.row_type]
        mask = pa.array(unread) if unread.any() else None
        return pa.StructArray.from_arrays(columns, fields=list(self.row_type), mask=mask)

    def _parse(self, text: pa.Buffer) -> pa.Table:
        return pa_json.read_json(
            pa.BufferReader(text),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=self._schema, unexpected_field_behavior="ignore"
            ),
        )

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema(list(self.row_type))

    def _refused(self, lines: pa.BinaryArray, unread: Flags) -> Flags:
        """``unread`` and the lines that the reader refuses, as far as it says which."""
        refused = unread.copy()
        text = _joined(lines, unread)
        lengths = np.where(unread, len(_NO_LINE), np.asarray(pc.binary_length(lines)))
        starts = np.concatenate(([0], np.cumsum(lengths + 1)))
        start = count = 0
        while start < len(lines):
            if count > len(lines) // _MOST_REFUSED:
                refused[start:] = True
                break
            row = self._first_refused(text.slice(starts[start]))
            if row is None:
                break
            start += row
            # The last row is named for what is missing behind it.
            refused[min(start, len(lines) - 1)] = True
            start += 1
            count += 1
        return refused

    def _first_refused(self, text: pa.Buffer) -> int | None:
        try:
            self._parse(text)
        except pa.ArrowInvalid as error:
            row = _ROW.search(str(error))
            return int(row[1]) if row else None
        return None


def infinite_rows(rows: pa.Array) -> Flags:
    """The rows that contain an infinite number at any depth."""
    types, column_type = pa.types, rows.type
    found = np.zeros(len(rows), np.bool_)
    if types.is_floating(column_type):
        found = np.asarray(pc.fill_null(pc.is_inf(rows), False))  # noqa: FBT003
    elif types.is_struct(column_type):
        for column in rows.flatten():
            found |= infinite_rows(column)
    elif types.is_list(column_type):
        items = infinite_rows(pc.list_flatten(rows))
        found[np.asarray(pc.list_parent_indices(rows))[items]] = True
    return found


def _matches(lines: pa.BinaryArray, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(lines, pattern))


def _joined(lines: pa.BinaryArray, left_out: Flags) -> pa.Buffer:
    """All lines in one text, one a line."""
    if left_out.any():
        lines = pc.if_else(pa.array(left_out), pa.scalar(_NO_LINE, pa.binary()), lines)
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, b"\n")[0].as_buffer()
