"""The queries of docs/how-to/query-tables-with-sql.md, their tables, and what the service returns.

``write_tables`` writes tables that differ in everything that a query must respect: windows with
several revisions, merged sessions, final and expired windows.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage import AggregateSpec, StoreDefinition, WindowSpec
from tests.app.serving import Serving
from tests.documentation.pages import IN_SPARK, OVER_A_TABLE, blocks
from tests.models.record_windows import windows_of
from tests.storage.store_tables import HOPPING, SESSION, SLIDING, TUMBLING, StoreTable
from tests.storage.waiting import WAIT_SECONDS
from tests.tidy.project import ROOT

PAGE = ROOT / "docs" / "how-to" / "query-tables-with-sql.md"
#: The table that the page names in its queries, and shows.
SHOWN = "revenue_by_minute"
#: The results of the three queries, by the names that the page uses.
CURRENT_ROWS, FINAL_ROWS, CURRENT_WINDOWS = QUERIES = (
    "current_rows", "final_rows", "current_windows",
)  # fmt: skip
#: Store -> its windows and its retention.
STORES = {
    "tumbling": (TUMBLING, None),
    "hopping": (HOPPING, None),
    "sliding": (SLIDING, None),
    "sessions": (SESSION, None),
    "recent": (SLIDING, 60),
}
#: The number of the tool DuckDB if the package of Oriel is not used.
WITHOUT_PACKAGE = 3
#: Query -> its rows.
Results = dict[str, list[dict[str, Any]]]
_KEYS = ("oslo", "berlin", "lisbon")
_MINUTE = WindowSpec(TUMBLING.kind, 60_000, 10_000)
_RECORDS, _BATCHES = 90, 6


class _Window(NamedTuple):
    """A window as the engine knows it after some records."""

    key: str
    start_ms: int
    end_ms: int
    timestamp_ms: int
    records: int


def python_queries(tool: int) -> list[str]:
    """Return three blocks of the page: DuckDB, Polars, pandas, DuckDB without the package (3)."""
    found = [block.text for block in blocks(PAGE) if block.note == OVER_A_TABLE]
    assert len(found) == 10
    # One block per tool in the first step, two per tool in the second one, and one in the third.
    first = found[9] if tool == WITHOUT_PACKAGE else found[tool]
    return [first, *found[3 + 2 * (tool % 3) : 5 + 2 * (tool % 3)]]


def run_in_spark(spark: Any, table: Path, *, with_package: bool) -> None:
    """Run the three blocks of the page for Spark, which create views."""
    found = [block for block in blocks(PAGE) if block.note == IN_SPARK]
    assert [block.language for block in found] == ["python", "sql", "sql", "sql"]
    if with_package:
        exec(over(found[0].text, table), {"spark": spark})  # noqa: S102 - it is what the page shows
    for block in found[1:3] if with_package else [found[3], *found[1:3]]:
        spark.sql(over(block.text, table))


def over(query: str, table: Path) -> str:
    """Return a query of the page over another table."""
    return query.replace(f"data/tables/{SHOWN}", str(table))


def run_python(tool: int, tables: Sequence[Path]) -> dict[str, Results]:
    """Run the blocks of a tool over tables, and return the rows of each query by store.

    A process of its own runs them: DuckDB reports leaks on stderr if a process ends after tests of
    the project, which freeze the objects that Python collects.
    """
    command = [sys.executable, "-P", "-m", "tests.documentation.table_queries", str(tool)]
    done = subprocess.run(
        [*command, *map(str, tables)], cwd=ROOT, capture_output=True, check=False,
        timeout=2 * WAIT_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Results] = orjson.loads(done.stdout)
    return found


def _main(tool: str, *tables: str) -> None:
    found = {}
    for table in map(Path, tables):
        scope: dict[str, Any] = {}
        for query in python_queries(int(tool)):
            exec(over(query, table), scope)  # noqa: S102 - it is what the page shows
        found[table.name] = {name: as_served(_arrow(scope[name])) for name in QUERIES}
    sys.stdout.buffer.write(orjson.dumps(found))
    sys.stdout.flush()
    # A thread of a native library that still runs at the end of Python can abort the process
    # ("terminate called without an active exception"), after all rows were read.
    os._exit(0)


def as_served(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows with the names and times of the service, by key, start and end."""
    columns = {}
    for name in rows.column_names:
        column = rows.column(name)
        if pa.types.is_timestamp(column.type):
            ms = pc.cast(column, pa.timestamp("us", tz="UTC")).cast(pa.int64())
            columns[f"{name}_ms"] = pc.divide(ms, 1000)
        elif name not in {"deleted", "revision"}:
            columns[name] = column
    return sorted(pa.table(columns).to_pylist(), key=_place)


