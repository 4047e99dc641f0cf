"""Mistakes in topologies with several inputs, functions and joins have clear messages."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from oriel import (
    EmitStrategy,
    IllegalArgument,
    InvalidTopology,
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    count,
    sum,
    until_window_closes,
)
from oriel.pipeline.language.grouped import CogroupedKStream, KGroupedStream
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.tables import SourceTable
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.lowered import lower

WINDOWS = TimeWindows.of_size_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)
WITHIN = JoinWindows.of_time_difference_with_no_grace(5)


#: Streams can only be joined within one builder.
BUILDER = StreamsBuilder()


def stream(topic: str = "t") -> KStream:
    """Return a stream."""
    return BUILDER.stream(topic, "v DOUBLE")


def table() -> SourceTable:
    """Return a table."""
    return BUILDER.table("u", "w DOUBLE")


def grouped() -> KGroupedStream:
    """Return a grouped stream."""
    return stream().group_by_key()


def windowed() -> TimeWindowedKStream:
    """Return a windowed stream."""
    return grouped().windowed_by(WINDOWS)


def cogrouped() -> CogroupedKStream:
    """Return a cogroup of named aggregates."""
    return grouped().cogroup(n=count())


def add(_key: str, _value: Any, aggregate: int) -> int:
    """Add one to the aggregate."""
    return aggregate + 1


WRONG: Any = 3
#: What is written -> what the message says: first the step, then the solution.
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "functions and aggregates": (
        lambda: windowed().aggregate(lambda: 0, add, schema="n BIGINT", m=count()),
        r"aggregate: pass either functions with a schema or named aggregates",
    ),
    "only an initializer": (
        lambda: windowed().aggregate(lambda: 0, schema="n BIGINT"),
        r"aggregate: initializer, merger and schema need the function aggregator",
    ),
    "no initializer": (
        lambda: windowed().aggregate(None, add, schema="n BIGINT"),
        r"aggregate: initializer must be a function, not None",
    ),
    "an initializer that is a value": (
        lambda: windowed().aggregate(WRONG, add, schema="n BIGINT"),
        r"aggregate: initializer must be a function, not 3",
    ),
    "an aggregator that is none": (
        lambda: windowed().aggregate(lambda: 0, WRONG, schema="n BIGINT"),
        r"aggregate: aggregator .*must be a function, not 3",
    ),
    "a merger that is none": (
        lambda: windowed().aggregate(lambda: 0, add, WRONG, schema="n BIGINT"),
        r"aggregate: merger must be a function, not 3",
    ),
    "no schema": (
        lambda: windowed().aggregate(lambda: 0, add),
        r"aggregate: schema must name the aggregate's columns, like \"n BIGINT\", not None",
    ),
    "a schema that is none": (
        lambda: windowed().aggregate(lambda: 0, add, schema="n NUMBER"),
        r"^aggregate: schema 'n NUMBER': the type NUMBER is not supported\. Write a column",
    ),
    "a schema with a taken name": (
        lambda: windowed().aggregate(lambda: 0, add, schema="n BIGINT, Final BIGINT"),
        r"aggregate: the name 'Final' is a column of every store",
    ),
    "a schema with a name Delta can't have": (
        lambda: windowed().aggregate(lambda: 0, add, schema="`a b` BIGINT"),
        r"aggregate: a Delta table cannot have a column named 'a b'",
    ),
    "a session without a merger": (
        lambda: grouped().windowed_by(SESSIONS).aggregate(lambda: 0, add, schema="n BIGINT"),
        r"aggregate: sessions merge, so pass merger=",
    ),
    "a cogroup of sessions without a merger": (
        lambda: (
            grouped().cogroup(add).windowed_by(SESSIONS).aggregate(lambda: 0, schema="n BIGINT")
        ),
        r"aggregate: sessions merge, so pass merger=",
    ),
    "a reducer that is none": (
        lambda: windowed().reduce(WRONG),
        r"reduce: the reducer must be a function \(aggregate, value\), not 3",
    ),
    "a reducer without windows that is none": (
        lambda: grouped().reduce(WRONG),
        r"reduce: the reducer must be a function",
    ),
    "a cogroup of nothing": (
        lambda: grouped().cogroup(),
        r"cogroup: pass an aggregator or named aggregates for each stream",
    ),
    "a cogroup over two builders": (
        lambda: cogrouped().cogroup(
            StreamsBuilder().stream("t", "v DOUBLE").group_by_key(), m=count()
        ),
        r"cogroup: the streams are from different builders\. Use one builder",
    ),
    "a join over two builders": (
        lambda: stream().join(StreamsBuilder().stream("t", "v DOUBLE"), WITHIN),
        r"join: the inputs are from different builders\. Use one builder",
    ),
    "a cogroup of both": (
        lambda: grouped().cogroup(add, n=count()),
        r"cogroup: pass an aggregator or named aggregates for each stream",
    ),
    "a cogroup of an ungrouped stream": (
        lambda: cogrouped().cogroup(stream(), m=count()),  # type: ignore[arg-type]
        r"cogroup: the argument must be a grouped stream, not ",
    ),
    "a cogroup of aggregates and functions": (
        lambda: cogrouped().cogroup(grouped(), add),
        r"cogroup: all streams must have an aggregator, or all must have named aggregates",
    ),
    "a cogroup of functions and aggregates": (
        lambda: grouped().cogroup(add).cogroup(grouped(), m=count()),
        r"cogroup: all streams must have an aggregator, or all must have named aggregates",
    ),
    "a cogroup with one name twice": (
        lambda: cogrouped().cogroup(grouped(), N=count()).aggregate(),
        r"cogroup: two names are equal or differ in case only: \['N', 'n'\]",
    ),
    "a cogroup with a taken name": (
        lambda: grouped().cogroup(revision=count()).aggregate(),
        r"cogroup: the name 'revision' is a column of every store",
    ),
    "a cogroup of what is no aggregate": (
        lambda: grouped().cogroup(n=WRONG).aggregate(),
        r"cogroup: n=3 is not an aggregate such as count\(\)",
    ),
    "a cogroup of aggregates with an initializer": (
        lambda: cogrouped().aggregate(lambda: 0),
        r"aggregate: named aggregates accept no initializer, merger or schema",
    ),
    "a cogroup of functions without initializer": (
        lambda: grouped().cogroup(add).aggregate(schema="n BIGINT"),
        r"aggregate: initializer must be a function, not None",
    ),
    "a cogroup of functions without schema": (
        lambda: grouped().cogroup(add).aggregate(lambda: 0),
        r"aggregate: schema must name the aggregate's columns",
    ),
    "a second aggregator that is none": (
        lambda: (
            grouped().cogroup(add).cogroup(grouped(), WRONG).aggregate(lambda: 0, schema="n INT")
        ),
        r"aggregate: aggregator 1 must be a function, not 3",
    ),
    "windows that are none for a cogroup": (
        lambda: cogrouped().windowed_by(WRONG),
        r"windowed_by: windows must be TimeWindows, SlidingWindows or SessionWindows, not 3",
    ),
    "join windows for an aggregation": (
        lambda: grouped().windowed_by(WITHIN),  # type: ignore[arg-type]
        r"windowed_by: windows must be TimeWindows, .*, not JoinWindows",
    ),
    "an emit strategy that is none": (
        lambda: windowed().emit(WRONG),
        r"emit: the argument must be an EmitStrategy such as on_window_close\(\), not 3",
    ),
    "final rows of a cogroup without windows": (
        lambda: cogrouped().emit(EmitStrategy.on_window_close()),
        r"emit: without windows, rows never become final\. Call windowed_by\(\) before it",
    ),
    "suppress without windows": (
        lambda: grouped().count().suppress(until_window_closes()),
        r"^suppress: without windows, rows never become final\. Call windowed_by\(\) before it",
    ),
    "suppress until nothing": (
        lambda: windowed().count().suppress(WRONG),
        r"^suppress: the argument must be until_window_closes\(\), not 3",
    ),
    "a join with something else": (
        lambda: stream().join(WRONG, WITHIN),
        r"join: other must be a stream or a table of this builder, not 3",
    ),
    "a join with a grouped stream": (
        lambda: stream().left_join(grouped(), WITHIN),  # type: ignore[arg-type]
        r"left_join: other must be a stream or a table of this builder, not ",
    ),
    "two streams without windows": (
        lambda: stream().join(stream("u")),
        r"join: a join of two streams needs JoinWindows, not None",
    ),
    "two streams with an aggregation's windows": (
        lambda: stream().outer_join(stream("u"), WINDOWS),  # type: ignore[arg-type]
        r"outer_join: a join of two streams needs JoinWindows, not TimeWindows",
    ),
    "a table with windows": (
        lambda: stream().join(table(), WITHIN),
        r"join: a stream joins a table as it is now\. Use join or left_join without windows",
    ),
    "an outer join without windows": (
        lambda: stream().outer_join(stream("u")),
        r"outer_join: a join of two streams needs JoinWindows, not None",
    ),
    "an outer join with a table, without windows": (
        lambda: stream().outer_join(table()),  # type: ignore[arg-type]
        r"outer_join: a stream joins a table as it is now\. Use join or left_join without windows",
    ),
    "rows at the close of no windows": (
        lambda: stream().group_by_key().emit(EmitStrategy.on_window_close()),
        r"emit: without windows, rows never become final\. Call windowed_by\(\) before it",
    ),
    "an outer join with a table": (
        lambda: stream().outer_join(table(), WITHIN),  # type: ignore[arg-type]
        r"outer_join: a stream joins a table as it is now\. Use join or left_join without windows",
    ),
    "a table with a stream": (
        lambda: table().join(stream()),  # type: ignore[arg-type]
        r"join: a table can only be joined with a table, not with ",
    ),
    "a foreign key of nothing": (
        lambda: table().join(table(), foreign_key=()),
        r"join: foreign_key= must name at least one column or expression",
    ),
    "a foreign key that is a function": (
        lambda: table().left_join(table(), foreign_key=print),  # type: ignore[arg-type]
        r"left_join: an expression must be SQL text or a Spark Column, not the function print",
    ),
    "a foreign key of two builders": (
        lambda: table().join(StreamsBuilder().table("x", "v INT"), foreign_key="w"),
        r"join: the inputs are from different builders\. Use one builder",
    ),
    "a table of nothing": (
        lambda: StreamsBuilder().table("", "v INT"),
        r"table: topic must be a non-empty string, not ''",
    ),
    "a table without a schema": (
        lambda: StreamsBuilder().table("t", WRONG),
        r"table: schema must be a non-empty string, not 3",
    ),
    "a retention without windows": (
        lambda: grouped().count().materialize("s", 10),
        r"materialize: the store 's' has no windows, so it has no retention period",
    ),
    "a retention of sessions that is too short": (
        lambda: grouped().windowed_by(SESSIONS).count().materialize("s", 9),
        r"'s' must be at least the inactivity gap plus the grace .*, 10 ms, not",
    ),
    "a table's store with a wrong name": (
        lambda: table().materialize("a/b"),
        r"store name 'a/b' is not valid",
    ),
}


@pytest.mark.parametrize(("build", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_step(build: Callable[[], Any], said: str) -> None:
    """Each mistake is rejected where it is made, and the message begins with the step."""
    with pytest.raises(InvalidTopology, match=said):
        build()


def merged_streams(inputs: int, first: int = 0) -> KStream:
    """Return this number of merged streams, with topics from ``first``."""
    merged = stream(f"t{first}")
    for number in range(first + 1, first + inputs):
        merged = merged.merge(stream(f"t{number}"))
    return merged


def cogrouped_streams(inputs: int) -> CogroupedKStream:
    """Return a cogroup of this number of streams."""
    cogroup = grouped().cogroup(add)
    for number in range(1, inputs):
        cogroup = cogroup.cogroup(stream(f"t{number}").group_by_key(), add)
    return cogroup


def joined_tables(inputs: int) -> SourceTable:
    """Return this number of joined tables."""
    joined = table()
    for number in range(1, inputs):
        joined = joined.join(BUILDER.table(f"u{number}", f"w{number} DOUBLE"))
    return joined


def joined_windows(inputs: int) -> Any:
    """Return two joined aggregations with this number of inputs."""
    left, right = (
        each.group_by_key().windowed_by(WINDOWS)
        for each in (merged_streams(inputs - 1), stream("u"))
    )
    return left.aggregate(n=count()).join(right.aggregate(m=count()))


#: Calls with a number of inputs, and the name of the last call.
MANY: dict[str, tuple[Callable[[int], Any], str]] = {
    "merged streams": (merged_streams, "merge"),
    "cogrouped streams": (cogrouped_streams, "cogroup"),
    "joined tables": (joined_tables, "join"),
    "joined streams": (
        lambda inputs: merged_streams(2).join(merged_streams((inputs + 1) // 2, first=2), WITHIN),
        "join",
    ),
    "joined windows": (joined_windows, "join"),
}


@pytest.mark.parametrize(("build", "step"), MANY.values(), ids=MANY)
def test_more_than_128_inputs_are_refused(build: Callable[[int], Any], step: str) -> None:
    """State files have the index of an input in 8 bits. The message says what to do instead."""
    build(128)
    said = (
        rf"^{step}: the result has 1(29|30) inputs, but .* 128\. Write .* read this topic instead"
    )
    with pytest.raises(InvalidTopology, match=said):
        build(129)


#: The longest span of time that windows accept.
LONGEST_MS = 2**63 // 1000 - 2 * 253_402_300_799_999
TOO_LONG: dict[str, tuple[Callable[[int], Any], str]] = {
    "tumbling": (lambda ms: TimeWindows.of_size_and_grace(1, ms - 1), r"size \+ grace"),
    "sliding": (
        lambda ms: SlidingWindows.of_time_difference_and_grace(1, ms - 2),
        r"2 \* time difference \+ grace",
    ),
    "session": (
        lambda ms: SessionWindows.of_inactivity_gap_and_grace(1, ms - 1),
        r"inactivity gap \+ grace",
    ),
    "join": (
        lambda ms: JoinWindows.of_time_difference_and_grace(1, ms - 2),
        r"before \+ after \+ grace",
    ),
}


@pytest.mark.parametrize(("windows", "said"), TOO_LONG.values(), ids=TOO_LONG)
def test_a_grace_that_overflows_is_refused(windows: Callable[[int], Any], said: str) -> None:
    """The longest grace is accepted. One ms more would overflow, and the message names the sum."""
    windows(LONGEST_MS)
    with pytest.raises(IllegalArgument, match=rf"{said} must not exceed {LONGEST_MS} ms"):
        windows(LONGEST_MS + 1)
    with pytest.raises(IllegalArgument, match="must not exceed"):
        windows(2**63)
    with pytest.raises(IllegalArgument, match="must not exceed"):
        windows(timedelta.max // timedelta(milliseconds=1) * 10**6)


@pytest.mark.parametrize("kind", ["aggregation", "table", "join"])
def test_no_two_stores_have_one_name(kind: str) -> None:
    """The second store of a name is rejected, whatever creates it, and the first one stays."""
    builder = StreamsBuilder()
    builder.table("u", "w DOUBLE").materialize("s")
    second: dict[str, Callable[[], Any]] = {
        "aggregation": lambda: builder.stream("t", "v INT").group_by_key().count().materialize("s"),
        "table": lambda: builder.table("t", "v INT").materialize("s"),
        "join": lambda: (
            builder.table("t", "v INT").join(builder.table("u", "w DOUBLE")).materialize("s")
        ),
    }
    with pytest.raises(InvalidTopology, match="materialize: two stores are named 's'"):
        second[kind]()
    stores = lower(Topology(tuple(builder.registry.stores))).stores
    assert [store.topics for store in stores] == [("u",)]


def test_store_names_that_differ_in_case_only_are_refused() -> None:
    """Some file systems would use one directory for both."""
    builder = StreamsBuilder()
    builder.table("u", "w DOUBLE").materialize("sums")
    with pytest.raises(
        InvalidTopology, match="two stores are named 'sums' and 'Sums': they differ"
    ):
        builder.table("t", "v INT").materialize("Sums")


def test_the_error_for_an_unfinished_aggregation_has_its_calls() -> None:
    """The message names each aggregation without a store by its topics and calls."""
    builder = StreamsBuilder()
    first, second = (builder.stream(topic, "v DOUBLE").group_by_key() for topic in ("a", "b"))
    first.cogroup(n=count()).cogroup(second, total=sum("v")).aggregate()
    with pytest.raises(InvalidTopology, match=r"a, b: aggregate\(n=count\(\), total=sum\(v\)\)"):
        builder.build()
    first.aggregate(lambda: 0, add, schema="n BIGINT")
    with pytest.raises(InvalidTopology, match=r" and a: aggregate\(functions\)"):
        builder.build()


def test_a_forgotten_aggregation_is_an_error_although_others_exist() -> None:
    """Later aggregations, with or without a store, do not replace it."""
    builder = StreamsBuilder()
    counted = builder.stream("t", "v INT").group_by_key()
    counted.aggregate(lost=count())
    for name in ("a", "b", "c"):
        counted.count().materialize(name)
    with pytest.raises(InvalidTopology, match=r"t: aggregate\(lost=count\(\)\)"):
        builder.build()


def test_a_suppressed_aggregation_waits_once() -> None:
    """`suppress` replaces the aggregation that it is called on, so one store is enough."""
    builder = StreamsBuilder()
    counted = builder.stream("t", "v INT").group_by_key().windowed_by(WINDOWS).count()
    counted.suppress(until_window_closes()).materialize("s")
    (store,) = lower(builder.build()).stores
    assert store.emit.is_on_close


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (table, "<SourceTable table('u')>"),
        (grouped, "KGroupedStream(origins=(stream('t').group_by_key(),))"),
        (lambda: grouped().count(), "<KTable t: aggregate(count=count())>"),
        (lambda: BUILDER.global_table("g", "v INT"), "<GlobalKTable global_table('g')>"),
        (lambda: BUILDER.versioned_table("g", "v INT", 5), "<VersionedTable versioned_table('g')>"),
    ],
)
def test_what_is_no_stream_is_named_as_it_is_written(other: Callable[[], Any], named: str) -> None:
    """The message has the expression, and not the content of its builder."""
    with pytest.raises(InvalidTopology) as refused:
        stream().merge(other())
    assert str(refused.value) == f"merge: other must be a stream of this builder, not {named}"
