"""A store with versions on real Spark has the rows of the driver, for any batches and restarts."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import oriel.tables
from oriel import StreamsBuilder, Topology
from oriel.testing import Record, TopologyTestDriver
from tests.pipeline.run.topic_logs import Stores, write_topics

pytestmark = pytest.mark.slow

#: Key, start and end of the window in ms -> value, and whether the version has ended.
Rows = dict[tuple[str, int, int], tuple[int | None, bool]]


def topology() -> Topology:
    """Keep the versions of prices for 300 ms."""
    builder = StreamsBuilder()
    prices = builder.versioned_table("prices", "price BIGINT", history_retention_ms=300)
    prices.materialize("prices", versions=True)
    return builder.build()


def random_log() -> dict[str, dict[int, list[Any]]]:
    """Return two partitions with records out of order, late records and tombstones."""
    random = Random(8)
    log: dict[int, list[Any]] = {0: [], 1: []}
    for number in range(300):
        time_ms = max(0, 5 * number + random.randint(-400, 40))
        value = None if random.random() < 0.2 else {"price": number}
        log[number % 2].append((random.choice("abcdef"), time_ms, value))
    return {"prices": log}


def table_rows(directory: Path) -> Rows:
    """Return the rows that count, computed without code of the product."""
    newest: dict[tuple[str, int, int], dict[str, Any]] = {}
    rows = DeltaTable(directory / "data" / "tables" / "prices").to_pyarrow_table().to_pylist()
    for row in sorted(rows, key=lambda row: row["revision"]):
        start, end = (round(1000 * row[n].timestamp()) for n in ("window_start", "window_end"))
        newest[row["key"], start, end] = row
    return {
        place: (row["price"], row["final"]) for place, row in newest.items() if not row["deleted"]
    }


def driver_rows(log: dict[str, dict[int, list[Any]]]) -> tuple[Rows, int]:
    """Return the rows and the late records of the test driver."""
    rows: Rows = {}
    with TopologyTestDriver(topology()) as driver:
        for partition in (0, 1):
            driver.pipe_input("prices", [], partition)
        for partition, records in log["prices"].items():
            piped = [Record(key, value, time_ms) for key, time_ms, value in records]
            driver.pipe_input("prices", piped, partition)
            for row in driver.read_output("prices"):
                place = row["key"], row["window_start_ms"], row["window_end_ms"]
                if row["deleted"]:
                    del rows[place]
                else:
                    rows[place] = row["price"], row["final"]
        return rows, driver.late


@pytest.mark.parametrize("parts", [1, 3])
def test_runs_have_the_rows_of_the_driver(spark: SparkSession, tmp_path: Path, parts: int) -> None:
    """Rows and counters are the same in one run and with restarts, also as a Spark job."""
    log = random_log()
    expected, late = driver_rows(log)
    assert late > 0
    assert [row for row in expected.values() if row[0] is None]
    stores = Stores(spark, tmp_path)
    size = 150 // parts
    for part in range(parts):
        next_records = {p: log["prices"][p][part * size : (part + 1) * size] for p in (0, 1)}
        write_topics(tmp_path / "log", {"prices": next_records})
        stores.run(topology(), small_batch_bytes=2**26 if part else 0)
    assert table_rows(tmp_path) == expected
    counters = stores.counters("prices")
    assert (counters["input"], counters["late"]) == (300, late)
    current = oriel.tables.current(tmp_path / "data" / "tables" / "prices").arrow()
    assert len(current) == len(expected)
