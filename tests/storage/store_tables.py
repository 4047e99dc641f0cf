"""Small store tables for tests, which delta-rs writes with the schema of the contract."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    AggregateSpec,
    CommitRecord,
    StoreDefinition,
    StoreKind,
    WindowSpec,
)
from oriel.storage.delta import arrow_type, store_schema

#: The fields of a window in a test: the key, the start (except in a store without windows), and
#: fields that differ from the defaults.
Row = Mapping[str, Any]

TUMBLING = WindowSpec(StoreKind.TUMBLING, 10, 5)
HOPPING = WindowSpec(StoreKind.HOPPING, 10, 5, 2)
SLIDING = WindowSpec(StoreKind.SLIDING, 10, 5)
SESSION = WindowSpec(StoreKind.SESSION, 10, 5)
NONE = WindowSpec(StoreKind.NONE, 0, 0)
VERSIONED = WindowSpec(StoreKind.VERSIONED, 1, 20)


def make_definition(
    name: str = "store",
    *,
    retention_ms: int | None = None,
    window: WindowSpec = SLIDING,
    key_type: str = "text",
) -> StoreDefinition:
    """Define a store with one aggregate of each scalar type and a list."""
    return StoreDefinition(
        name=name,
        topic="events",
        grouped_by="key",
        window=window,
        aggregates=(
            AggregateSpec("n", "count()", "long"),
            AggregateSpec("mean", "avg(v)", "double"),
            AggregateSpec("last", "last(s)", "string"),
            AggregateSpec("all", "collect_list(v)", "array<double>"),
        ),
        key_groups=4,
        retention_ms=retention_ms,
        application=f"{name}-app",
        key_type=key_type,
    )


def make_record(batch: int, offset: int | None = None, **changes: Any) -> CommitRecord:
    """Return the commit record of a batch that read partition 0 up to ``offset``."""
    end = 100 * (batch + 1) if offset is None else offset
    fields: dict[str, Any] = {
        "batch": batch,
        "offsets": {"events": {"0": end}},
        "stream_time_ms": {"events": {"0": 1000 * batch}},
        "close_ms": 1000 * batch - 5,
        "counters": {"input": end, "applied": end, "late": 0, "dead_lettered": 0},
    }
    return CommitRecord(**{**fields, **changes})


class StoreTable:
    """A store's Delta table in a test."""

    def __init__(self, data: Path, definition: StoreDefinition) -> None:
        """Create the table (version 0) in the data directory."""
        self.definition = definition
        self.path = data / "tables" / definition.name
        self.log = self.path / "_delta_log"
        kinds = {a.name: arrow_type(a.type) for a in definition.aggregates}
        self.schema = store_schema(kinds, windowed=definition.window.has_window_columns)
        self.batch = -1
        self.path.mkdir(parents=True)
        DeltaTable.create(
            self.path,
            self.schema,
            configuration={STORE_PROPERTY: definition.to_json()},
            raise_if_key_not_exists=False,
        )

    def commit(self, rows: Sequence[Row] = (), record: CommitRecord | None = None) -> int:
        """Append the rows of the next batch with its commit record, and return the new version."""
        self.batch += 1
        properties = CommitProperties(
            custom_metadata={COMMIT_INFO_KEY: (record or make_record(self.batch)).to_json()},
            app_transactions=[Transaction(self.definition.application, self.batch)],
        )
        if rows:
            write_deltalake(
                self.path, self.arrow(rows), mode="append", commit_properties=properties
            )
        else:
            table = DeltaTable(self.path)
            table.create_write_transaction([], "append", self.schema, commit_properties=properties)
        return DeltaTable(self.path).version()

    def arrow(self, rows: Sequence[Row]) -> Any:
        """Return rows as an Arrow table with the schema of the store."""
        complete = [window_row(row, self.definition, self.batch) for row in rows]
        plain = pa.schema([
            pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type)
            for f in self.schema
        ])  # fmt: skip
        return pa.Table.from_pylist(complete, plain).cast(self.schema)

    def entry(self, version: int) -> Path:
        """Return the path of a version's log entry."""
        return self.log / f"{version:020d}.json"


def window_row(row: Row, definition: StoreDefinition, batch: int) -> dict[str, Any]:
    """Return a full table row, with times in microseconds, from the fields of a test."""
    windowed = definition.window.has_window_columns
    start_ms = row["start"] if windowed else 0
    end_ms = row.get("end", start_ms + definition.window.size_ms)
    window = {"window_start": start_ms * 1000, "window_end": end_ms * 1000}
    return {
        "key": row["key"],
        **(window if windowed else {}),
        "n": row.get("n", 1),
        "mean": row.get("mean", 1.5),
        "last": row.get("last", "x"),
        "all": row.get("all", [1.0]),
        "timestamp": row.get("timestamp", end_ms) * 1000,
        **({"final": row.get("final", False)} if windowed else {}),
        "deleted": row.get("deleted", False),
        "revision": row.get("revision", batch),
        **{a.name: row[a.name] for a in definition.aggregates if a.name in row},
    }


def window_fields(row: Row, definition: StoreDefinition) -> dict[str, Any]:
    """Return the API object of a row, computed without code of the product."""
    full = window_row(row, definition, 0)
    fields = {name: full[name] for name in ("key", "n", "mean", "last", "all")}
    fields["timestamp_ms"] = full["timestamp"] // 1000
    if not definition.window.is_windowed:
        return fields
    return fields | {
        "window_start_ms": full["window_start"] // 1000,
        "window_end_ms": full["window_end"] // 1000,
        "final": full["final"],
    }
