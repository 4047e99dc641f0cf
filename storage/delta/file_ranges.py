"""The ranges of keys, times and revisions in a file of a table, from its footer.

A window can only be in a file whose ranges include it. This decides which rows a compaction can
drop. So if the footer does not have the ranges (other writers, keys of many kB), they are read from
the columns. For row groups, whose ranges only save reads, they are then unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.definition import StoreKind
from oriel.storage.delta.columns import TIMESTAMP
from oriel.storage.delta.data_files import open_footer, translate_damage

#: A place in the order of a compacted file: key as UTF-8, window start in microseconds.
Place = tuple[bytes, int]

_LEAST_START = -(2**63)


class Range(NamedTuple):
    """The least and the greatest value, both inclusive."""

    least: Any
    greatest: Any

    def overlaps(self, other: "Range") -> bool:
        """Return True if a value can be in both ranges."""
        return bool(self.least <= other.greatest and other.least <= self.greatest)


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file.

    Attributes:
        number: The index in the file.
        rows: The number of rows.
        size: The encoded bytes.
        first: The first place of its rows. None: unknown.
        last: The last place of its rows. None: unknown.
    """

    number: int
    rows: int
    size: int
    first: Place | None
    last: Place | None


@dataclass(frozen=True)
class FileRanges:
    """The ranges of one file of a table.

    All three ranges are None if the file does not have rows, or is not a file of a store.

    Attributes:
        rows: The number of rows.
        groups: The row groups.
        keys: The keys as UTF-8.
        clock: The times that retention uses, in microseconds. None in a store without windows.
        revisions: The batch ids.
    """

    rows: int
    groups: tuple[RowGroup, ...]
    keys: Range | None = None
    clock: Range | None = None
    revisions: Range | None = None

    def can_share_windows(self, other: "FileRanges") -> bool:
        """Return True if a window can be in both files."""
        if self.keys is None or other.keys is None:
            return False
        if not self.keys.overlaps(other.keys):
            return False
        return self.clock is None or other.clock is None or self.clock.overlaps(other.clock)


def clock_column(kind: StoreKind) -> str | None:
    """Return the column that retention uses (semantics.md#7), or None if nothing expires."""
    if not kind.is_windowed:
        return None
    return "window_end" if kind.expires_by_end else "window_start"


def file_ranges(
    path: Path, kind: StoreKind | None, tags: Mapping[str, str] = MappingProxyType({})
) -> FileRanges:
    """Read the ranges of a file from its footer.

    Args:
        path: The file.
        kind: The kind of the store. None: the table is not a store, and only its row groups are
            read.
        tags: The digests of the file.

    Raises:
        MissingDataFile: the file was deleted.
        CorruptLog: the footer is missing, or it differs from its digest in ``tags``.
    """
    with (
        translate_damage(path),
        open_footer(path, tags) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as file,
    ):
        return _of_footer(file, kind)


def _of_footer(file: pq.ParquetFile, kind: StoreKind | None) -> FileRanges:
    metadata = file.metadata
    if kind is None or not metadata.num_rows:
        groups = tuple(
            RowGroup(n, metadata.row_group(n).num_rows, metadata.row_group(n).total_byte_size,
                     None, None)
            for n in range(metadata.num_row_groups)
        )  # fmt: skip
        return FileRanges(metadata.num_rows, groups)
    clock = clock_column(kind)
    bounds = {
        name: [group_range(metadata.row_group(n), column_index, name, file.schema_arrow)
               for n in range(metadata.num_row_groups)]
        for name in ("key", "window_start", clock, "revision")
        if name is not None
        for column_index in [file.schema_arrow.names.index(name) if name in file.schema_arrow.names
        else None]
    }  # fmt: skip
    groups = tuple(
        _row_group(metadata.row_group(n), n, bounds["key"][n], bounds["window_start"][n])
        for n in range(metadata.num_row_groups)
    )

    def file_range(name: str) -> Range:
        ranges = [each for each in bounds[name] if each is not None]
        if len(ranges) < metadata.num_row_groups:
            return _read_range(file, name)
        return Range(min(r.least for r in ranges), max(r.greatest for r in ranges))

    return FileRanges(
        metadata.num_rows,
        groups,
        keys=file_range("key"),
        clock=None if clock is None else file_range(clock),
        revisions=file_range("revision"),
    )


def group_range(group: Any, column_index: int | None, name: str, schema: pa.Schema) -> Range | None:
    """Return the bounds of a column of a row group from the footer, as bytes or integers.

    Args:
        group: The metadata of the row group.
        column_index: The index of the column in ``schema``, or None.
        name: The name of the column.
        schema: The schema of the file.

    Returns:
        The bounds, or None if the footer does not have them.
    """
    if column_index is None:
        return None
    # List columns shift the indices of leaf columns, so the leaf is found by its path.
    leaf = next(c for c in range(group.num_columns) if group.column(c).path_in_schema == name)
    column = group.column(leaf)
    is_time = pa.types.is_timestamp(schema.field(column_index).type)
    if is_time and (
        column.physical_type != "INT64" or schema.field(column_index).type != TIMESTAMP
    ):
        return None
    statistics = column.statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return Range(statistics.min_raw, statistics.max_raw)


def _row_group(group: Any, number: int, keys: Range | None, starts: Range | None) -> RowGroup:
    if keys is None:
        return RowGroup(number, group.num_rows, group.total_byte_size, None, None)
    first, last = (keys.least, _LEAST_START), (keys.greatest, 2**63 - 1)
    if keys.least == keys.greatest and starts is not None:
        # With only one key, its windows can be divided by their starts.
        first, last = (keys.least, starts.least), (keys.least, starts.greatest)
    return RowGroup(number, group.num_rows, group.total_byte_size, first, last)


def _read_range(file: pq.ParquetFile, name: str) -> Range:
    column = file.read([name]).column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(TIMESTAMP).cast(pa.int64())
    if not pa.types.is_integer(column.type):
        column = column.cast(pa.string()).cast(pa.binary())
    bounds = pc.min_max(column)
    return Range(bounds["min"].as_py(), bounds["max"].as_py())
