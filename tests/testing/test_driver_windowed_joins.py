"""Aggregations with equal time windows, joined by key and window, in the test driver."""

from collections.abc import Callable
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    InvalidTopology,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    collect_list,
    count,
    sum,
    until_window_closes,
)
from oriel.pipeline.language.tables import KTable
from oriel.testing import Record, TopologyTestDriver

HOUR = TimeWindows.of_size_and_grace(10, 5)
EXAMPLE = [
    ("orders", Record("a", {"amount": 3}, 1)),
    ("refunds", Record("a", {"back": 1}, 12)),
    ("orders", Record("a", {"amount": 4}, 13)),
    ("refunds", Record("a", {"back": 2}, 11)),
    ("refunds", Record("b", {"back": 5}, 2)),
]
#: Key, window start, orders, refunds and time, by kind of join.
ROWS = {
    "join": [("a", 10, [4], [2, 1], 13)],
    "left_join": [("a", 0, [3], None, 1), ("a", 10, [4], [2, 1], 13)],
    "outer_join": [
        ("a", 0, [3], None, 1), ("a", 10, [4], [2, 1], 13), ("b", 0, None, [5], 2),
    ],
}  # fmt: skip


def both_of(builder: StreamsBuilder, windows: Any = HOUR) -> tuple[KTable, KTable]:
    """Return windowed tables of the orders and of the refunds."""
    orders = builder.stream("orders", "amount INT").group_by_key().windowed_by(windows)
    refunds = builder.stream("refunds", "back INT").group_by_key().windowed_by(windows)
    return (
        orders.aggregate(orders=collect_list("amount"), ordered=sum("amount")),
        refunds.aggregate(refunds=collect_list("back"), n=count()),
    )


def rows_of(driver: TopologyTestDriver) -> list[tuple[Any, ...]]:
    """Return the rows of the store in the form of ``ROWS``."""
    return [
        (row.key, row.window_start_ms, row.value["orders"], row.value["refunds"], row.timestamp_ms)
        for row in driver.window_store("store").all()
    ]


@pytest.mark.java
@pytest.mark.parametrize("how", ROWS)
def test_rows_are_joined_by_key_and_window(how: str) -> None:
    """A joined row has the greatest time of both.

    A missing row has null columns, also for counts.
    """
    builder = StreamsBuilder()
    left, right = both_of(builder)
    getattr(left, how)(right).materialize("store")
    driver = TopologyTestDriver(builder.build())
    for topic, record in EXAMPLE:
        driver.pipe_input(topic, record)
    assert rows_of(driver) == ROWS[how]
    values = [row.value for row in driver.window_store("store").all()]
    names = {"orders", "ordered", "refunds", "n"}
    assert [value for value in values if set(value) != names] == []
    assert [value["n"] is None for value in values] == [v["refunds"] is None for v in values]


@pytest.mark.java
@pytest.mark.parametrize("how", ROWS)
def test_updates_equal_the_updates_of_kafka_streams(how: str) -> None:
    """An inner join emits nothing until both inputs have the window, then one update per record."""
    builder = StreamsBuilder()
    left, right = both_of(builder)
    getattr(left, how)(right).to_stream().map_values("ordered", "n", "window_start_ms").to("out")
    driver = TopologyTestDriver(builder.build())
    for topic, record in EXAMPLE:
        driver.pipe_input(topic, record)
    emitted = [
        (record.key, record.timestamp_ms, record.value["ordered"], record.value["n"])
        for record in driver.create_output_topic("out").read_records()
        if record.value is not None
    ]
    first, alone, last = ("a", 1, 3, None), ("a", 12, None, 1), ("b", 2, None, 1)
    joined = [("a", 13, 4, 1), ("a", 13, 4, 2)]
    assert (
        emitted
        == {
            "join": joined,
            "left_join": [first, *joined],
            "outer_join": [first, alone, *joined, last],
        }[how]
    )


