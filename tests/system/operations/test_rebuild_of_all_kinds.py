"""A rebuild of a store of each kind has the rows of a new run."""

import shutil
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from oriel.pipeline.sources import EventLog
from tests.campaigns import full
from tests.e2e.event_logs import random_logs, write_lines
from tests.pipeline.run.inputs_topology import every_input, random_topics
from tests.pipeline.run.rebuilt_stores import Bench
from tests.pipeline.run.topic_logs import write_topics
from tests.system.kills import kinds_topology

pytestmark = pytest.mark.slow

#: Stores that Spark jobs rebuild: of two topics, after a table join, of updates.
BY_SPARK = ("cogroup", "enriched", "updated")
#: One store of each kind: without windows, of several topics, enriched, all joins, functions.
OF_EACH_KIND = (*BY_SPARK, "outer", "joined_twice", "folded", "by_foreign_key", "newest_by_city")


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    """Return a bench without records."""
    return Bench(spark, tmp_path)


# Each kind of windows with one of both strategies, and the stores with a unique kind.
@pytest.mark.parametrize(
    "left_out",
    [
        pytest.param(
            {"tumbling_update", "hopping_close", "sliding_update", "session_close"},
            id="one of each",
        ),
        *full(set(), id="all"),
    ],
)
def test_a_rebuild_of_each_kind_is_a_fresh_run(bench: Bench, left_out: set[str]) -> None:
    """A rebuild equals a new run for all windows, emit strategies, functions and no windows."""
    lines = random_logs(Random(3))
    half = {p: of_partition[: len(of_partition) // 2] for p, of_partition in lines.items()}
    write_lines(bench.log / kinds_topology.TOPIC, half)
    stores = [store.name for store in kinds_topology.topology.stores]
    bench.run(kinds_topology.topology, log=EventLog(bench.log, 12_000))
    before = {name: bench.newest(name) for name in stores}
    dead_letters = _dead_letters(bench)
    for name in stores:
        if name not in left_out:
            bench.run(kinds_topology.topology, name, log=EventLog(bench.log, 10_000))
    assert {name: bench.newest(name) for name in stores} == before
    assert _dead_letters(bench) == dead_letters != []
    shutil.rmtree(bench.log)
    write_lines(bench.log / kinds_topology.TOPIC, lines)
    bench.assert_as_fresh(kinds_topology.topology, *stores)


def _dead_letters(bench: Bench) -> list[str]:
    dead_letters = DeltaTable(bench.settings.data / "tables" / "_dead_letters").to_pyarrow_table()
    return sorted(map(str, dead_letters.drop_columns(["revision"]).to_pylist()))


@pytest.mark.parametrize(
    "rebuilt",
    [pytest.param(OF_EACH_KIND, id="one of each kind"), *full(None, id="all")],
)
def test_a_rebuild_of_joins_is_a_fresh_run(bench: Bench, rebuilt: tuple[str, ...] | None) -> None:
    """A rebuild of joins and cogroups of several topics works in Spark jobs and in the driver.

    The topics are one batch, because a table join reads the table as of the batch.
    """
    write_topics(bench.log, random_topics(5))
    topology = every_input()
    stores = [store.name for store in topology.stores]
    bench.run(topology)
    before = {name: bench.newest(name) for name in stores}
    for name in rebuilt or stores:
        small_batch_bytes = 0 if name in BY_SPARK else 2**26
        log = EventLog(bench.log, small_batch_bytes=small_batch_bytes)
        bench.run(topology, name, log=log)
    assert {name: bench.newest(name) for name in stores} == before
