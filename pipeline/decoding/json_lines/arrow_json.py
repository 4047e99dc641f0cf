"""Parse many lines at once with Arrow's JSON reader, and find the lines that it rejects.

The reader returns a whole block or fails. If it rejects a block, regular expressions find lines
that it could reject, and it parses the remaining lines. If it still fails, or if many lines are not
plain JSON, its error names the row at which it stopped. Each such row needs one more parse.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from oriel.pipeline.decoding.json_lines.patterns import PLAIN, misfit_pattern
from oriel.pipeline.windows import Flags

#: Replaces a line that is not parsed: a record without fields.
_EMPTY_RECORD = b"{}"

#: If more than this percentage of the lines is not plain, errors of the reader find rejected lines
#: faster.
_MAX_NOT_PLAIN_PERCENT = 6
#: If the reader has rejected more than one line in this many, line by line is faster for the rest.
_REJECTED_RATIO = 8
#: If the reader rejects a block of at most this many lines, each line is parsed alone.
_FEW_LINES = 16

_ROW = re.compile(r"in row (\d+)$")


@dataclass(frozen=True)
class BlockReader:
    """Parses blocks of lines as rows of ``row_type``."""

    row_type: pa.StructType

    def read(
        self, lines: pa.BinaryArray, skipped: Flags, *, expects_rejections: bool = False
    ) -> tuple[pa.StructArray, Flags]:
        """Return the rows of ``lines``, and which lines were not parsed.

        Args:
            lines: The lines, without nulls.
            skipped: The lines to leave out.
            expects_rejections: If True, skip the attempt to parse all other lines at once, because
                the reader will probably reject some lines.

        Returns:
            The rows, null for lines that were not parsed. Such lines are ``skipped``, the lines
            that the reader rejects, and possibly a few valid lines.
        """
        rows = None if expects_rejections else self._rows(lines, skipped)
        if rows is not None:
            return rows, skipped
        if len(lines) <= _FEW_LINES:
            return pa.nulls(len(lines), self.row_type), np.ones(len(lines), np.bool_)
        skipped = skipped | _matches(lines, misfit_pattern(self.row_type))
        rows = self._rows(lines, skipped)
        if rows is not None:
            return rows, skipped
        not_plain = skipped | ~_matches(lines, PLAIN)
        if 100 * np.count_nonzero(not_plain & ~skipped) <= _MAX_NOT_PLAIN_PERCENT * len(lines):
            rows = self._rows(lines, not_plain)
            if rows is not None:
                return rows, not_plain
        skipped = self._refused(lines, skipped)
        rows = self._rows(lines, skipped)
        if rows is not None:
            return rows, skipped
        # Parse each half, because errors do not name the row of a number that does not fit.
        half = len(lines) // 2
        rows, still_unread = self.read(lines[:half], skipped[:half])
        more_rows, more_unread = self.read(lines[half:], skipped[half:])
        return pa.concat_arrays([rows, more_rows]), np.concatenate([still_unread, more_unread])

    def _rows(self, lines: pa.BinaryArray, skipped: Flags) -> pa.StructArray | None:
        """Return the rows, or None if the reader rejects a line."""
        try:
            table = self._parse(_joined(lines, skipped))
        except pa.ArrowInvalid:
            return None
        if len(table) != len(lines):
            return None
        columns = [table[field.name].combine_chunks() for field in self.row_type]
        mask = pa.array(skipped) if skipped.any() else None
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

    def _refused(self, lines: pa.BinaryArray, skipped: Flags) -> Flags:
        """Return ``skipped`` with the lines that the reader rejects, if its errors name them."""
        rejected = skipped.copy()
        text = _joined(lines, skipped)
        lengths = np.where(skipped, len(_EMPTY_RECORD), np.asarray(pc.binary_length(lines)))
        starts = np.concatenate(([0], np.cumsum(lengths + 1)))
        start = count = 0
        while start < len(lines):
            if count > len(lines) // _REJECTED_RATIO:
                rejected[start:] = True
                break
            row = None
            try:
                self._parse(text.slice(starts[start]))
            except pa.ArrowInvalid as error:
                row = _ROW.search(str(error))
            if row is None:
                break
            start += int(row[1])
            # If the end of the last line is missing, the error can name the row after it.
            rejected[min(start, len(lines) - 1)] = True
            start += 1
            count += 1
        return rejected


def _matches(lines: pa.BinaryArray, pattern: str) -> Flags:
    return np.asarray(pc.match_substring_regex(lines, pattern))


def _joined(lines: pa.BinaryArray, left_out: Flags) -> pa.Buffer:
    """Return all lines in one buffer, separated by newlines. Replace the lines to leave out."""
    if left_out.any():
        lines = pc.if_else(pa.array(left_out), pa.scalar(_EMPTY_RECORD, pa.binary()), lines)
    whole = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
    return pc.binary_join(whole, b"\n")[0].as_buffer()