@pytest.mark.java
def test_joined_windows_are_written_when_both_streams_have_passed_them() -> None:
    """Final joined windows are the same with ``suppress`` after the join or before it."""
    found = []
    for in_front in (False, True):
        builder = StreamsBuilder()
        left, right = both_of(builder)
        if in_front:
            left, right = (table.suppress(until_window_closes()) for table in (left, right))
        joined = left.join(right).filter("ordered > 3")
        assert isinstance(joined, KTable)
        joined.suppress(until_window_closes()).materialize("store")
        driver = TopologyTestDriver(builder.build())
        for topic, record in EXAMPLE:
            driver.pipe_input(topic, record)
        driver.pipe_input("orders", Record("z", {"amount": 0}, 99))
        assert rows_of(driver) == []
        driver.pipe_input("refunds", Record("z", {"back": 0}, 99))
        found.append(rows_of(driver))
    assert found == [ROWS["join"]] * 2


@pytest.mark.java
def test_cogroups_join_and_names_stay_free() -> None:
    """A cogroup has a row if one of its streams has one, and a user can use ``records0``."""
    builder = StreamsBuilder()
    a, b, c = (builder.stream(topic, f"{topic} INT").group_by_key() for topic in "abc")
    left = a.cogroup(Records0=sum("a")).cogroup(b, b=sum("b")).windowed_by(HOUR).aggregate()
    left.join(c.windowed_by(HOUR).aggregate(c=sum("c"))).materialize("store")
    driver = TopologyTestDriver(builder.build())
    for topic, key in (("a", "x"), ("b", "y"), ("c", "x"), ("c", "y"), ("c", "z")):
        driver.pipe_input(topic, Record(key, {topic: 1}, 1))
    assert [(row.key, row.value) for row in driver.window_store("store").all()] == [
        ("x", {"Records0": 1, "b": None, "c": 1}), ("y", {"Records0": None, "b": 1, "c": 1}),
    ]  # fmt: skip


def _windowed(builder: StreamsBuilder, topic: str, windows: Any = HOUR) -> Any:
    return builder.stream(topic, "v INT").group_by_key().windowed_by(windows)


def _reduced(builder: StreamsBuilder) -> None:
    _windowed(builder, "a").reduce(lambda kept, _: kept).join(_windowed(builder, "b").count())


def _sessions(builder: StreamsBuilder) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(5, 0)
    left, right = (_windowed(builder, topic, windows) for topic in "ab")
    left.aggregate(a=count()).join(right.aggregate(b=count()))


def _others(builder: StreamsBuilder) -> None:
    other = _windowed(builder, "b", TimeWindows.of_size_and_grace(10, 6))
    _windowed(builder, "a").aggregate(a=count()).outer_join(other.aggregate(b=count()))


def _final(builder: StreamsBuilder) -> None:
    final = _windowed(builder, "a").emit(EmitStrategy.on_window_close()).aggregate(a=count())
    final.left_join(_windowed(builder, "b").aggregate(b=count()))


def _stepped(builder: StreamsBuilder) -> None:
    left = _windowed(builder, "a").aggregate(a=count()).filter("a > 1")
    left.join(_windowed(builder, "b").aggregate(b=count()))


def _named(builder: StreamsBuilder) -> None:
    _windowed(builder, "a").count().join(_windowed(builder, "b").aggregate(Count=count()))


def _strange(builder: StreamsBuilder) -> None:
    other = _windowed(StreamsBuilder(), "b").aggregate(b=count())
    _windowed(builder, "a").aggregate(a=count()).join(other)


@pytest.mark.parametrize(
    ("define", "match"),
    [
        (
            _reduced,
            r"join: windowed tables need named aggregates to be joined\. Create tables of both",
        ),
        (
            _sessions,
            r"join: windowed tables need equal time windows to be joined, not Session.* and ",
        ),
        (_others, r"outer_join: windowed tables need equal time windows to be joined, not .*grace"),
        (
            _final,
            r"left_join: windowed tables must be joined directly after their aggregations, and",
        ),
        (
            _stepped,
            r"join: windowed tables must be joined directly .*\. Call steps and suppress after",
        ),
        (
            _named,
            r"join: both tables have columns named \['count'\]\. Rename the columns of one tab",
        ),
        (_strange, r"join: the inputs are from different builders"),
    ],
)
def test_the_error_for_windows_without_a_join_has_a_solution(
    define: Callable[[StreamsBuilder], None], match: str
) -> None:
    """The errors about windows, aggregates and steps that cannot be joined name the fix."""
    with pytest.raises(InvalidTopology, match=match):
        define(StreamsBuilder())
