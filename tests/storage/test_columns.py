"""Tests of the types and rows of a store's table."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from oriel.storage.delta import TIMESTAMP, arrow_type, delta_type, store_schema, table_rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def changes(*windows: tuple[str, int, int]) -> pa.Table:
    """Return changed windows (key, start, end) with one aggregate."""
    keys, starts, ends = zip(*windows, strict=True) if windows else ((), (), ())
    return pa.table(
        {
            "n": pa.array([None] * len(keys), pa.int64()),
            "key": pa.array(keys, pa.string()),
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array(ends, pa.int64()),
            "timestamp_ms": pa.array(ends, pa.int64()),
            "final": pa.array([True] * len(keys), pa.bool_()),
        }
    )


@pytest.mark.parametrize(
    ("name", "column_type"),
    [
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("boolean", pa.bool_()),
        ("array<long>", pa.list_(pa.int64())),
        ("array<array<string>>", pa.list_(pa.list_(pa.string()))),
    ],
)
def test_each_type_has_one_name(name: str, column_type: pa.DataType) -> None:
    """Each Delta type name converts to one Arrow type and back, including nested lists."""
    assert delta_type(column_type) == name
    assert arrow_type(name) == column_type


def test_columns_stand_in_the_contract_order() -> None:
    """Key and window are the first columns, then the aggregates, then the common columns."""
    schema = store_schema({"n": pa.int64()})
    assert schema.names == [
        "key", "window_start", "window_end", "n", "timestamp", "final", "deleted", "revision",
    ]  # fmt: skip
    assert [field.name for field in schema if field.nullable] == ["n"]
    assert {schema.field(name).type for name in ("window_start", "timestamp")} == {TIMESTAMP}


@pytest.mark.parametrize("start_ms", [0, 1, 999, 1_357_034_400_123, 253_402_300_799_989])
def test_times_keep_their_milliseconds(start_ms: int) -> None:
    """Integer milliseconds convert exactly to UTC timestamps, up to the end of the year 9999."""
    rows = table_rows(changes(("a", start_ms, start_ms + 10)), {"n": pa.int64()}, 7)
    (row,) = rows.to_pylist()
    expected: dict[str, Any] = {
        "key": "a",
        "window_start": EPOCH + timedelta(milliseconds=start_ms),
        "window_end": EPOCH + timedelta(milliseconds=start_ms + 10),
        "n": None,
        "timestamp": EPOCH + timedelta(milliseconds=start_ms + 10),
        "final": True,
        "deleted": False,
        "revision": 7,
    }
    assert row == expected


def test_no_change_is_no_row() -> None:
    """A batch without changes returns an empty table with all columns."""
    rows = table_rows(changes(), {"n": pa.int64()}, 0)
    assert rows.num_rows == 0
    assert rows.schema == store_schema({"n": pa.int64()})


def test_a_store_without_windows_has_no_column_of_them() -> None:
    """A store without windows has no columns for window start, window end and ``final``."""
    aggregates = {"n": pa.int64(), "all": pa.list_(pa.string())}
    schema = store_schema(aggregates, windowed=False)
    assert schema.names == ["key", "n", "all", "timestamp", "deleted", "revision"]
    rows = table_rows(changes(("a", 0, 5)), {"n": pa.int64()}, 7, windowed=False)
    assert rows.to_pylist() == [
        {
            "key": "a",
            "n": None,
            "timestamp": EPOCH + timedelta(milliseconds=5),
            "deleted": False,
            "revision": 7,
        }
    ]


@pytest.mark.parametrize("windowed", [True, False])
def test_removed_windows_are_marked(windowed: bool) -> None:
    """The table gets the engine's ``deleted`` column, and without one no row is deleted."""
    both = changes(("a", 0, 5), ("b", 0, 5))
    marked = both.append_column("deleted", pa.array([True, False]))
    aggregates = {"n": pa.int64()}
    rows = table_rows(marked, aggregates, 0, windowed=windowed)
    assert rows["deleted"].to_pylist() == [True, False]
    unmarked = table_rows(both, aggregates, 0, windowed=windowed)
    assert unmarked["deleted"].to_pylist() == [False, False]
    assert unmarked.schema == store_schema(aggregates, windowed=windowed)
