"""The rows equal one run over all inputs, for other batches, tasks and steps."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel import Topology
from oriel.pipeline.commit import store_batch
from tests.campaigns import full
from tests.pipeline.run.inputs_run import Done, whole
from tests.pipeline.run.inputs_topology import CUT, every_input
from tests.pipeline.run.topic_logs import Record, Stores, write_topics

pytestmark = pytest.mark.slow

__all__ = ["whole"]


#: Stores with steps before them, and after a table join, a stream join and a foreign-key join.
SOME = {"plain", "enriched", "left", "by_foreign_key"}


@pytest.mark.parametrize("one_task_batches", [0, 64])
def test_small_batches_and_other_tasks_make_the_same(
    spark: SparkSession,
    tmp_path: Path,
    whole: Done,
    monkeypatch: pytest.MonkeyPatch,
    one_task_batches: int,
) -> None:
    """Two runs with other numbers of tasks, in several batches, have the same results."""
    # With 0, each change between this process and Spark changes the number of tasks.
    monkeypatch.setattr(store_batch, "ONE_TASK_BATCHES", one_task_batches)
    half: dict[str, dict[int, list[Record | bytes]]] = {}
    rest: dict[str, dict[int, list[Record | bytes]]] = {}
    for topic, partitions in whole.topics.items():
        # The batches decide only which users exist for a record.
        parts = 1 if topic == "users" else 2
        half[topic] = {p: log[: len(log) // parts] for p, log in partitions.items()}
        rest[topic] = {p: log[len(log) // parts :] for p, log in partitions.items()}
    # A topic can also begin later than the others.
    half["accounts"], rest["accounts"] = {}, whole.topics["accounts"]
    stores = Stores(spark, tmp_path)
    topology: Topology = every_input()
    write_topics(tmp_path / "log", half)
    # In each run, some batches are Spark jobs, and some run in this process.
    stores.run(topology, batch_bytes=1200, tasks=2, small_batch_bytes=1000)
    write_topics(tmp_path / "log", rest)
    stores.run(topology, batch_bytes=3000, tasks=3, small_batch_bytes=2000)
    assert stores.batches > 3
    for name in whole.stores.last.keys() - CUT:
        assert stores.newest(name) == whole.stores.newest(name), name
        assert stores.counters(name) == whole.stores.counters(name), name
    assert stores.dead_letters() == whole.stores.dead_letters()


@pytest.mark.parametrize(
    "names", [pytest.param(SOME, id="some stores"), *full(None, id="all stores")]
)
def test_steps_that_only_spark_knows_make_the_same(
    spark: SparkSession, tmp_path: Path, whole: Done, names: set[str] | None
) -> None:
    """Spark-only steps before stores and after joins have the same rows, next to other stores."""
    wanted = names or whole.stores.last.keys()
    stores = Stores(spark, tmp_path)
    write_topics(tmp_path / "log", whole.topics)
    topology = every_input(only_spark_knows=True)
    # This process cannot run such steps, however small the batch is.
    stores.run(Topology(tuple(store for store in topology.stores if store.name in wanted)))
    assert stores.batches == 1
    assert stores.last.keys() == wanted
    for name in wanted:
        assert stores.newest(name) == whole.stores.newest(name), name
        assert stores.counters(name) == whole.stores.counters(name), name
    dead_letters = [one for one in whole.stores.dead_letters() if one[3] in {None, *wanted}]
    assert stores.dead_letters() == dead_letters
