"""Merged branches behave like the original stream, with its order and its stream time."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from oriel import EmitStrategy, JoinWindows, StreamsBuilder, collect_list, count, sum
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import KStream
from oriel.testing import Counters, KeyValue, Record, TopologyTestDriver
from tests.campaigns import cases
from tests.testing.driver_runs import driver_of, sessions, sliding, tumbling

SCHEMA = "v BIGINT, w STRING"
Branches = Mapping[str, KStream]


def branched(stream: KStream) -> Branches:
    """Return branches of negative, small and other values."""
    return stream.split().branch("v < 0", "negative").branch("v < 3", "small").default_branch("0")


def record(value: int | None, time_ms: int, key: str = "k") -> Record:
    """Return a record with its value as a number and as a string."""
    return Record(key, {"v": value, "w": str(value)}, time_ms)


@pytest.mark.java
@pytest.mark.slow
def test_the_newest_value_is_that_of_the_newest_record() -> None:
    """A ``reduce`` and a table keep the newest record, whichever its branch."""

    def define(builder: StreamsBuilder) -> None:
        ways = branched(builder.stream("t", SCHEMA))
        marked = ways["negative"].map_values("*", w="concat(w, '!')")
        again = marked.merge(ways["0"]).merge(ways["small"])
        again.to_table().materialize("rows")
        newest = again.group_by_key().reduce(newer)
        newest.materialize("s")
        newest.to_stream().to("out")

    def newer(_kept: Any, new: Any) -> Any:
        return new

    driver = driver_of(define)
    results = driver.create_output_topic("out")
    for value, time_ms in ((5, 5), (-1, 6), (1, 7), (-2, 9), (None, 10)):
        driver.pipe_input("t", record(value, time_ms))
    texts = [(one.value and one.value["w"], one.timestamp_ms) for one in results.read_records()]
    assert texts == [("5", 5), ("-1!", 6), ("1", 7), ("-2!", 9), ("None", 10)]
    row = KeyValue("k", {"v": None, "w": "None"}, 10)
    assert driver.key_value_store("s").get("k") == row
    assert driver.key_value_store("rows").get("k") == row


@pytest.mark.java
@pytest.mark.slow
def test_functions_see_the_order_of_the_log() -> None:
    """Without a merger, functions see merged branches in log order, because it is one partition."""

    def define(builder: StreamsBuilder) -> None:
        ways = branched(builder.stream("t", SCHEMA))
        again = ways["0"].merge(ways["small"]).merge(ways["negative"]).group_by_key()
        again.aggregate(str, lambda _, v, all: f"{all} {v['v']}", schema="h STRING").materialize(
            "s"
        )

    driver = driver_of(define)
    driver.pipe_input("t", [record(value, 9 - at) for at, value in enumerate((7, -1, 2, -2, 8))])
    row = driver.key_value_store("s").get("k")
    assert row is not None
    assert row.value == {"h": " 7 -1 2 -2 8"}


@pytest.mark.java
def test_a_silent_branch_holds_no_window_open_and_one_clock_says_what_is_late() -> None:
    """An idle branch does not keep a window from becoming final.

    All branches share a stream time.
    """

    def define(builder: StreamsBuilder) -> None:
        ways = branched(builder.stream("t", SCHEMA))
        windowed = ways["0"].merge(ways["negative"]).group_by_key().windowed_by(tumbling(10, 0))
        windowed.emit(EmitStrategy.on_window_close()).count().materialize("s")

    driver = driver_of(define)
    driver.pipe_input("t", [record(5, 1), record(5, 1000), record(2, 5000), record(5, 9000)])
    driver.pipe_input("t", record(-1, 1003))
    starts = [row.window_start_ms for row in driver.window_store("s").all()]
    assert starts == [0, 1000]
    # A record outside of the merged branches does not advance the stream time, like a filtered one.
    assert driver.counters("s") == Counters(5, applied=3, late=1, dropped=0, filtered=1)


@pytest.mark.java
def test_a_partner_is_awaited_by_the_clock_of_all_branches() -> None:
    """A left record is unmatched when the stream time of all branches has passed it."""

    def define(builder: StreamsBuilder) -> None:
        ways = branched(builder.stream("t", SCHEMA).map_values(right="v", v="v"))
        orders = builder.stream("orders", "id INT")
        within = JoinWindows.of_time_difference_and_grace(5, 0)
        orders.left_join(ways["0"].merge(ways["negative"]), within).to("out")

    driver = driver_of(define)
    results = driver.create_output_topic("out")
    driver.pipe_input("orders", [Record("k", {"id": 1}, 10), Record("k", {"id": 2}, 100)])
    driver.pipe_input("t", [Record("k", {"v": 7, "w": ""}, time_ms) for time_ms in (12, 100)])
    values = [(one.value["id"], one.value["v"]) for one in results.read_records() if one.value]
    assert values == [(1, 7), (2, 7)]


def _windows(kind: str) -> Any:
    return {"tumbling": tumbling(10, 8), "sliding": sliding(7, 8), "sessions": sessions(4, 8)}[kind]


def _whole(stream: KStream) -> KStream:
    """Return the same stream as ``_parted``, without branches."""
    tens = "CASE WHEN v < 0 THEN v * 10 WHEN v < 3 THEN v + 10 ELSE v END"
    return stream.map(f"CASE WHEN {tens} > 4 THEN 'more' ELSE key END", v=tens, w="w").filter(
        "v IS NOT NULL AND v <> 11"
    )


def _parted(stream: KStream) -> KStream:
    """Return a stream with steps in branches, nested branches, and a step after a merge."""
    ways = branched(stream.filter("v IS NOT NULL"))
    again = ways["negative"].split().branch("v = -1", "one").default_branch("more")
    ways_of_negative = again["more"].merge(again["one"]).map_values("w", v="v * 10")
    small = ways["small"].map_values("w", v="v + 10").filter("v <> 11")
    both = small.merge(ways_of_negative).select_key("CASE WHEN v > 4 THEN 'more' ELSE key END")
    return both.merge(ways["0"].select_key("CASE WHEN v > 4 THEN 'more' ELSE key END"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "tumbling", "sliding", "sessions"])
@cases(1, 40)
def test_branches_are_the_stream_whatever_the_cut(kind: str, number: int) -> None:
    """Rows, late counts and function results of merged branches equal those of the whole stream."""
    for seed in range(number):
        random = Random(f"{kind} {seed}")
        log = [
            record(random.choice((None, *range(-3, 7))), max(0, at + random.randint(-25, 3)),
                   random.choice("ab"))
            for at in range(60)
        ]  # fmt: skip
        results = [
            _results(way, kind, log, cut)
            for way, cut in ((_whole, 60), (_parted, 60), (_parted, random.randint(1, 9)))
        ]
        assert results[0] == results[1] == results[2], (seed, results)


def _results(way: Callable[[KStream], KStream], kind: str, log: list[Record], cut: int) -> Any:
    builder = StreamsBuilder()
    grouped = way(builder.stream("t", SCHEMA)).group_by_key()
    windowed: Any = grouped if kind == "none" else grouped.windowed_by(_windows(kind))
    windowed.aggregate(n=count(), v=sum("v"), w=collect_list("w")).materialize("s")
    texts: Any = (str, lambda _, v, all: f"{all} {v['v']}{v['w']}", lambda _, a, b: f"{a}|{b}")
    windowed.aggregate(*texts, schema="h STRING").materialize("f")
    driver = TopologyTestDriver(builder.build())
    for first in range(0, len(log), cut):
        driver.pipe_input("t", log[first : first + cut])
    if kind == "none":
        return driver.key_value_store("s").all(), driver.key_value_store("f").all()
    store = driver.session_store if kind == "sessions" else driver.window_store
    late = [driver.counters(name).late for name in "sf"]
    return store("s").all(), store("f").all(), late


@pytest.mark.slow
@pytest.mark.parametrize("where", ["joined", "flattened"])
def test_a_stream_branches_after_a_join_or_a_flattening_step(where: str) -> None:
    """A stream can be split into branches after a table join or after a flattening step."""

    def define(builder: StreamsBuilder) -> None:
        stream = builder.stream("t", SCHEMA)
        if where == "joined":
            stream = stream.left_join(builder.table("cities", "city STRING"))
        else:
            stream = stream.flat_map_values("w", v="array(v, v - 4)")
        ways = branched(stream)
        again = ways["0"].merge(ways["negative"].map_values("*", w="'less'")).group_by_key()
        again.aggregate(str, lambda _, v, all: f"{all} {v['v']}{v['w']}", schema="h STRING"
        ).materialize("s")  # fmt: skip

    driver = driver_of(define)
    driver.pipe_input("t", [record(value, at) for at, value in enumerate((-1, 3, 1, 5, -2))])
    row = driver.key_value_store("s").get("k")
    results = {"joined": " -1less 33 55 -2less", "flattened": " -1less -5less 33 -1less -3less 55"}
    assert row is not None
    if where == "joined":
        assert row.value == {"h": results[where]}
    else:
        assert row.value == {"h": f"{results[where]} -2less -6less"}


@pytest.mark.slow
def test_a_condition_as_text_and_one_as_a_column_are_not_compared(spark: SparkSession) -> None:
    """Nobody can say whether they are equal, so the streams stay separate inputs."""
    stream = StreamsBuilder().stream("t", SCHEMA)
    merged = stream.filter("v > 1").merge(stream.filter_not(F.col("v") > 1))
    assert len(merged.origins) == 2


@pytest.mark.java
def test_what_is_no_branch_stays_a_stream_of_its_own() -> None:
    """Overlapping filters, other topics and flattened branches stay separate inputs."""
    builder = StreamsBuilder()
    stream = builder.stream("t", SCHEMA)
    ways = branched(stream)
    others = [
        stream.filter("v > 1").merge(stream.filter("v < 5")),
        stream.filter("v > 1").merge(builder.stream("u", SCHEMA).filter_not("v > 1")),
        ways["0"].merge(ways["small"].flat_map_values("w", v="array(v)")),
        # The same expression over a different value is not a complement.
        stream.map_values("w", v="-v").filter("v > 1").merge(stream.filter_not("v > 1")),
        ways["0"].select_key("v", "w").merge(ways["small"].select_key("v")),
    ]
    assert [len(one.origins) for one in others] == [2] * len(others)
    again = ways["0"].merge(stream.filter("v > 1")).merge(ways["small"])
    assert [len(origin.steps) for origin in again.origins] == [2, 1]
    assert len(stream.filter("v > 1").merge(stream.filter_not("v > 1")).origins) == 1


@pytest.mark.java
def test_branches_need_the_same_columns() -> None:
    """The error about different columns names both schemas and the fix."""
    builder = StreamsBuilder()
    ways = branched(builder.stream("t", SCHEMA))
    ways["0"].merge(ways["small"].map_values("w", v="cast(v AS INT)")).to("out")
    results = (
        r"merge: .*same columns, not \(v bigint, w string\) and \(v int, w string\)\. Convert with"
    )
    with pytest.raises(InvalidTopology, match=results):
        TopologyTestDriver(builder.build())
