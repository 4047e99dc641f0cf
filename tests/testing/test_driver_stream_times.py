"""Stream times of partitions and topics, cogroups, and topics read twice, in the test driver."""

from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    IllegalArgument,
    StreamsBuilder,
    collect_list,
    count,
    max,
    until_window_closes,
)
from oriel.testing import Counters, Record, TopologyTestDriver
from tests.testing.driver_runs import (
    SCHEMA,
    driver_of,
    driver_with,
    grouped,
    member_times,
    pipe,
    records,
    row_times,
    sessions,
    sliding,
    times_driver,
    tumbling,
    windows_of,
)


def cogrouped(*, closed: bool = False) -> TopologyTestDriver:
    """Return a driver that cogroups two topics in tumbling windows of 10 ms without grace.

    Each topic collects its own record times.
    """

    def define(builder: StreamsBuilder) -> None:
        together = (
            grouped(builder, "left")
            .cogroup(lefts=collect_list("t"), left_number=count())
            .cogroup(grouped(builder, "right"), rights=collect_list("t"))
            .windowed_by(tumbling(10, 0))
        )
        if closed:
            together = together.emit(EmitStrategy.on_window_close())
        together.aggregate().materialize("s")

    return driver_of(define)


def test_a_cogroup_has_a_clock_for_each_input() -> None:
    """Each input of a cogroup has its own stream time (semantics.md#1-1).

    Left 100, right 5 (accepted into [0,10)), left 5 (late).
    """
    driver = cogrouped()
    pipe(driver, "100", topic="left")
    (row,) = pipe(driver, "5", topic="right")[0]
    assert (row["window_start_ms"], row["rights"], row["lefts"]) == (0, [5], [])
    assert row["left_number"] == 0
    assert not row["final"]
    assert pipe(driver, "5", topic="left") == [[]]
    assert driver.counters("s") == Counters(input=3, applied=2, late=1, dropped=0, filtered=0)


def test_a_window_of_a_cogroup_is_final_when_both_inputs_passed_it() -> None:
    """A window of a cogroup becomes final only after each topic has passed it."""
    driver = cogrouped(closed=True)
    assert pipe(driver, "1 100", topic="left") == [[], []]
    assert pipe(driver, "2", topic="right") == [[]]
    (row,) = pipe(driver, "50", topic="right")[0]
    assert (row["lefts"], row["rights"], row["final"]) == ([1], [2], True)


def test_a_cogroup_of_functions() -> None:
    """A cogroup has one aggregate, and one aggregator per input (semantics.md#9).

    Each aggregator receives the columns of its own input.
    """

    def plus(_: str, value: Any, old: int) -> int:
        return old + int(value["t"])

    def minus(_: str, value: Any, old: int) -> int:
        return old - int(value["n"])

    driver = driver_of(
        lambda b: (
            grouped(b, "left")
            .cogroup(plus)
            .cogroup(grouped(b, "right", "n INT"), minus)
            .aggregate(lambda: 100, schema="total BIGINT")
            .materialize("s")
        )
    )
    driver.pipe_input("left", records("7"))
    driver.pipe_input("right", Record("k", {"n": 50}, 9))
    driver.pipe_input("right", Record("k", {}, 10))
    entry = driver.key_value_store("s").get("k")
    assert entry is not None
    assert (entry.value, entry.timestamp_ms) == ({"total": 57}, 9)
    (letter,) = driver.dead_letters("s")
    assert (letter["topic"], letter["offset"], letter["reason"]) == ("right", 1, "function-raised")


def test_partitions_have_clocks_of_their_own() -> None:
    """A record is late only by its own partition's stream time (semantics.md#1-1)."""
    driver = times_driver(tumbling(10, 0))
    driver.pipe_input("t", [], partition=1)
    pipe(driver, "100")
    pipe(driver, "5", partition=1)
    pipe(driver, "6")
    assert member_times(windows_of(driver, "tumbling")) == {
        ("k", 100, 110): [100],
        ("k", 0, 10): [5],
    }
    assert driver.late == 1


def test_a_partition_that_appears_later_starts_at_the_slowest_clock() -> None:
    """A later partition starts at the slowest stream time, so final windows stay final."""
    driver = times_driver(tumbling(10, 0))
    pipe(driver, "5 100")
    pipe(driver, "6", partition=3)
    assert driver.late == 1
    assert pipe(driver, "101", partition=3)[0][0]["times"] == [100, 101]


