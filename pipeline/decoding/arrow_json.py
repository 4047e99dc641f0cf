"""Many lines at once by Arrow's JSON reader, and which of them it can't read.

The reader takes a whole block or nothing. A block that it refuses is searched for the lines that it
refuses, at a cost of about one more parse: it names the row at which it stopped, and the number
that it could not convert is looked for by its field's name.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from oriel.pipeline.windows import Flags

#: In the place of a line that is not read: a record without any field.
_NO_LINE = b"{}"

#: So many lines are searched at once for the next one that is refused.
_WINDOW = 512
#: So few lines aren't searched further if some of them are refused.
_FEW_LINES = 16

_ROW = re.compile(r"in row (\d+)$")

#: Text in which one object follows another, which no object has except within a text.
_DOUBLED = r"\}\s*\{"
#: Bits of an integer column -> so many digits may be too many for it.
_MANY_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks of lines as rows of ``row_type``."""

    row_type: pa.StructType

    def read(self, lines: pa.BinaryArray, unread: Flags) -> tuple[pa.StructArray, Flags]:
        """Rows of ``lines`` (no nulls), and which of them are not read.

        Lines that are ``unread`` are left out; those that the reader refuses join them. A row
        that is not read is null.
        """
        rows = self._rows(lines, unread)
        if rows is None:
            unread = unread | self._refused(lines, unread)
            rows = self._rows(lines, unread)
        if rows is not None:
            return rows, unread
        if len(lines) <= _FEW_LINES:
            return pa.nulls(len(lines), self.row_type), np.ones(len(lines), np.bool_)
        half = len(lines) // 2
        parts = [self.read(lines[part], unread[part]) for part in (slice(half), slice(half, None))]
        return pa.concat_arrays([part for part, _ in parts]), np.concatenate(
            [part for _, part in parts]
        )

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
        fields = list(self.row_type)
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

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
        """Lines that the reader refuses, as far as it says so, and some that it may refuse."""
        refused = _matches(lines, _DOUBLED)
        for pattern in self._misfits:
            refused |= _matches(lines, pattern)
        text = _joined(lines, unread | refused)
        skipped = np.where(unread | refused, len(_NO_LINE), pc.binary_length(lines))
        starts = np.concatenate(([0], np.cumsum(skipped + 1)))
        start = 0
        while start < len(lines):
            end = min(start + _WINDOW, len(lines))
            row = self._first_refused(text.slice(starts[start], starts[end] - starts[start] - 1))
            if row is None or start + row >= end:
                start = end
            else:
                refused[start + row] = True
                start += row + 1
        return refused

    def _first_refused(self, text: pa.Buffer) -> int | None:
        try:
            self._parse(text)
        except pa.ArrowInvalid as error:
            row = _ROW.search(str(error))
            return int(row[1]) if row else None
        return None

    @cached_property
    def _misfits(self) -> list[str]:
        """Patterns of numbers that don't fit the integer columns, by the bits of these."""
        names: dict[int, set[str]] = {}
        _collect_integers(self.row_type, "", names)
        return [
            # In lists, too: everything that these may have before a number.
            rf'"(?:{"|".join(map(re.escape, sorted(some)))})"\s*:[\[\],\snul0-9-]*'
            rf"(?:[.eE]|[0-9]{{{_MANY_DIGITS[bits]},}})"
            for bits, some in names.items()
        ]


def _collect_integers(column_type: pa.DataType, name: str, names: dict[int, set[str]]) -> None:
    """Collect the names of integer columns in ``names``, by their bits."""
    if pa.types.is_struct(column_type):
        for field in column_type:
            _collect_integers(field.type, field.name, names)
    elif pa.types.is_list(column_type):
        _collect_integers(column_type.value_type, name, names)
    elif pa.types.is_integer(column_type):
        names.setdefault(column_type.bit_width, set()).add(name)


def _matches(lines: pa.BinaryArray, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(lines, pattern))


def _joined(lines: pa.BinaryArray, left_out: Flags) -> pa.Buffer:
    """All lines in one text, one a line."""
    if left_out.any():
        lines = pc.if_else(pa.array(left_out), pa.scalar(_NO_LINE, pa.binary()), lines)
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, b"\n")[0].as_buffer()
