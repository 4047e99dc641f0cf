"""What shows when a topology is run: the message names the situation and the way out."""

from collections.abc import Callable

import pytest

from oriel import Consumed, InvalidTopology, Serdes, StreamsBuilder
from oriel import aggregates as agg
from oriel.testing import Record, TopologyTestDriver


def struct_of_functions(builder: StreamsBuilder) -> None:
    """A function's schema has a type that no store holds."""
    grouped = builder.stream("t", "n INT").group_by_key()
    grouped.aggregate(dict, lambda _key, _value, kept: kept, schema="s STRUCT<a: INT>").materialize(
        "x"
    )


def last_of_lists(builder: StreamsBuilder) -> None:
    """An aggregate is given a type that it doesn't take."""
    grouped = builder.stream("t", "a ARRAY<STRING>").group_by_key()
    grouped.aggregate(l=agg.last("a")).to_stream().group_by_key().count().materialize("x")


def sum_of_an_expression(builder: StreamsBuilder) -> None:
    """An aggregate reads a column, not an expression."""
    grouped = builder.stream("t", "n INT").group_by_key()
    grouped.aggregate(s=agg.sum("n * 2")).materialize("x")


def column_of_the_second_table(builder: StreamsBuilder) -> None:
    """A foreign key names what the first table has not."""
    a, b, c = (builder.table(name, f"v{name} STRING") for name in "abc")
    a.join(b).join(c, foreign_key="vb").materialize("x")


def hash_behind_an_aggregation(builder: StreamsBuilder) -> None:
    """Arrow has no such function."""
    counted = builder.stream("t", "n INT").group_by_key().count()
    counted.filter("sha2(key, 256) = 'a'").materialize("x")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (struct_of_functions, "in the function's schema, e.g. as JSON text"),
        (last_of_lists, r"cast it in map_values, or keep it with reduce or a function$"),
        (sum_of_an_expression, r"no column 'n \* 2'; .* others are computed in map_values before"),
        (column_of_the_second_table, r"put \.map_values\('\*'\) behind their join to read all"),
        (hash_behind_an_aggregation, r"Behind to_stream\(\) any expression works"),
    ],
)
def test_a_refusal_names_the_way_out(make: Callable[[StreamsBuilder], None], said: str) -> None:
    """It is one that works."""
    builder = StreamsBuilder()
    make(builder)
    with pytest.raises(InvalidTopology, match=said):
        TopologyTestDriver(builder.build())


def test_keys_are_given_as_text() -> None:
    """Also where those of the topic are numbers."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "n INT", Consumed(key_serde=Serdes.long()))
    stream.group_by_key().count().materialize("x")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(TypeError, match=r"keys are given as text \('5'\)"):
        driver.pipe_input("t", Record(5, {"n": 1}, 1))  # type: ignore[arg-type]
    driver.pipe_input("t", Record("5", {"n": 1}, 1))
