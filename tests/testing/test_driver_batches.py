"""A batch of the test driver is atomic, like a commit of the pipeline."""

from typing import Any

import pytest

from oriel import StreamsBuilder, count
from oriel.pipeline.errors import RecordCountMismatch
from oriel.pipeline.testing import store_driver
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver


def test_a_batch_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed batch changes no store, counter or dead letter, and the next batch succeeds."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").group_by_key().aggregate(n=count()).materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", Record("a", {"v": 1}, 5))

    def fail(*_: Any) -> None:
        message = "lost"
        raise RecordCountMismatch(message)

    with monkeypatch.context() as patch:
        patch.setattr(store_driver, "prepared_batch", fail)
        with pytest.raises(RecordCountMismatch, match="lost"):
            driver.pipe_input("t", [Record("a", {"v": 2}, 6), Record(None, {"v": 3}, 7)])
    assert driver.counters("s") == Counters(input=1, applied=1, late=0, dropped=0, filtered=0)
    assert driver.dead_letters("s") == []
    driver.pipe_input("t", Record("a", {"v": 4}, 8))
    assert driver.key_value_store("s").get("a") == KeyValue("a", {"n": 2}, 8)
    assert driver.counters("s").input == 2


def test_a_batch_without_records_makes_its_partition_known() -> None:
    """An empty batch writes and counts nothing, and another batch can follow."""
    builder = StreamsBuilder()
    builder.stream("t", "v INT").group_by_key().aggregate(n=count()).materialize("s")
    driver = TopologyTestDriver(builder.build())
    driver.pipe_input("t", [], partition=3)
    assert driver.read_output("s") == []
    assert driver.counters("s").input == 0
    driver.pipe_input("t", Record("a", {"v": 1}, 5))
    assert [row["n"] for row in driver.read_output("s")] == [1]
