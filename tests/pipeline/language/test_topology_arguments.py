"""Invalid arguments of the topology language."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from oriel import (
    IllegalArgument,
    InvalidTopology,
    SlidingWindows,
    StreamsBuilder,
    approx_count_distinct,
    approx_quantile,
    count,
)
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.windowed import TimeWindowedKStream
from oriel.pipeline.windows import Aggregate
from oriel.storage import RESERVED_COLUMNS

WINDOWS = SlidingWindows.of_time_difference_and_grace(10, 5)


def stream() -> KStream:
    """Return a stream in a new topology."""
    return StreamsBuilder().stream("t", "v DOUBLE")


def windowed() -> TimeWindowedKStream:
    """Return windows over a stream, ready for an aggregation."""
    return stream().group_by_key().windowed_by(WINDOWS)


@pytest.mark.parametrize("name", sorted({*RESERVED_COLUMNS, "store", "position"}))
def test_no_aggregate_takes_the_name_of_a_column(name: str) -> None:
    """Names that differ only in case are one column in Delta, so both are rejected."""
    for taken in (name, name.upper()):
        named: dict[str, Any] = {taken: count()}
        with pytest.raises(InvalidTopology, match="is a column of every store"):
            windowed().aggregate(**named)


def test_two_aggregates_differ_by_more_than_case() -> None:
    """`n` and `N` are one column in Delta, so they are rejected before anything is created."""
    with pytest.raises(InvalidTopology, match="differ in case only"):
        windowed().aggregate(n=count(), N=count())


@pytest.mark.parametrize(
    "build",
    [
        lambda: stream().filter(lambda row: row),  # type: ignore[arg-type]
        lambda: stream().filter(True),  # type: ignore[arg-type]
        lambda: stream().group_by(5),  # type: ignore[arg-type]
        lambda: windowed().count().materialize(5),  # type: ignore[arg-type]
    ],
    ids=["filter lambda", "filter bool", "group_by", "materialize"],
)
def test_an_argument_of_a_wrong_type_is_named(build: Callable[[], Any]) -> None:
    """An expression is SQL text or a Column, and a name is a string. Other types are rejected."""
    with pytest.raises(InvalidTopology):
        build()


def test_a_refused_store_leaves_the_builder_as_it_was() -> None:
    """After a wrong name or retention, you can materialize the same aggregation correctly."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v DOUBLE").group_by_key()
    table = grouped.windowed_by(WINDOWS).count()
    for name, retention in (("_x", None), ("s", 24), ("s", -1)):
        with pytest.raises(InvalidTopology):
            table.materialize(name, retention)
    table.materialize("s", 25)
    assert [store.name for store in builder.build().stores] == ["s"]


def test_a_retention_of_more_than_64_bits_is_refused() -> None:
    """The message names the step and the store. The longest retention that fits is accepted."""
    table = windowed().count()
    said = r"^materialize: the retention period of store 's' must not exceed 9223372036854775807 ms"
    for retention in (2**63, 2**70):
        with pytest.raises(IllegalArgument, match=said):
            table.materialize("s", retention)
    with pytest.raises(IllegalArgument, match=r"^materialize: the retention .* must be an integer"):
        table.materialize("s", "1 day")  # type: ignore[arg-type]
    table.materialize("s", 2**63 - 1)


WRONG: Any = "a"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: approx_quantile("x", WRONG), r"^approx_quantile: probability .* 0 to 1, not 'a'"),
        (lambda: approx_quantile("x", True), r"^approx_quantile: probability .*, not True"),
        (lambda: approx_quantile("x", float("nan")), r"^approx_quantile: probability .*, not nan"),
        (lambda: approx_quantile("x", 1.5), r"^approx_quantile: probability .*, not 1.5"),
        (lambda: approx_count_distinct("x", WRONG), r"^approx_count_distinct: lg_k .*, not 'a'"),
        (lambda: approx_count_distinct("x", 4.5), r"^approx_count_distinct: lg_k .*, not 4.5"),  # type: ignore[arg-type]
        (lambda: approx_count_distinct("x", 22), r"^approx_count_distinct: lg_k .* 4 to 21, not"),
    ],
)
def test_an_approximation_reports_its_valid_arguments(
    make: Callable[[], Aggregate], said: str
) -> None:
    """A value that is not a number, or out of bounds, is rejected with the aggregate's name."""
    with pytest.raises(IllegalArgument, match=said):
        make()


