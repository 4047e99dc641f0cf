"""Joins of streams and of tables in the test driver (semantics.md#5)."""

from typing import Any, Literal

import pytest

from oriel import InvalidTopology, JoinWindows, SessionWindows, StreamsBuilder, collect_list, count
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.testing.driver_runs import driver_of, tumbling

How = Literal["join", "left_join", "outer_join"]


def left(key: str, name: str | None, time: int) -> Record:
    """Return a record of the left topic. The name None means a null value."""
    return Record(key, None if name is None else {"a": name}, time)


def right(key: str, name: str | None, time: int) -> Record:
    """Return a record of the right topic."""
    return Record(key, None if name is None else {"b": name}, time)


def streams(how: How, windows: JoinWindows) -> TopologyTestDriver:
    """Return a driver of two joined streams, whose store lists the results in order."""

    def define(builder: StreamsBuilder) -> None:
        ours = builder.stream("left", "a STRING")
        joined = getattr(ours, how)(builder.stream("right", "b STRING"), windows)
        # The results are strings, so that a missing side is visible.
        joined.group_by_key().aggregate(list, paired, schema="pairs ARRAY<STRING>").materialize("s")

    return driver_of(define)


def paired(_: str, value: Any, old: list[str]) -> list[str]:
    """Append one join result."""
    return [*old, f"{value['a']}/{value['b']}"]


def pairs(driver: TopologyTestDriver, key: str = "k") -> list[str]:
    """Return the join results of a key."""
    entry = driver.key_value_store("s").get(key)
    return [] if entry is None else list(entry.value["pairs"])


within = JoinWindows.of_time_difference_and_grace


@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
def test_streams_join_at_most_the_difference_apart(how: How) -> None:
    """Records with equal keys join within both inclusive bounds (semantics.md#5-2)."""
    driver = streams(how, within(10, 1000))
    driver.pipe_input("left", left("k", "l", 100))
    driver.pipe_input(
        "right",
        [right("k", str(time), time) for time in (89, 90, 110, 111)] + [right("x", "x", 100)],
    )
    assert sorted(pairs(driver)) == ["l/110", "l/90"]
    assert pairs(driver, "x") == []
    assert [row["key"] for row in driver.read_output("s")] == ["k"]
    assert driver.counters("s") == Counters(input=6, applied=6, late=0, dropped=0, filtered=0)


def test_the_result_of_a_pair_has_the_greater_time() -> None:
    """A join result has the greater time (semantics.md#5-1), an unmatched record its own time."""
    driver = streams("left_join", within(10, 0))
    driver.pipe_input("left", left("k", "l", 100))
    driver.pipe_input("right", right("k", "r", 95))
    assert driver.key_value_store("s").get("k") == KeyValue("k", {"pairs": ["l/r"]}, 100)
    driver = streams("left_join", within(10, 0))
    driver.pipe_input("left", left("k", "l", 100))
    driver.pipe_input("right", right("other", "r", 1000))
    assert driver.key_value_store("s").get("k") == KeyValue("k", {"pairs": ["l/None"]}, 100)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("join", []), ("left_join", ["l/None"]), ("outer_join", ["None/r", "l/None"])],
)
def test_a_record_that_finds_none_comes_out_when_none_can_come(how: How, wanted: list[str]) -> None:
    """A record is emitted unmatched when the other side's stream time rules out a match."""
    driver = streams(how, within(10, 5))
    driver.pipe_input("left", left("k", "l", 100))
    driver.pipe_input("right", [right("k", "r", 80), right("other", "r", 125)])
    assert pairs(driver) == []
    driver.pipe_input("right", right("other", "r", 126))
    driver.pipe_input("left", left("other", "l", 1000))
    assert sorted(pairs(driver)) == wanted


def test_before_and_after_may_differ() -> None:
    """With separate bounds, a right record matches if it is 5 to 20 ms later."""
    driver = streams("join", within(20, 1000).before(-5))
    driver.pipe_input("right", [right("k", str(time), time) for time in (104, 105, 120, 121)])
    driver.pipe_input("left", left("k", "l", 100))
    assert pairs(driver) == ["l/105", "l/120"]


def test_a_record_late_for_the_join_is_counted_and_pairs_with_nothing() -> None:
    """A record is late if its own side's stream time has passed it."""
    driver = streams("outer_join", within(10, 5))
    driver.pipe_input("right", right("k", "r", 80))
    driver.pipe_input("left", [left("other", "l", 100), left("k", "l", 84)])
    assert pairs(driver) == []
    assert driver.counters("s") == Counters(input=3, applied=2, late=1, dropped=0, filtered=0)