def test_a_window_is_final_when_every_partition_passed_it() -> None:
    """A window is final when the slowest partition passes it. An empty batch changes nothing."""
    driver = times_driver(tumbling(10, 0), closed=True)
    driver.pipe_input("t", [], partition=1)
    assert pipe(driver, "1 100") == [[], []]
    assert pipe(driver, "2 9", partition=1) == [[], []]
    (rows,) = pipe(driver, "10", partition=1)
    assert row_times(rows) == {("k", 0, 10): [1, 2, 9]}
    driver.pipe_input("t", [], partition=1)
    assert driver.read_output("s") == []


def test_members_of_partitions_are_in_order_of_time_partition_and_offset() -> None:
    """Members are sorted by time, partition and offset, in whatever order they are piped in."""
    driver = times_driver(tumbling(100, 0))
    for partition, times in ((1, "5 3"), (0, "5 4"), (1, "4")):
        pipe(driver, times, partition=partition, one_by_one=False)
    (window,) = driver.window_store("s").all()
    assert window.value["times"] == [3, 4, 4, 5, 5]


def test_sessions_of_partitions_join_while_both_are_open() -> None:
    """Records at most the gap apart are one session, also across partitions (decision 0009)."""
    driver = times_driver(sessions(10, 100))
    pipe(driver, "10", partition=0)
    pipe(driver, "30", partition=1)
    (rows,) = pipe(driver, "20", partition=1)
    assert row_times(rows) == {("k", 10, 30): [10, 20, 30]}
    assert sorted(r["window_start_ms"] for r in rows if r["deleted"]) in ([10, 30], [30])
    assert member_times(driver.session_store("s").all()) == {("k", 10, 30): [10, 20, 30]}


def test_suppress_is_emission_on_close() -> None:
    """``suppress`` is another Kafka name for emission on window close."""
    driver = driver_with(
        lambda s: s.aggregate(times=collect_list("t")).suppress(until_window_closes()),
        sliding(10, 5),
    )
    outputs = pipe(driver, "10 15 10 16")
    assert [row_times(rows) for rows in outputs] == [{}, {}, {}, {("k", 0, 10): [10, 10]}]
    assert [row for rows in outputs for row in rows if not row["final"]] == []
    assert member_times(driver.window_store("s").all()) == {("k", 0, 10): [10, 10]}


def test_two_stores_over_one_topic() -> None:
    """Stores have their own windows and counters. Output is of the last batch of any topic."""

    def define(builder: StreamsBuilder) -> None:
        grouped(builder).windowed_by(tumbling(10, 0)).count().materialize("windows")
        grouped(builder).count().materialize("all")
        grouped(builder, "other").count().materialize("others")

    driver = driver_of(define)
    driver.pipe_input("t", records("15 3"))
    assert [r["count"] for r in driver.read_output("windows")] == [1]
    assert driver.read_output("all") == [
        {"key": "k", "count": 2, "timestamp_ms": 15, "deleted": False}
    ]
    assert driver.read_output("others") == []
    assert (driver.late, driver.counters("all").late, driver.counters("others").input) == (1, 0, 0)
    driver.pipe_input("other", records("1"))
    assert driver.read_output("all") == driver.read_output("windows") == []
    assert len(driver.read_output("others")) == 1
    assert driver.key_value_store("all").get("k") is not None


def test_a_topic_read_twice_has_a_clock_for_each_reading() -> None:
    """Each reading of a topic counts every record, and dead-letters its own invalid records."""

    def define(builder: StreamsBuilder) -> None:
        (
            grouped(builder)
            .cogroup(n=count())
            .cogroup(grouped(builder, schema="s STRING"), last=max("s"))
            .windowed_by(tumbling(10, 0))
            .aggregate()
            .materialize("s")
        )

    driver = driver_of(define)
    pipe(driver, [*records("1=a 2=b"), Record("k", {"t": "x", "s": "z"}, 3), *records("20 5")])
    # The third record is invalid for only one schema.
    assert [(w.window_start_ms, w.value) for w in driver.window_store("s").all()] == [
        (0, {"n": 2, "last": "z"}),
        (20, {"n": 1, "last": None}),
    ]
    assert driver.counters("s") == Counters(input=10, applied=7, late=2, dropped=1, filtered=0)


