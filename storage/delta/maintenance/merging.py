"""Merge the rows of several files into fewer, sorted files, without rows that no reader needs.

The rows are read in pieces. A piece is a span of the order (key, window start). Only the row groups
that overlap the span are read, so memory does not grow with the files. These rows are dropped from
a piece:

- Superseded rows: a higher revision of the window exists. Rows of one revision all stay, because
  the index decides which one counts.

- ``deleted`` rows and expired rows, if no file outside of the merge can have an older row of the
  window. Otherwise the older row would be visible again, for expired rows after a longer retention
  is set. A row whose revision the pipeline has not reached stays, because its next batches have
  lower revisions.

A row with the greatest time that retention uses stays, even if it is deleted. An index that is
built again can read the store's stream time from the rows of the table (semantics.md#7).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.definition import StoreKind
from oriel.storage.delta.data_files import open_data_file, translate_damage
from oriel.storage.delta.file_ranges import FileRanges, Place, Range, clock_column


@dataclass(frozen=True)
class Merge:
    """The input of a merge, and the other files of the table.

    Attributes:
        ranges: The ranges of the merged files, by path.
        outside: The ranges of other files that can have rows older than the merged ones.
        kind: The kind of the store. None: the table is not a store, and all rows stay.
        earliest: The least visible time, in microseconds.
        settled: The newest revision of the pipeline. It writes only higher revisions from now on.
        digests: The digests of the merged files that have one, by path.
    """

    ranges: Mapping[str, FileRanges]
    outside: Sequence[FileRanges]
    kind: StoreKind | None
    earliest: int
    settled: int
    digests: Mapping[str, str] = field(default_factory=dict)


def merged_pieces(
    directory: Path, merge: Merge, schema: pa.Schema, *, rows: int, size: int
) -> Iterator[pa.Table]:
    """Yield the merged rows in order, in tables of about ``rows`` rows or ``size`` encoded bytes.

    A row group is the smallest unit that is read. So a piece can be as large as a row group of
    another writer.

    Raises:
        MissingDataFile: a file was deleted.
        CorruptLog: a file is damaged. Its rows must not get a new digest.
    """
    with ExitStack() as opened:
        files = {}
        for path in merge.ranges:
            source = opened.enter_context(open_data_file(directory / path, merge.digests.get(path)))
            with translate_damage(directory / path):
                file = pq.ParquetFile(source, page_checksum_verification=True)
            files[path] = _File(directory / path, opened.enter_context(file))
        if merge.kind is None:
            yield from _unmerged_pieces(files, merge, schema, rows, size)
            return
        starts = _piece_starts(merge.ranges.values(), rows, size)
        for first, end in zip([None, *starts], [*starts, None], strict=True):
            tables = [
                _rows_between(file, merge.ranges[path], schema, first, end)
                for path, file in files.items()
            ]
            piece = _merged_rows(pa.concat_tables(tables), merge)
            if len(piece):
                yield piece


class _File(NamedTuple):
    """A merged file, whose errors name it."""

    path: Path
    content: pq.ParquetFile

    def read(self, groups: Sequence[int], schema: pa.Schema) -> pa.Table:
        with translate_damage(self.path):
            return _with_table_columns(self.content.read_row_groups(groups), schema)


def _unmerged_pieces(
    files: Mapping[str, _File], merge: Merge, schema: pa.Schema, rows: int, size: int
) -> Iterator[pa.Table]:
    tables: list[pa.Table] = []
    buffered_rows = buffered_size = 0
    for path, file in files.items():
        for group in merge.ranges[path].groups:
            tables.append(file.read([group.number], schema))
            buffered_rows, buffered_size = buffered_rows + group.rows, buffered_size + group.size
            if buffered_rows >= rows or buffered_size >= size:
                yield pa.concat_tables(tables)
                tables, buffered_rows, buffered_size = [], 0, 0
    if buffered_rows:
        yield pa.concat_tables(tables)


def _piece_starts(ranges: Iterable[FileRanges], rows: int, size: int) -> list[Place]:
    """Return where pieces after the first start: at a row group, once a piece is full."""
    groups = sorted(
        (group.first, group.rows, group.size)
        for file in ranges
        for group in file.groups
        if group.first is not None
    )
    starts: list[Place] = []
    buffered_rows = buffered_size = 0
    for first, group_rows, group_size in groups:
        is_full = buffered_rows + group_rows > rows or buffered_size + group_size > size
        if is_full and first > (starts[-1] if starts else groups[0][0]):
            starts.append(first)
            buffered_rows = buffered_size = 0
        buffered_rows, buffered_size = buffered_rows + group_rows, buffered_size + group_size
    return starts


def _rows_between(
    file: _File,
    ranges: FileRanges,
    schema: pa.Schema,
    first: Place | None,
    end: Place | None,
) -> pa.Table:
    """Return the rows of a file from ``first`` (inclusive) to ``end`` (exclusive)."""
    numbers = [
        group.number
        for group in ranges.groups
        if (first is None or group.last is None or group.last >= first)
        and (end is None or group.first is None or group.first < end)
    ]
    if not numbers:
        return schema.empty_table()
    rows = file.read(numbers, schema)
    if first is not None:
        rows = rows.filter(_is_from(rows, first))
    if end is not None:
        rows = rows.filter(pc.invert(_is_from(rows, end)))
    return rows


def _is_from(rows: pa.Table, place: Place) -> pa.ChunkedArray:
    """Return True for each row at or after a place."""
    key = pa.scalar(place[0].decode(), pa.string())
    if "window_start" not in rows.column_names:
        return pc.greater_equal(rows["key"], key)
    is_at_or_after = pc.greater_equal(rows["window_start"].cast(pa.int64()), place[1])
    is_key = pc.and_(pc.equal(rows["key"], key), is_at_or_after)
    return pc.or_(pc.greater(rows["key"], key), is_key)


def _with_table_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns and types of the table.

    Other writers can use another Arrow type for the same Delta type. A file that is older than a
    column does not have it.
    """
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _merged_rows(rows: pa.Table, merge: Merge) -> pa.Table:
    """Return the rows of a piece in order, without the rows to drop: see the module docstring."""
    assert merge.kind is not None
    rows = newest_rows(rows)
    if not len(rows):
        return rows
    retention_column = clock_column(merge.kind)
    is_droppable = rows["deleted"]
    if retention_column is not None:
        times = rows[retention_column].cast(pa.int64())
        greatest = max(r.clock.greatest for r in merge.ranges.values() if r.clock is not None)
        is_droppable = pc.or_(is_droppable, pc.less(times, merge.earliest))
        is_droppable = pc.and_(is_droppable, pc.less(times, greatest))
    is_droppable = pc.and_(is_droppable, pc.less_equal(rows["revision"], merge.settled))
    for outside in merge.outside:
        if not pc.any(is_droppable).as_py():
            return rows
        is_droppable = pc.and_(
            is_droppable, pc.invert(_can_have_older_row(outside, rows, retention_column))
        )
    return rows.filter(pc.invert(is_droppable))


