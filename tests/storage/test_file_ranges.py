"""Tests of data file ranges, which decide what compaction merges and which rows it reads."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oriel.storage import StoreKind
from oriel.storage.delta.file_ranges import FileRanges, Range, RowGroup, file_ranges

_KEYS = ["a", "a", "b", "é", "é", "é"]
_STARTS = [10, 20, 10, 5, 15, 40]


def _table(unit: str = "us") -> pa.Table:
    """Return windows of 10 ms in the order of a store, for two row groups of three rows."""
    time = pa.timestamp(unit, tz="UTC")
    milliseconds = pa.timestamp("ms", tz="UTC")
    starts = pa.array(_STARTS, milliseconds).cast(time)
    ends = pa.array([start + 10 for start in _STARTS], milliseconds).cast(time)
    return pa.table(
        {
            "key": _KEYS,
            "window_start": starts,
            "window_end": ends,
            "n": [[1]] * 6,
            "revision": pa.array([7, 3, 4, 9, 5, 6], pa.int64()),
        }
    )


def _written(directory: Path, table: pa.Table, **options: Any) -> Path:
    path = directory / "part.parquet"
    pq.write_table(table, path, row_group_size=3, **options)
    return path


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("us", {}),
        ("us", {"write_statistics": False}),
        ("us", {"write_statistics": ["key"]}),
        ("ns", {}),
        ("ns", {"use_deprecated_int96_timestamps": True}),
    ],
    ids=["ours", "no statistics", "statistics of keys", "nanoseconds", "int96"],
)
def test_the_ranges_are_those_of_the_rows(
    tmp_path: Path, unit: str, options: dict[str, Any]
) -> None:
    """Ranges are correct for any writer. Without usable statistics, the rows are read."""
    ranges = file_ranges(_written(tmp_path, _table(unit), **options), StoreKind.TUMBLING)
    assert ranges.rows == 6
    assert ranges.keys == Range(b"a", "é".encode())
    assert ranges.clock == Range(5_000, 40_000)
    assert ranges.revisions == Range(3, 9)
    assert [group.rows for group in ranges.groups] == [3, 3]


def test_a_session_expires_by_its_end(tmp_path: Path) -> None:
    """Sessions use their end as `clock`, and a store without windows has no `clock`."""
    path = _written(tmp_path, _table())
    assert file_ranges(path, StoreKind.SESSION).clock == Range(15_000, 50_000)
    assert file_ranges(path, StoreKind.NONE).clock is None


def test_places_of_row_groups(tmp_path: Path) -> None:
    """A row group with one key is bounded by key and start, and other groups by key only."""
    first, second = file_ranges(_written(tmp_path, _table()), StoreKind.TUMBLING).groups
    assert (first.first, first.last) == ((b"a", -(2**63)), (b"b", 2**63 - 1))
    key = "é".encode()
    assert (second.first, second.last) == ((key, 5_000), (key, 40_000))
    unknown = _written(tmp_path, _table(), write_statistics=False)
    for group in file_ranges(unknown, StoreKind.TUMBLING).groups:
        assert (group.first, group.last) == (None, None)


def test_a_file_without_rows_or_of_no_store_has_no_ranges(tmp_path: Path) -> None:
    """An empty file, or a file of a table without a store, has row counts and no ranges."""
    path = _written(tmp_path, _table())
    ranges = file_ranges(path, None)
    assert (ranges.rows, ranges.keys, ranges.clock, ranges.revisions) == (6, None, None, None)
    assert [(group.number, group.rows, group.first) for group in ranges.groups] == [
        (0, 3, None),
        (1, 3, None),
    ]
    empty = file_ranges(_written(tmp_path, _table()[:0]), StoreKind.TUMBLING)
    assert (empty.rows, empty.keys) == (0, None)


def _ranges(keys: Range | None, clock: Range | None) -> FileRanges:
    return FileRanges(1, (RowGroup(0, 1, 1, None, None),), keys, clock, Range(1, 1))


@pytest.mark.parametrize(
    ("keys", "clock", "shared"),
    [
        (Range(b"b", b"c"), Range(10, 20), True),
        (Range(b"a", b"b"), Range(10, 20), True),
        (Range(b"d", b"e"), Range(10, 20), False),
        (Range(b"b", b"c"), Range(20, 30), True),
        (Range(b"b", b"c"), Range(21, 30), False),
        (Range(b"b", b"c"), None, True),
        (None, None, False),
    ],
)
def test_two_files_share_windows_if_keys_and_times_overlap(
    keys: Range | None, clock: Range | None, shared: bool
) -> None:
    """Both ends of a range are inclusive, and a file without rows shares no windows."""
    one, other = _ranges(Range(b"b", b"c"), Range(10, 20)), _ranges(keys, clock)
    assert one.can_share_windows(other) is shared
    assert other.can_share_windows(one) is shared
