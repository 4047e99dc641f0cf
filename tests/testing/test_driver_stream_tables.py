"""Streams that join a table in the test driver (semantics.md#5-3): the table's current rows."""

from typing import Literal

import pytest

from oriel import StreamsBuilder, collect_list
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of, tumbling
from tests.testing.test_driver_joins import left, paired, pairs, right


def looked_up(how: Literal["join", "left_join"]) -> TopologyTestDriver:
    """Return a driver of a stream that joins a table."""

    def define(builder: StreamsBuilder) -> None:
        joined = getattr(builder.stream("left", "a STRING"), how)(
            builder.table("right", "b STRING")
        )
        joined.group_by_key().aggregate(list, paired, schema="pairs ARRAY<STRING>").materialize("s")

    return driver_of(define)


def test_a_stream_finds_the_table_as_it_is_now() -> None:
    """A record joins the current row until the row is deleted (example of semantics.md#5-3)."""
    driver = looked_up("join")
    driver.pipe_input("left", left("k", "early", 5))
    driver.pipe_input("right", right("k", "b", 50))
    driver.pipe_input("left", left("k", "a", 10))
    assert driver.key_value_store("s").get("k") == KeyValue("k", {"pairs": ["a/b"]}, 10)
    driver.pipe_input("right", [right("k", "c", 40), right("other", None, 1)])
    driver.pipe_input("left", left("k", "d", 11))
    driver.pipe_input("right", right("k", None, 60))
    driver.pipe_input("left", left("k", "e", 12))
    assert pairs(driver) == ["a/b", "d/c"]
    assert driver.counters("s") == Counters(input=8, applied=6, late=0, dropped=0, filtered=2)


def test_a_left_join_with_a_table_keeps_every_record() -> None:
    """A left join without a row has null columns."""
    driver = looked_up("left_join")
    driver.pipe_input("left", left("k", "a", 1))
    driver.pipe_input("right", right("k", "b", 50))
    driver.pipe_input("left", left("k", "c", 2))
    assert pairs(driver) == ["a/None", "c/b"]
    assert driver.counters("s").filtered == 0


@pytest.mark.java
@pytest.mark.parametrize("how", ["join", "left_join"])
def test_unmatched_and_filtered_records_do_not_advance_stream_time(
    how: str,
) -> None:
    """A record without a match, or filtered after the join, does not advance stream time.

    As in Kafka, windows see only the results, partition by partition in offset order.
    """

    def define(builder: StreamsBuilder) -> None:
        ours = builder.stream("left", "a STRING")
        joined = getattr(ours, how)(builder.table("right", "b STRING"))
        if how == "left_join":
            joined = joined.filter("b IS NOT NULL")
        windowed = joined.group_by("b").windowed_by(tumbling(10, 0))
        windowed.aggregate(names=collect_list("a")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("right", [right("k", "r", 0), right("nameless", None, 0)])
    driver.pipe_input("left", [left("unknown", "x", 100), left("k", "a", 11), left("k", "b", 5)])
    driver.pipe_input("left", [left("k", "c", 31), left("unknown", "x", 200), left("k", "d", 25)])
    driver.pipe_input("left", [left("k", "e", 30), left("nameless", "x", 300)])
    found = {w.window_start_ms: (w.value["names"], w.final) for w in driver.window_store("s").all()}
    assert found == {10: (["a"], True), 30: (["e", "c"], False)}
    assert driver.counters("s") == Counters(10, applied=5, late=2, dropped=0, filtered=3)


def test_a_looked_up_record_without_a_group_is_a_dead_letter() -> None:
    """An enriched record without a group key is dead-lettered and counted as a record."""

    def define(builder: StreamsBuilder) -> None:
        joined = builder.stream("left", "a STRING").left_join(builder.table("right", "b STRING"))
        joined.group_by("b").count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("left", [left("k", "a", 1), left("k", "b", 2)])
    assert driver.counters("s") == Counters(2, applied=0, late=0, dropped=2, filtered=0)
    dead_letters = [
        (one["topic"], one["offset"], one["reason"]) for one in driver.dead_letters("s")
    ]
    assert dead_letters == [("left", 0, "null-key"), ("left", 1, "null-key")]


def test_a_table_needs_a_key() -> None:
    """A table record without a key is dead-lettered. A null value deletes the row."""
    driver = looked_up("join")
    driver.pipe_input("right", [Record(None, {"b": "x"}, 1), right("k", None, 2)])
    assert driver.counters("s") == Counters(input=2, applied=1, late=0, dropped=1, filtered=0)