def newest_rows(rows: pa.Table) -> pa.Table:
    """Return the rows with the highest revision of their window, ordered by window.

    If several rows have the highest revision, all count. Only other programs write such rows
    (decision 0030).
    """
    window = window_columns(rows.column_names)
    order = pc.sort_indices(
        rows, [*((name, "ascending") for name in window), ("revision", "descending")]
    )
    rows = rows.take(order).combine_chunks()
    if not len(rows):
        return rows
    begins = _begins_of_windows(rows, window)
    revisions = rows["revision"].to_numpy()
    return rows.filter(pa.array(revisions == revisions[begins][np.cumsum(begins) - 1]))


def has_windows_once(rows: pa.Table) -> bool:
    """Return True if no window has two rows. The rows are ordered by window."""
    return bool(_begins_of_windows(rows, window_columns(rows.column_names)).all())


def _begins_of_windows(rows: pa.Table, window: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return True for each row whose window differs from the window of the row before it."""
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = False
    for name in window:
        differs = pc.not_equal(rows[name].slice(1), rows[name].slice(0, len(rows) - 1))
        begins[1:] |= differs.to_numpy()
    return begins


def window_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that identify a row of a store's table, which has columns ``names``."""
    return ["key", *(name for name in ("window_start", "window_end") if name in names)]


def _can_have_older_row(
    outside: FileRanges, rows: pa.Table, retention_column: str | None
) -> pa.ChunkedArray:
    """Return True for each row if a file can have an older row of its window."""
    if outside.keys is None or outside.revisions is None:
        return pa.chunked_array([pa.repeat(pa.scalar(value=False), len(rows))])
    is_older = pc.greater(rows["revision"], outside.revisions.least)
    keys = Range(*(pa.scalar(bound.decode(), pa.string()) for bound in outside.keys))
    within = pc.and_(is_older, _is_within(rows["key"], keys))
    if retention_column is None or outside.clock is None:
        return within
    return pc.and_(within, _is_within(rows[retention_column].cast(pa.int64()), outside.clock))


def _is_within(column: pa.ChunkedArray, bounds: Range) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(column, bounds.least), pc.less_equal(column, bounds.greatest))