def test_later_stores_do_not_change_a_built_topology() -> None:
    """A built topology does not change when its builder gets another store."""
    builder = StreamsBuilder()
    stream_ = builder.stream("t", "v DOUBLE")
    stream_.group_by_key().windowed_by(WINDOWS).count().materialize("a")
    built = builder.build()
    stream_.group_by_key().windowed_by(WINDOWS).count().materialize("b")
    assert [store.name for store in built.stores] == ["a"]
    assert [store.name for store in builder.build().stores] == ["a", "b"]


def one(_kept: Any) -> Any:
    """Accept one argument."""


def two(_kept: Any, _new: Any) -> Any:
    """Accept two arguments."""


def three(_key: Any, _value: Any, _aggregate: Any) -> Any:
    """Accept three arguments."""


def with_options(_key: Any, _value: Any, _aggregate: Any, *, _scale: int) -> Any:
    """Accept arguments that include a required keyword argument."""


class Counter:
    """A callable object."""

    def __call__(self, _key: str, _value: Any) -> int:
        return 1


def grouped_table() -> Any:
    """Return the grouped rows of a table."""
    return StreamsBuilder().table("t", "v DOUBLE").group_by("v")


#: What is written -> how the function is called, and which arguments it accepts.
ARITIES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "peek": (
        lambda f: stream().peek(f(two)),
        "peek: the function is called with (key, value, timestamp_ms)",
        "two accepts (_kept, _new)",
    ),
    "reduce": (
        lambda f: windowed().reduce(f(three)),
        "reduce: the reducer is called with (aggregate, value)",
        "three accepts (_key, _value, _aggregate)",
    ),
    "reduce without windows": (
        lambda f: stream().group_by_key().reduce(f(one)),
        "reduce: the reducer is called with (aggregate, value)",
        "one accepts (_kept)",
    ),
    "initializer": (
        lambda f: windowed().aggregate(f(one), three, schema="n BIGINT"),
        "aggregate: initializer is called with ()",
        "one accepts (_kept)",
    ),
    "aggregator": (
        lambda f: windowed().aggregate(int, f(two), schema="n BIGINT"),
        "aggregate: aggregator is called with (key, value, aggregate)",
        "two accepts (_kept, _new)",
    ),
    "an object": (
        lambda f: windowed().aggregate(int, f(Counter()), schema="n BIGINT"),
        "aggregate: aggregator is called with (key, value, aggregate)",
        "Counter accepts (_key, _value)",
    ),
    "a named argument": (
        lambda f: windowed().aggregate(int, f(with_options), schema="n BIGINT"),
        "aggregate: aggregator is called with (key, value, aggregate)",
        "with_options accepts (_key, _value, _aggregate, *, _scale)",
    ),
    "merger": (
        lambda f: windowed().aggregate(int, three, f(two), schema="n BIGINT"),
        "aggregate: merger is called with (key, left, right)",
        "two accepts (_kept, _new)",
    ),
    "cogroup": (
        lambda f: (
            (stream_grouped := stream().group_by_key())
            .cogroup(three)
            .cogroup(stream_grouped, f(two))
            .aggregate(int, schema="n BIGINT")
        ),
        "aggregate: aggregator 1 is called with (key, value, aggregate)",
        "two accepts (_kept, _new)",
    ),
    "adder": (
        lambda f: grouped_table().aggregate(int, f(two), three, schema="n BIGINT"),
        "aggregate: adder is called with (key, value, aggregate)",
        "two accepts (_kept, _new)",
    ),
    "subtractor": (
        lambda f: grouped_table().aggregate(int, three, f(two), schema="n BIGINT"),
        "aggregate: subtractor is called with (key, value, aggregate)",
        "two accepts (_kept, _new)",
    ),
    "adder of values": (
        lambda f: grouped_table().reduce(f(three), two),
        "reduce: the reducer is called with (aggregate, value)",
        "three accepts (_key, _value, _aggregate)",
    ),
    "subtractor of values": (
        lambda f: grouped_table().reduce(two, f(three)),
        "reduce: subtractor is called with (aggregate, value)",
        "three accepts (_key, _value, _aggregate)",
    ),
}


@pytest.mark.parametrize("place", ARITIES)
def test_a_function_of_other_arguments_is_refused_when_it_is_given(place: str) -> None:
    """A function is rejected before any record, with the required and the accepted arguments.

    A wrapper of any arguments is accepted, and so is a callable without a signature.
    """
    build, called, takes = ARITIES[place]
    with pytest.raises(InvalidTopology) as caught:
        build(lambda function: function)
    assert str(caught.value) == f"{called}, but {takes}"

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def wrapper(*given: Any) -> Any:
            return function(*given, 1)

        return wrapper

    build(wrapped)
    build(lambda _: dict)