def served(service: Serving, store: str) -> Results:
    """Return what the service returns in place of each query."""
    reads = ("fetchAll?limit=10000", "fetchAll?final=true&limit=10000", "currentAll?limit=10000")
    return {
        name: sorted(service.get(f"/v1/stores/{store}/{read}").json["windows"], key=_place)
        for name, read in zip(QUERIES, reads, strict=True)
    }


def shown_rows() -> list[dict[str, Any]]:
    """Return the rows of the table that the page shows, with times in ms of that day."""
    lines = re.findall(r"^\| (oslo .*) \|$", PAGE.read_text(), re.MULTILINE)
    names = ("key", "start", "end", "revenue", "timestamp", "final", "deleted", "revision")
    rows = [dict(zip(names, line.split(" | "), strict=True)) for line in lines]
    return [
        row
        | {name: _ms(row[name]) for name in ("start", "end", "timestamp")}
        | {name: row[name] == "true" for name in ("final", "deleted")}
        | {name: int(row[name]) for name in ("revenue", "revision")}
        for row in rows
    ]


def write_tables(data: Path) -> None:
    """Write the table that the page shows, and tables of random records of each kind."""
    rows = shown_rows()
    table = StoreTable(data, _definition(SHOWN, _MINUTE, "revenue", None))
    for revision in range(1 + max(row["revision"] for row in rows)):
        table.commit([row for row in rows if row["revision"] == revision])
    for store, (window, retention_ms) in STORES.items():
        table = StoreTable(data, _definition(store, window, "records", retention_ms))
        records = _records(Random(store))
        before: dict[tuple[str, int, int], dict[str, object]] = {}
        for batch in range(_BATCHES):
            so_far = records[: (batch + 1) * len(records) // _BATCHES]
            close_ms = max(time_ms for _, time_ms in so_far) - window.grace_ms
            last_ms = window.size_ms if window.kind.is_session else -int(window is not SLIDING)
            after = {
                (each.key, each.start_ms, each.end_ms): {
                    "key": each.key, "start": each.start_ms, "end": each.end_ms,
                    "timestamp": each.timestamp_ms, "records": each.records,
                    "final": each.end_ms + last_ms < close_ms,
                }
                for each in _windows(so_far, window)
            }  # fmt: skip
            changed = [row for place, row in after.items() if before.get(place) != row]
            merged = [
                row | {"deleted": True} for place, row in before.items() if place not in after
            ]
            table.commit([*changed, *merged])
            before = after


def _windows(records: Sequence[tuple[str, int]], window: WindowSpec) -> list[_Window]:
    if not window.kind.is_session:
        last_ms = 0 if window.kind.has_inclusive_end else 1
        found = []
        for put in windows_of(records, window):
            end_ms = put.start_ms + window.size_ms
            times = [
                t for key, t in records if key == put.key and put.start_ms <= t <= end_ms - last_ms
            ]
            found.append(_Window(put.key, put.start_ms, end_ms, max(times), len(times)))
        return found
    sessions: list[_Window] = []
    for key, time_ms in sorted(records):
        last = sessions[-1] if sessions else None
        if last and last.key == key and time_ms - last.end_ms <= window.size_ms:
            sessions[-1] = _Window(key, last.start_ms, time_ms, time_ms, last.records + 1)
        else:
            sessions.append(_Window(key, time_ms, time_ms, time_ms, 1))
    return sessions


def _records(random: Random) -> list[tuple[str, int]]:
    """Return records that are out of order, and never late."""
    times = sorted(random.randrange(250) for _ in range(_RECORDS))
    times.sort(key=lambda time_ms: time_ms + random.randrange(6))
    return [(random.choice(_KEYS), time_ms) for time_ms in times]


def _definition(
    name: str, window: WindowSpec, aggregate: str, retention_ms: int | None
) -> StoreDefinition:
    return StoreDefinition(
        name=name, topic="orders", grouped_by="key", window=window, key_groups=4,
        aggregates=(AggregateSpec(aggregate, "count()", "long"),), retention_ms=retention_ms,
        application=f"{name}-app", key_type="text",
    )  # fmt: skip


def _arrow(result: Any) -> pa.Table:
    """Return the result of DuckDB, Polars or pandas as an Arrow table."""
    if isinstance(result, pa.Table):
        return result
    if hasattr(result, "collect"):
        return result.collect().to_arrow()
    if hasattr(result, "to_arrow_table"):
        return result.to_arrow_table()
    return pa.Table.from_pandas(result, preserve_index=False)


def _place(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["key"], row["window_start_ms"], row["window_end_ms"]


def _ms(time: str) -> int:
    hours, minutes, seconds = map(int, time.split(":"))
    return ((hours * 60 + minutes) * 60 + seconds) * 1000


if __name__ == "__main__":
    _main(*sys.argv[1:])