@pytest.mark.parametrize("how", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize(("topic", "value"), [("left", {"a": "l"}), ("right", {"b": "r"})])
def test_a_join_needs_key_and_value(
    how: How, key: str | None, topic: str, value: dict[str, str]
) -> None:
    """A record without key or value is a dead letter of its own topic."""
    driver = streams(how, within(10, 0))
    record = Record(key, value if key is None else None, 1)
    driver.pipe_input(topic, record)
    (letter,) = driver.dead_letters("s")
    assert letter["topic"] == topic
    assert letter["reason"] == ("null-key" if record.key is None else "null-value")
    assert driver.counters("s") == Counters(input=1, applied=0, late=0, dropped=1, filtered=0)


def test_a_windowed_store_after_a_join() -> None:
    """A join result is in the window of its time.

    Emission waits for results that can still occur.
    """

    def define(builder: StreamsBuilder) -> None:
        joined = builder.stream("left", "a STRING").left_join(
            builder.stream("right", "b STRING"), within(10, 0)
        )
        (
            joined.group_by("a")
            .windowed_by(tumbling(100, 0))
            .aggregate(n=count(), found=count("b"), names=collect_list("b"))
            .materialize("s")
        )

    driver = driver_of(define)
    driver.pipe_input("left", [left("x", "A", 95), left("y", "A", 90)])
    driver.pipe_input("right", [right("x", "r", 99), right("x", "q", 105)])
    driver.pipe_input("right", right("x", "r", 300))
    found = {
        (w.key, w.window_start_ms): (w.value["n"], w.value["found"], w.value["names"], w.final)
        for w in driver.window_store("s").all()
    }
    assert found == {("A", 0): (2, 1, ["r"], False), ("A", 100): (1, 1, ["q"], False)}
    driver.pipe_input("left", left("z", "Z", 300))
    (first, *_) = driver.window_store("s").all()
    assert first.final


def cogroup_of_join_and_stream(kind: str) -> TopologyTestDriver:
    """Return a driver that cogroups a join of streams with another stream.

    The aggregation uses sessions or functions.
    """

    def add(_: str, value: Any, old: int) -> int:
        if "bad" in value.values():
            raise ValueError
        return old + 1

    def define(builder: StreamsBuilder) -> None:
        other = builder.stream("other", "c STRING").group_by_key()
        joined = builder.stream("left", "a STRING").join(
            builder.stream("right", "b STRING"), within(10, 100)
        )
        if kind == "folds":
            together = joined.group_by_key().cogroup(add).cogroup(other, add)
            together.aggregate(lambda: 0, schema="n INT").materialize("s")
            return
        counted = joined.group_by_key().cogroup(pairs=count()).cogroup(other, others=count())
        sessions = SessionWindows.of_inactivity_gap_with_no_grace(5)
        counted.windowed_by(sessions).aggregate().materialize("s")

    return driver_of(define)


@pytest.mark.parametrize(
    ("kind", "value", "counted"),
    [
        ("sessions", "x", Counters(9, applied=8, late=1, dropped=0, filtered=0, late_results=4)),
        (
            "folds",
            "bad",
            Counters(9, applied=8, late=0, dropped=1, filtered=0, dropped_results=4),
        ),
    ],
)
def test_records_merged_with_a_join_count_as_records(
    kind: str, value: str, counted: Counters
) -> None:
    """Late or invalid records of another topic and of the join have separate counters."""
    driver = cogroup_of_join_and_stream(kind)
    driver.pipe_input("left", [left("k", "l", 100), left("k", value, 50), left("k", value, 51)])
    driver.pipe_input("right", [right("k", "r", 100), right("k", "r", 52), right("k", "r", 53)])
    for time, said in ((101, "o"), (50, value), (102, "o")):
        driver.pipe_input("other", Record("k", {"c": said}, time))
    assert driver.counters("s") == counted
    assert driver.late == counted.late + counted.late_results
    assert driver.dropped == counted.dropped + counted.dropped_results


def test_a_join_has_records_of_any_partition() -> None:
    """An earlier version rejected partitions from 2**15 in a stream join."""
    driver = streams("join", within(10, 5))
    driver.pipe_input("left", left("k", "l", 1), partition=2**20)
    driver.pipe_input("right", right("k", "r", 2), partition=2**20 + 1)
    assert driver.counters("s").applied == 2
    tables("join").pipe_input("left", left("k", "l", 1), partition=2**20)


def tables(how: How) -> TopologyTestDriver:
    """Return a driver of two joined tables."""

    def define(builder: StreamsBuilder) -> None:
        getattr(builder.table("left", "a STRING"), how)(
            builder.table("right", "b STRING")
        ).materialize("s")

    return driver_of(define)


def row_of(driver: TopologyTestDriver) -> tuple[Any, Any, int] | None:
    """Return the row of key ``k``."""
    entry = driver.key_value_store("s").get("k")
    return None if entry is None else (entry.value["a"], entry.value["b"], entry.timestamp_ms)


def test_two_tables_joined() -> None:
    """The joined row has the greatest time of both records (semantics.md#5-4).

    The order in which the records arrive does not matter.
    """
    driver = tables("join")
    driver.pipe_input("left", left("k", "a", 10))
    assert row_of(driver) is None
    driver.pipe_input("right", right("k", "b", 5))
    assert row_of(driver) == ("a", "b", 10)
    driver.pipe_input("left", left("k", "c", 3))
    assert row_of(driver) == ("c", "b", 5)
    driver.pipe_input("right", right("k", "d", 20))
    assert row_of(driver) == ("c", "d", 20)
    driver.pipe_input("left", left("k", None, 15))
    assert row_of(driver) is None
    (tombstone,) = driver.read_output("s")
    assert tombstone == {"key": "k", "a": None, "b": None, "timestamp_ms": 20, "deleted": True}
    assert driver.counters("s").applied == 5


@pytest.mark.parametrize(
    ("how", "alone_left", "alone_right"),
    [
        ("join", None, None),
        ("left_join", ("a", None, 10), None),
        ("outer_join", ("a", None, 10), (None, "b", 5)),
    ],
)
def test_which_rows_two_tables_have(how: How, alone_left: Any, alone_right: Any) -> None:
    """An inner join needs both rows, a left join the left one, an outer join either."""
    driver = tables(how)
    driver.pipe_input("left", left("k", "a", 10))
    assert row_of(driver) == alone_left
    driver.pipe_input("right", right("k", "b", 5))
    assert row_of(driver) == ("a", "b", 10)
    driver = tables(how)
    driver.pipe_input("right", right("k", "b", 5))
    assert row_of(driver) == alone_right


def test_a_table_is_kept_as_it_is() -> None:
    """The newest record of a key by offset is its row, and a null value deletes it."""
    driver = driver_of(lambda b: b.table("left", "a STRING, n INT").materialize("s"))
    driver.pipe_input("left", [left("k", "x", 9), left("k", "y", 4), left("l", "z", 1)])
    assert driver.key_value_store("s").all() == [
        KeyValue("k", {"a": "y", "n": None}, 4),
        KeyValue("l", {"a": "z", "n": None}, 1),
    ]
    driver.pipe_input("left", left("k", None, 10))
    assert [entry.key for entry in driver.key_value_store("s").all()] == ["l"]
    assert driver.counters("s") == Counters(input=4, applied=4, late=0, dropped=0, filtered=0)


def test_of_several_partitions_the_newest_record_of_a_key_counts() -> None:
    """The newest record of a key over partitions is by time, then partition.

    Within a partition, the offset decides.
    """
    driver = driver_of(lambda b: b.table("left", "a STRING").materialize("s"))
    driver.pipe_input("left", left("k", "one", 5), partition=1)
    driver.pipe_input("left", left("k", "zero", 5), partition=0)
    entry = driver.key_value_store("s").get("k")
    assert entry == KeyValue("k", {"a": "one"}, 5)
    driver.pipe_input("left", left("k", "newer", 6), partition=0)
    assert driver.key_value_store("s").get("k") == KeyValue("k", {"a": "newer"}, 6)


def test_joins_of_one_topic_with_itself() -> None:
    """Both sides of a self-join read each record, with separate stream times."""

    def define(builder: StreamsBuilder) -> None:
        ours, others = builder.stream("left", "a STRING"), builder.stream("left", "b STRING")
        joined = ours.join(others, within(1, 0))
        joined.group_by_key().aggregate(n=count(), all=collect_list("b")).materialize("s")

    driver = driver_of(define)
    driver.pipe_input("left", [Record("k", {"a": "1", "b": "2"}, 5), Record("k", {"b": "3"}, 6)])
    entry = driver.key_value_store("s").get("k")
    assert entry is not None
    assert entry.value["n"] == 4
    assert driver.counters("s").input == 4


def test_two_columns_of_one_name_are_refused() -> None:
    """Duplicate column names are rejected before any record, and the error names the fix."""
    with pytest.raises(InvalidTopology, match=r"'a' exists twice.*Rename.*map_values"):
        driver_of(
            lambda b: b.stream("left", "a STRING")
            .join(b.stream("right", "a STRING"), within(1, 0))
            .group_by_key().count().materialize("s")
        )  # fmt: skip


def test_a_function_that_raises_behind_a_join_makes_dead_letters() -> None:
    """Each failed join result counts. The dead letter has the position of the left record."""

    def fails(_: str, value: Any, old: list[str]) -> list[str]:
        if value["b"] == "bad":
            raise KeyError(value["b"])
        return paired("", value, old)

    def define(builder: StreamsBuilder) -> None:
        joined = builder.stream("left", "a STRING").join(
            builder.stream("right", "b STRING"), within(10, 0)
        )
        joined.group_by_key().aggregate(list, fails, schema="pairs ARRAY<STRING>").materialize("s")

    driver = driver_of(define)
    driver.pipe_input("left", left("k", "l", 5))
    driver.pipe_input("right", [right("k", "bad", 5), right("k", "good", 5)])
    assert pairs(driver) == ["l/good"]
    (letter,) = driver.dead_letters("s")
    assert (letter["topic"], letter["offset"], letter["reason"]) == ("left", 0, "function-raised")
