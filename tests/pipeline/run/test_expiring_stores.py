"""Stores whose keys expire, on real Spark."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, Topology, count, sum
from oriel.storage import IncompatibleStore
from tests.pipeline.run.topic_logs import Record, Stores, write_topics

pytestmark = pytest.mark.slow

TTL_MS = 40


def topology(ttl_ms: int | None = TTL_MS) -> Topology:
    """Return a store of each kind of rows over one topic."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "n INT").group_by_key()
    stream.aggregate(c=count(), total=sum("n")).materialize("columns", ttl_ms=ttl_ms)
    stream.reduce(lambda old, new: {"n": old["n"] + new["n"]}).materialize("f", ttl_ms=ttl_ms)
    builder.table("t", "n INT").materialize("table", ttl_ms=ttl_ms)
    return builder.build()


def random_log(random: Random, number: int) -> list[Record | bytes]:
    """Return records with ever new keys. Some keys return."""
    return [
        (f"k{at // 20 + random.choice((0, 0, 1, 3))}", max(0, 2 * at + random.randint(-50, 5)),
         {"n": at})
        for at in range(number)
    ]  # fmt: skip


def expected(log: list[Record | bytes]) -> dict[str, list[tuple[str, int, int]]]:
    """Return the rows of each store as (key, number, time), one record after the other."""
    live: dict[str, list[tuple[int, int]]] = {}
    now = 0
    for record in log:
        assert not isinstance(record, bytes)
        key, time, value = record
        assert key is not None
        assert value is not None
        now = max(now, time)
        if time < now - TTL_MS:
            continue
        lives = live.setdefault(key, [])
        if lives and max(at for at, _ in lives) + TTL_MS < now:
            lives.clear()
        lives.append((time, value["n"]))
    rows: dict[str, list[tuple[str, int, int]]] = {"columns": [], "f": []}
    for key, lives in sorted(live.items()):
        newest = max(at for at, _ in lives)
        if newest + TTL_MS >= now:
            total = 0
            for _, n in lives:
                total += n
            rows["columns"].append((key, len(lives), newest))
            rows["f"].append((key, total, newest))
    return rows


@pytest.mark.parametrize("small_batch_bytes", [0, 2**26], ids=["Spark", "this process"])
def test_keys_expire_on_spark_for_any_batches(
    spark: SparkSession, tmp_path: Path, small_batch_bytes: int
) -> None:
    """Rows equal the slow model, each record counts once, and states hold only live keys."""
    log = random_log(Random(1), 300)
    write_topics(tmp_path / "log", {"t": {0: log}})
    stores = Stores(spark, tmp_path)
    stores.run(topology(), batch_bytes=4_000, small_batch_bytes=small_batch_bytes)
    assert stores.batches > 3
    wanted = expected(log)
    columns = [(row["key"], row["c"], row["timestamp"]) for row in stores.newest("columns")]
    assert columns == wanted["columns"]
    assert [(r["key"], r["n"], r["timestamp"]) for r in stores.newest("f")] == wanted["f"]
    for store in ("columns", "f", "table"):
        counters = stores.counters(store)
        assert counters["input"] == len(log)
        assert counters["late"] > 0
        rows = len(stores.newest(store))
        # The expiry, the aggregation and the table have one row per live key each.
        operators = 2 if store == "table" else 3
        assert stores.last[store].open_records == operators * rows


def test_another_ttl_needs_a_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    """A start with another ttl_ms is rejected, and a rebuilt store has the rows of the new one."""
    log: list[Record | bytes] = [("a", 0, {"n": 1}), ("b", 100, {"n": 2})]
    write_topics(tmp_path / "log", {"t": {0: log}})
    stores = Stores(spark, tmp_path)
    stores.run(topology(200))
    assert [row["key"] for row in stores.newest("columns")] == ["a", "b"]
    for other in (TTL_MS, None):
        with pytest.raises(IncompatibleStore, match="oriel rebuild"):
            stores.run(topology(other))
    for store in ("columns", "f", "table"):
        stores.rebuild(topology(TTL_MS), store)
    stores.run(topology(TTL_MS))
    assert [row["key"] for row in stores.newest("columns")] == ["b"]
