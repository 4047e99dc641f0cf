"""Write store tables for benchmarks of reads, with one window per second and key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    AggregateSpec,
    CommitRecord,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import (
    TIMESTAMP,
    arrow_type,
    open_table,
    run_name,
    store_schema,
    write_file,
)

STORE = "bench"
SLIDE_MS = 1_000
COMMITS = 10

_APPLICATION = "bench"
_DEFINITION = StoreDefinition(
    name=STORE,
    topic="events",
    grouped_by="key",
    window=WindowSpec(StoreKind.SLIDING, 10_000, 60_000),
    aggregates=(
        AggregateSpec("count", "count()", "long"),
        AggregateSpec("mean", "avg(value)", "double"),
        AggregateSpec("worst", "max(value)", "double"),
    ),
    key_groups=8,
    application=_APPLICATION,
)


class BenchTable:
    """The table of the store in a data directory. It is created if it does not exist."""

    def __init__(self, data: Path) -> None:
        """Open it. Its files and its log are not synced to disk."""
        self.path = data / "tables" / STORE
        self._schema = store_schema({a.name: arrow_type(a.type) for a in _DEFINITION.aggregates})
        properties = {STORE_PROPERTY: _DEFINITION.to_json()}
        self._table = open_table(self.path, self._schema, properties, sync=False)
        recorded = self._table.recorded_batch(_APPLICATION)
        self.next_batch = 0 if recorded is None else recorded + 1

    def commit(self, keys: npt.NDArray[np.int64], starts_ms: npt.NDArray[np.int64]) -> int:
        """Commit one window per key id and start as one batch, and return the version."""
        batch = self.next_batch
        rows = self._rows(batch, keys, starts_ms)
        file = write_file(self.path, rows, "part", sync=False, run=run_name(batch, batch))
        end_ms = int(starts_ms.max(initial=0))
        offsets = {"events": {"0": 100 * (batch + 1)}}
        record = CommitRecord(
            batch, offsets, {"events": {"0": end_ms}}, end_ms - 60_000, {"input": len(keys)}
        )
        info: Mapping[str, Any] = {COMMIT_INFO_KEY: record.to_json()}
        self.next_batch += 1
        return self._table.commit([file], _APPLICATION, batch, info)

    def _rows(
        self, batch: int, keys: npt.NDArray[np.int64], starts_ms: npt.NDArray[np.int64]
    ) -> pa.Table:
        values = np.random.default_rng(batch).normal(10.0, 3.0, len(keys))
        times = {
            "window_start": starts_ms,
            "window_end": starts_ms + 10_000,
            "timestamp": starts_ms + 9_000,
        }
        distinct, of_row = np.unique(keys, return_inverse=True)
        names = pa.array([key_name(int(number)) for number in distinct])
        columns = {
            "key": names.take(pa.array(of_row)),
            "count": pa.array(np.full(len(keys), 10)),
            "mean": pa.array(values),
            "worst": pa.array(values + 9.5),
            "final": pa.repeat(pa.scalar(value=True), len(keys)),
            "deleted": pa.repeat(pa.scalar(value=False), len(keys)),
            "revision": pa.repeat(pa.scalar(batch, pa.int64()), len(keys)),
            **{name: pa.array(ms * 1000).cast(TIMESTAMP) for name, ms in times.items()},
        }
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)


def key_name(number: int) -> str:
    """Return the key with this id."""
    return f"key-{number:07d}"


def make_table(data: Path, keys: int, windows: int) -> None:
    """Write ``windows`` windows per key. Each commit has all windows of some keys."""
    table = BenchTable(data)
    starts_ms = np.arange(windows, dtype=np.int64) * SLIDE_MS
    for numbers in np.array_split(np.arange(keys), min(keys, COMMITS)):
        table.commit(np.repeat(numbers, windows), np.tile(starts_ms, len(numbers)))
