"""Bytes of an event log that change after they were read are an error at the next start."""

from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, Topology
from oriel.pipeline.errors import EventLogError
from oriel.storage import current_files, with_digest, without_digest
from tests.pipeline.run.topic_logs import Stores, write_topics

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow


def _topology(*stores: str) -> Topology:
    builder = StreamsBuilder()
    for store in stores:
        grouped = builder.stream("t", "v INT").group_by_key()
        grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count().materialize(store)
    return builder.build()


TWO = _topology("a", "b")


@pytest.fixture
def ran(spark: SparkSession, tmp_path: Path) -> Stores:
    """Return two stores after two runs. The first run read both partitions, the second only 1."""
    stores = Stores(spark, tmp_path)
    record = ("k", 1, {"v": 1})
    write_topics(tmp_path / "log", {"t": {0: [record], 1: [record]}})
    stores.run(TWO)
    write_topics(tmp_path / "log", {"t": {1: [record]}})
    stores.run(TWO)
    return stores


def _rename_key(stores: Stores, partition: int) -> Path:
    """Overwrite one byte of a record that was read."""
    path = stores.directory / "log" / "t" / f"{partition}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"k"', b'"K"', 1))
    return path


@pytest.mark.parametrize("partition", [0, 1])
def test_a_changed_log_is_refused_until_it_is_restored(ran: Stores, partition: int) -> None:
    """The last batch need not have read the partition, and the log can have grown since then."""
    path = ran.directory / "log" / "t" / f"{partition}.jsonl"
    whole, more = path.read_bytes(), ("k", 2, {"v": 1})
    _rename_key(ran, partition)
    write_topics(ran.directory / "log", {"t": {partition: [more]}})
    with pytest.raises(EventLogError, match=f"event log {path}: bytes 0 to {len(whole)} are not"):
        # A new store is not computed from a log that the others have not read.
        ran.run(_topology("a", "b", "new"))
    assert not (
        ran.directory / "data" / "tables" / "new" / "_delta_log" / f"{1:020d}.json"
    ).exists()
    path.write_bytes(whole)
    write_topics(ran.directory / "log", {"t": {partition: [more]}})
    ran.run(TWO)
    assert ran.counters("a")["input"] == ran.counters("b")["input"] == 4


def test_each_store_can_be_rebuilt_from_a_changed_log(ran: Stores) -> None:
    """A start names the next store until all stores have read the log as it is now."""
    _rename_key(ran, 0)
    for store in ("a", "b"):
        with pytest.raises(EventLogError, match=f"that store '{store}' has read.*rebuild {store}`"):
            ran.run(TWO)
        ran.rebuild(TWO, store)
    ran.run(TWO)
    assert {row["key"] for store in ("a", "b") for row in ran.newest(store)} == {"k", "K"}


def test_a_checkpoint_of_an_earlier_release_has_no_blocks(ran: Stores) -> None:
    """It is accepted, and its next batches note the partitions that they read."""
    state = ran.directory / "data" / "checkpoints" / "app" / "state"
    for path in state.glob("*/0*.json"):
        fields = orjson.loads(without_digest(current_files().read(path)))
        del fields["blocks"]
        path.write_bytes(with_digest(orjson.dumps(fields)))
    _rename_key(ran, 0)
    write_topics(ran.directory / "log", {"t": {1: [("k", 2, {"v": 1})]}})
    ran.run(TWO)
    assert set(ran.last["a"].blocks["t"]) == {"1"}
    _rename_key(ran, 1)
    with pytest.raises(EventLogError, match=r"1\.jsonl: bytes"):
        ran.run(TWO)
