"""Changes by other programs to a store's table, without Spark, and the resulting windows.

``expected`` applies the rule of docs/decisions/0030 row by row to the rows that delta-rs reads.
"""

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from oriel.storage import COMMIT_INFO_KEY, CommitRecord
from oriel.storage.delta.maintenance.live_files import TableFiles
from tests.storage.store_tables import Row, StoreTable, window_fields

#: A row of a table as delta-rs returns it.
Stored = dict[str, Any]


def live_rows(table: StoreTable) -> list[Stored]:
    """Return all rows of the newest version, with times in ms."""
    rows = DeltaTable(table.path).to_pyarrow_table().to_pylist()
    return [{name: _ms(value) for name, value in row.items()} for row in rows]


def expected(
    table: StoreTable, rows: Iterable[Stored], observed_ms: int = -1
) -> list[dict[str, Any]]:
    """Return the API objects that these live rows produce, in the order of the API."""
    counting: dict[tuple[Any, ...], Stored] = {}
    for row in rows:
        window = (row["key"].encode(), row["window_start"], row["window_end"])
        if window not in counting or _rank(row, table) > _rank(counting[window], table):
            counting[window] = row
    retention_ms = table.definition.retention_ms
    earliest_ms = 0 if retention_ms is None else max(0, observed_ms - retention_ms + 1)
    return [
        _served_row(row, table)
        for (_, start, _), row in sorted(counting.items())
        if not row["deleted"] and start >= earliest_ms
    ]


def append(table: StoreTable, rows: Sequence[Row]) -> None:
    """Append rows as another program does, without a batch number or a position."""
    write_deltalake(table.path, table.arrow(rows), mode="append")


def rewrite(table: StoreTable, rows: Sequence[Stored], record: CommitRecord | None) -> None:
    """Replace all files by one file with these rows. As in a compaction, the data does not change.

    Args:
        table: The table.
        rows: The rows of the new file, with times in ms.
        record: The commit record to repeat in the entry, as the pipeline's maintenance does.
    """
    delta = DeltaTable(table.path)
    old = pa.table(delta.get_add_actions()).column("path").to_pylist()
    name = f"compacted-{uuid.uuid4()}.parquet"
    plain = pa.schema([
        pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type)
        for f in table.schema
    ])  # fmt: skip
    microseconds = [
        {n: v * 1000 if pa.types.is_timestamp(table.schema.field(n).type) else v
         for n, v in row.items()}
        for row in rows
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(microseconds, plain).cast(table.schema), table.path / name)
    now_ms = time.time_ns() // 1_000_000
    add = {
        "path": name, "partitionValues": {}, "size": (table.path / name).stat().st_size,
        "modificationTime": now_ms, "dataChange": False,
    }  # fmt: skip
    said = {} if record is None else {COMMIT_INFO_KEY: record.to_json()}
    version = delta.version() + 1
    actions = [
        {"commitInfo": {"timestamp": now_ms, "operation": "OPTIMIZE", **said}},
        {"add": add},
        *({"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": False}}
          for path in old),
        {"txn": {"appId": f"{table.definition.application}/maintenance", "version": version}},
    ]  # fmt: skip
    table.entry(version).write_bytes(b"\n".join(map(orjson.dumps, actions)))


def clean_log(table: StoreTable) -> None:
    """Write a Delta checkpoint, and delete older entries except the one with the last position."""
    delta = DeltaTable(table.path)
    delta.create_checkpoint()
    recorded = TableFiles(table.path).recorded
    for version in range(delta.version()):
        if table.entry(version).exists() and (recorded is None or version != recorded.version):
            table.entry(version).unlink()


def vacuum(table: StoreTable) -> None:
    """Delete all data files that the newest version does not reference."""
    named = set(pa.table(DeltaTable(table.path).get_add_actions()).column("path").to_pylist())
    for path in table.path.glob("*.parquet"):
        if path.name not in named:
            path.unlink()


def compact(table: StoreTable, record: CommitRecord | None = None) -> None:
    """Write all live rows to one file, and delete all older entries and files."""
    rewrite(table, live_rows(table), record)
    clean_log(table)
    vacuum(table)


def _ms(value: Any) -> Any:
    """Convert a time to ms since 1970, and return other values unchanged."""
    return int(value.timestamp() * 1000) if hasattr(value, "timestamp") else value


def _served_row(row: Stored, table: StoreTable) -> dict[str, Any]:
    times = {"start": row["window_start"], "end": row["window_end"]}
    return window_fields({**row, **times}, table.definition)


def _rank(row: Stored, table: StoreTable) -> tuple[int, bool, bytes]:
    """Rank by revision, then a window above its removal, then the greater JSON."""
    fields = _served_row(row, table)
    order = ["key", "window_start_ms", "window_end_ms", "n", "mean", "last", "all",
             "timestamp_ms", "final"]  # fmt: skip
    text = orjson.dumps({name: fields[name] for name in order})
    return row["revision"], not row["deleted"], text
