"""The topology language: what it builds and what it rejects."""

from collections.abc import Callable
from typing import Any

import pytest

from oriel import InvalidTopology, SlidingWindows, StreamsBuilder, count, sum
from oriel.pipeline.language import Columns, Filter
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.lowered import lower

WINDOWS = SlidingWindows.of_time_difference_and_grace(10, 5)


def windowed(builder: StreamsBuilder | None = None) -> TimeWindowedKStream:
    """Return windows over a stream, ready for an aggregation."""
    stream = (builder or StreamsBuilder()).stream("t", "v DOUBLE")
    return stream.group_by_key().windowed_by(WINDOWS)


def test_one_stream_may_feed_several_stores() -> None:
    """Steps create new streams, so the filter of one store does not affect another store."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "v DOUBLE")
    filtered = stream.filter("v > 0")
    stream.group_by_key().windowed_by(WINDOWS).count().materialize("all")
    filtered.group_by("v").windowed_by(WINDOWS).aggregate(t=sum("v")).materialize("some", 25)
    every, some = lower(builder.build()).stores
    assert (every.name, every.grouped_by, every.retention_ms) == ("all", "key", None)
    assert [one.steps for one in every.inputs] == [()]
    assert (some.grouped_by, some.retention_ms) == ("v", 25)
    assert [one.steps for one in some.inputs] == [(Filter("v > 0"),)]
    assert isinstance(every.aggregation, Columns)
    assert every.aggregation.columns == ["count"]


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: StreamsBuilder().build(), "has no store"),
        (lambda: StreamsBuilder().stream("", "v INT"), "topic must be a non-empty string"),
        (lambda: StreamsBuilder().stream("t", " "), "schema must be a non-empty string"),
        (lambda: StreamsBuilder().stream("t", "v INT").map_values(), "name at least one column"),
        (lambda: StreamsBuilder().stream("t", "v INT").group_by(), "name at least one column"),
        (lambda: windowed().aggregate(), "name at least one aggregate"),
        (lambda: windowed().aggregate(n=3), "is not an aggregate"),  # type: ignore[arg-type]
        (
            lambda: windowed().aggregate(final=count()),
            "the name 'final' is a column of every store",
        ),
        (lambda: windowed().aggregate(timestamp_ms=count()), "is a column of every store"),
        (lambda: windowed().count().materialize("_x"), "store name '_x' is not valid"),
        (lambda: windowed().count().materialize("a/b"), "is not valid"),
        (lambda: windowed().count().materialize("s", -1), "must not be negative"),
        (lambda: windowed().count().materialize("s", 24), "must be at least"),
        (
            lambda: StreamsBuilder().stream("t", "v INT").group_by_key().windowed_by(10),  # type: ignore[arg-type]
            "windows must be TimeWindows, SlidingWindows or SessionWindows, not 10",
        ),
    ],
)
def test_a_topology_that_breaks_a_rule_is_refused(build: Callable[[], Any], said: str) -> None:
    """Each mistake is an InvalidTopology whose message says what to do."""
    with pytest.raises(InvalidTopology, match=said):
        build()


def test_two_stores_need_two_names() -> None:
    """A second store of the same name is rejected when it is materialized."""
    builder = StreamsBuilder()
    windowed(builder).count().materialize("s")
    with pytest.raises(InvalidTopology, match="two stores are named 's'"):
        windowed(builder).count().materialize("s")


def test_an_aggregation_without_a_store_is_noticed() -> None:
    """A topology with an aggregation that was not materialized is an error."""
    builder = StreamsBuilder()
    windowed(builder).aggregate(n=count())
    with pytest.raises(InvalidTopology, match=r"aggregate\(n=count\(\)\)"):
        builder.build()
