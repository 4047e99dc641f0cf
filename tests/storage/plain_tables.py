"""Tables that tests write batch by batch."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from oriel.storage.delta import (
    Table,
    open_table,
    store_schema,
    table_rows,
    write_file,
)

AGGREGATES = {"n": pa.int64(), "mean": pa.float64(), "all": pa.list_(pa.string())}


APPLICATION = "app"


START_MS = 1_357_034_400_123


def opened(directory: Path) -> Table:
    """Open the table, or create it."""
    return open_table(directory, store_schema(AGGREGATES), {"oriel.store": "{}"}, sync=True)


def rows(batch: int, *windows: tuple[str, int]) -> pa.Table:
    """Return rows of windows (key, start), as the engine emits them."""
    starts = [start for _, start in windows]
    changes = pa.table(
        {
            "key": pa.array([key for key, _ in windows], pa.string()),
            "window_start_ms": pa.array(starts, pa.int64()),
            "window_end_ms": pa.array([start + 10 for start in starts], pa.int64()),
            "n": pa.array([batch] * len(windows), pa.int64()),
            "mean": pa.array([None] * len(windows), pa.float64()),
            "all": pa.array([["x", None]] * len(windows), pa.list_(pa.string())),
            "timestamp_ms": pa.array(starts, pa.int64()),
            "final": [False] * len(windows),
        }
    )
    return table_rows(changes, AGGREGATES, batch)


def commit(table: Table, directory: Path, batch: int, *windows: tuple[str, int]) -> int:
    """Write and commit one batch."""
    file = write_file(directory, rows(batch, *windows), "part", sync=True)
    return table.commit([file], APPLICATION, batch, {"oriel": f"batch {batch}"})


def keys_and_revisions(directory: Path, **options: Any) -> list[tuple[str, int]]:
    """Return (key, revision) of the table's rows."""
    table = DeltaTable(directory).to_pyarrow_table(**options)
    return sorted(zip(table["key"].to_pylist(), table["revision"].to_pylist(), strict=True))


def entry(directory: Path, version: int) -> Path:
    """Return the path of a version's log entry."""
    return directory / "_delta_log" / f"{version:020d}.json"