def test_offsets_count_each_partition_of_each_topic() -> None:
    """A dead letter has its record's offset in the partition, counted over all batches."""
    driver = cogrouped()
    bad = Record(None, {}, 1)
    driver.pipe_input("left", [bad, *records("1")])
    driver.pipe_input("left", bad, partition=2)
    driver.pipe_input("left", bad)
    driver.pipe_input("right", [*records("1 2 3"), bad])
    places = [(x["topic"], x["partition"], x["offset"]) for x in driver.dead_letters("s")]
    assert places == [("left", 0, 0), ("left", 2, 0), ("left", 0, 2), ("right", 0, 3)]


def test_retention_hides_old_windows_and_changes_no_result() -> None:
    """Retention R hides windows that start at or before the greatest start - R (semantics.md#7).

    Hidden rows still aggregate.
    """
    driver = driver_of(
        lambda b: (
            grouped(b)
            .windowed_by(tumbling(10, 10))
            .aggregate(times=collect_list("t"))
            .materialize("s", retention_ms=20)
        )
    )
    pipe(driver, "1 11")
    store = driver.window_store("s")
    assert member_times(store.all()) == {("k", 0, 10): [1], ("k", 10, 20): [11]}
    (rows,) = pipe(driver, "20")
    assert member_times(store.all()) == {("k", 10, 20): [11], ("k", 20, 30): [20]}
    assert row_times(rows)
    assert store.fetch("k", 0) is None
    assert driver.late == 0


def test_retention_of_sessions_counts_by_ends() -> None:
    """A session is visible while its end is in the retention (semantics.md#7)."""
    driver = driver_of(
        lambda b: (
            grouped(b)
            .windowed_by(sessions(10, 0))
            .aggregate(times=collect_list("t"))
            .materialize("s", retention_ms=20)
        )
    )
    pipe(driver, "0 9 28")
    assert member_times(driver.session_store("s").all()) == {
        ("k", 0, 9): [0, 9],
        ("k", 28, 28): [28],
    }
    pipe(driver, "29")
    assert member_times(driver.session_store("s").all()) == {("k", 28, 29): [28, 29]}


@pytest.mark.parametrize("partition", [-1, True, 1.0, "0", None])
def test_a_partition_is_a_number_from_0(partition: Any) -> None:
    """A partition that is not an integer from 0 is rejected, and the error names the parameter."""
    with pytest.raises(IllegalArgument, match="partition must be an integer from 0"):
        times_driver().pipe_input("t", records("1"), partition=partition)


def test_errors_for_unknown_names_list_topics_and_stores() -> None:
    """The error about an unknown topic or store lists the existing ones."""
    driver = cogrouped()
    with pytest.raises(
        IllegalArgument, match=r"not read topic 'lift'\. Its topics are: left, right"
    ):
        driver.pipe_input("lift", records("1"))
    for read in (
        driver.read_output, driver.counters, driver.dead_letters,
        driver.window_store, driver.session_store, driver.key_value_store,
    ):  # fmt: skip
        with pytest.raises(IllegalArgument, match=r"store 'x' does not exist\. The stores are: s"):
            read("x")


def test_a_store_is_read_by_the_method_of_its_kind() -> None:
    """The read method of another kind of store raises an error that names the right method."""
    kinds = {
        "window_store": tumbling(10, 0),
        "session_store": sessions(1, 0),
        "key_value_store": None,
    }
    for fits, windows in kinds.items():
        driver = times_driver(windows)
        for method in kinds:
            if method == fits:
                getattr(driver, method)("s")
                continue
            with pytest.raises(IllegalArgument, match=rf"read it with {fits}\('s'\)"):
                getattr(driver, method)("s")


def test_what_is_read_is_a_copy() -> None:
    """Changing a returned value does not change the driver, but store objects follow the driver."""
    with times_driver(tumbling(10, 0)) as driver:
        store = driver.window_store("s")
        pipe(driver, "1")
        driver.read_output("s")[0]["times"].append(5)
        driver.dead_letters("s").append({})
        store.all()[0].value["times"].append(5)
        assert driver.read_output("s")[0]["times"] == [1]
        assert driver.dead_letters("s") == []
        pipe(driver, "2")
        assert store.all()[0].value["times"] == [1, 2]


def test_one_record_needs_no_list() -> None:
    """``pipe_input`` accepts one record or any sequence of records."""
    driver = times_driver()
    driver.pipe_input("t", Record("k", {"t": 1}, 1))
    driver.pipe_input("t", tuple(records("2 3")))
    assert driver.counters("s").input == 3
    assert SCHEMA.startswith("t ")
