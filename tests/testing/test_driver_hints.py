"""Errors when a topology runs: each message names the situation and the fix."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from oriel import (
    Consumed,
    IllegalArgument,
    InvalidTopology,
    Serdes,
    StreamsBuilder,
    TimeWindows,
)
from oriel import aggregates as agg
from oriel.testing import Record, TopologyTestDriver


def struct_of_functions(builder: StreamsBuilder) -> None:
    """Define a function whose schema has a type that a store cannot contain."""
    grouped = builder.stream("t", "n INT").group_by_key()
    grouped.aggregate(dict, lambda _key, _value, kept: kept, schema="s STRUCT<a: INT>").materialize(
        "x"
    )


def last_of_lists(builder: StreamsBuilder) -> None:
    """Define an aggregate over a type that it does not accept."""
    grouped = builder.stream("t", "a ARRAY<STRING>").group_by_key()
    grouped.aggregate(l=agg.last("a")).to_stream().group_by_key().count().materialize("x")


def sum_of_an_expression(builder: StreamsBuilder) -> None:
    """Define an aggregate over an expression instead of a column."""
    grouped = builder.stream("t", "n INT").group_by_key()
    grouped.aggregate(s=agg.sum("n * 2")).materialize("x")


def column_of_the_second_table(builder: StreamsBuilder) -> None:
    """Define a foreign key with a column that the first table does not have."""
    a, b, c = (builder.table(name, f"v{name} STRING") for name in "abc")
    a.join(b).join(c, foreign_key="vb").materialize("x")


def hash_after_an_aggregation(builder: StreamsBuilder) -> None:
    """Define a filter with a function that Arrow does not have."""
    counted = builder.stream("t", "n INT").group_by_key().count()
    counted.filter("sha2(key, 256) = 'a'").materialize("x")


def key_of_a_global_table(builder: StreamsBuilder) -> None:
    """Define a global-table key with a column that the record does not have."""
    countries = builder.global_table("g", "x STRING")
    builder.stream("t", "n INT").join(countries, key="vb").to("x")


def foreign_key_without_a_column(builder: StreamsBuilder) -> None:
    """Define a foreign key with a column that the row does not have."""
    named = builder.table("a", "n INT").join(builder.table("b", "x INT"), foreign_key="vb")
    named.to_stream().to("x")


@pytest.mark.java
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (struct_of_functions, "in the function's schema, e.g. as JSON text"),
        (last_of_lists, r"Cast it in map_values, or keep it with reduce or a function$"),
        (
            sum_of_an_expression,
            r"no column 'n \* 2'\. The columns .* Compute others in map_values first",
        ),
        (column_of_the_second_table, r"Call \.map_values\('\*'\) after the join to read all"),
        (key_of_a_global_table, r"step join\(key=vb\): A column.* `vb` cannot be resolved"),
        (foreign_key_without_a_column, r"step join\(foreign_key=vb\): A column.* `vb` cannot"),
        (hash_after_an_aggregation, r"or use it after to_stream\(\)"),
    ],
)
def test_a_refusal_names_the_way_out(make: Callable[[StreamsBuilder], None], said: str) -> None:
    """Each error suggests a fix that works."""
    builder = StreamsBuilder()
    make(builder)
    with pytest.raises(InvalidTopology, match=said):
        TopologyTestDriver(builder.build())


def a_driver() -> TopologyTestDriver:
    """Return a driver with stores, and a stream that is written to a topic."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "n INT").to("out")
    stream.group_by_key().count().materialize("kept")
    stream.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(5)).count().materialize("w")
    return TopologyTestDriver(builder.build())


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda driver: driver.createInputTopic, "Write pipe_input(topic, record)"),
        (lambda driver: driver.pipeInput, "Write pipe_input(...)"),
        (lambda driver: driver.get_key_value_store, "Write key_value_store(name)"),
        (lambda driver: driver.metrics, "Write counters(store)"),
        (lambda driver: driver.create_output_topic("out").readRecord, "Write read_record(...)"),
        (lambda driver: driver.create_output_topic("out").isEmpty, "Write is_empty (see"),
        (lambda driver: driver.create_output_topic("out").readKeyValuesToMap, "read_records()"),
        (lambda driver: driver.create_output_reader("kept").read_record, "Write read_rows()"),
        (lambda driver: driver.key_value_store("kept").fetch, "Use window_store(name)"),
        (lambda driver: driver.key_value_store("kept").prefixScan, "Write prefix_scan(...)"),
        (lambda driver: driver.window_store("w").get, "Use key_value_store(name)"),
        (lambda driver: driver.window_store("w").put, "Stores are read-only"),
    ],
)
def test_a_name_of_kafkas_driver_has_a_hint(ask: Callable[[Any], object], said: str) -> None:
    """A method name of Kafka's driver raises an error that names the method to use."""
    with pytest.raises(AttributeError, match=re.escape(said)):
        ask(a_driver())


@pytest.mark.java
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda driver: driver.create_output_reader("out"), "create_output_topic('out')"),
        (lambda driver: driver.counters("out"), "counters and dead letters of 'to(out)'"),
        (lambda driver: driver.pipe_input("t", None), "pass a Record or a list of records"),
        (lambda driver: driver.pipe_inputs([Record("k", None, 1)]), "(topic, record, partition)"),
        (lambda driver: driver.pipe_inputs([("t",)]), "not ('t',)"),
        (lambda driver: driver.pipe_inputs(("t", Record("k", None, 1))), "not 't'"),
        (
            lambda driver: driver.pipe_inputs([("t", Record("k", None, 1), 0, 0)]),
            "not ('t', Record",
        ),
    ],
)
def test_a_wrong_call_has_a_hint(call: Callable[[Any], object], said: str) -> None:
    """A wrong call raises an error of the driver, not of Python's unpacking."""
    with pytest.raises(IllegalArgument, match=re.escape(said)):
        call(a_driver())


def test_keys_are_given_as_text() -> None:
    """A test passes keys as strings, also for a topic with numeric keys."""
    builder = StreamsBuilder()
    stream = builder.stream("t", "n INT", Consumed(key_serde=Serdes.long()))
    stream.group_by_key().count().materialize("x")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(TypeError, match=r"Pass keys as strings \('5'\)"):
        driver.pipe_input("t", Record(5, {"n": 1}, 1))  # type: ignore[arg-type]
    driver.pipe_input("t", Record("5", {"n": 1}, 1))
