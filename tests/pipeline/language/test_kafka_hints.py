"""Words of Kafka Streams that a class does not have raise an error with the replacement."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

import oriel
from oriel import (
    Consumed,
    EmitStrategy,
    IllegalArgument,
    JoinWindows,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from oriel import aggregates as agg

BUILDER: Any = StreamsBuilder()
STREAM: Any = BUILDER.stream("t", "v DOUBLE")
TABLE: Any = BUILDER.table("u", "w DOUBLE")
VERSIONED: Any = BUILDER.versioned_table("x", "w DOUBLE", 10)
GLOBAL: Any = BUILDER.global_table("g", "w DOUBLE")
GROUPED: Any = STREAM.group_by_key()
COUNTED: Any = GROUPED.count()
MINUTES: Any = TimeWindows.of_size_with_no_grace(10)
WINDOWED: Any = GROUPED.windowed_by(MINUTES)
OTHER = StreamsBuilder()
OTHER.stream("t", "v DOUBLE").to("o")

#: Object, word of Kafka Streams, and a part of the message.
WORDS: list[tuple[Any, str, str]] = [
    (STREAM, "foreach", "Write peek(function)"),
    (STREAM, "processValues", "Write stream.process(function, schema=...)"),
    (STREAM, "repartition", "partitions each batch by key"),
    (STREAM, "toTable", "Write to_table(...)"),
    (STREAM, "count", "Write it after group_by_key() or group_by(...), as group_by_key().count"),
    (STREAM, "windowed_by", "as group_by_key().windowed_by(...)"),
    (STREAM, "materialize", "A stream has no store"),
    (STREAM, "groupByKey", "Write group_by_key(...)"),
    (STREAM, "mapValues", "Write map_values(...)"),
    (TABLE, "transformValues", "Tables have no processors"),
    (GROUPED, "process", "as stream.process(...)"),
    (TABLE, "group_by_key", "as to_stream().group_by_key(...)"),
    (VERSIONED, "selectKey", "as to_stream().select_key(...)"),
    (VERSIONED, "to", "materialize(name).to(topic)"),
    (COUNTED, "merge", "as to_stream().merge(...)"),
    (COUNTED, "count", "as group_by('column').count(...)"),
    (COUNTED, "toStream", "Write to_stream(...)"),
    (TABLE.group_by("w"), "windowed_by", "Rows of a table have no windows"),
    (GLOBAL, "filter", "after stream.join(table, key=...)"),
    (GLOBAL, "toStream", "Also read its topic with builder.table(...)"),
    (GROUPED, "materialize", "as count().materialize(...)"),
    (WINDOWED, "suppress", "as count().suppress(...)"),
    (GROUPED.cogroup(n=agg.count()), "count", "and then aggregate()"),
    (STREAM.split(), "to", "on one branch"),
    (BUILDER, "globalTable", "Write global_table(...)"),
    (COUNTED, "emit", "as windowed_by(...).emit(strategy).count()"),
    (COUNTED, "queryableStoreName", "Write store_name"),
    (WINDOWED, "emitStrategy", "Write emit(EmitStrategy.on_window_close())"),
    (OTHER.build(), "addSource", "Write stream.process(function, schema=...)"),
    (TimeWindows, "of", "Write of_size_with_no_grace(size_ms), or of_size_and_grace("),
    (TimeWindows, "ofSizeWithNoGrace", "Write of_size_with_no_grace(...)"),
    (MINUTES, "advanceBy", "Write advance_by(...)"),
    (WINDOWED, "windowed_by", "Choose other windows after the grouping"),
    (SessionWindows, "advanceBy", "Use TimeWindows for hopping windows"),
    (MINUTES, "until", "materialize(name, retention_ms=...)"),
    (MINUTES, "grace", "of_size_and_grace(size_ms, grace_ms)"),
    (MINUTES, "sizeMs", "Write size_ms (see"),
    (SlidingWindows, "of_size_with_no_grace", "Write TimeWindows.of_size_with_no_grace(...)"),
    (SessionWindows, "with_", "Write of_inactivity_gap_with_no_grace(gap_ms)"),
    (JoinWindows, "of", "Write of_time_difference_with_no_grace(time_difference_ms)"),
    (EmitStrategy, "onWindowClose", "Write on_window_close(...)"),
    (Serdes, "String", "Write string(...)"),
    (Serdes, "UUID", "Write Serdes.string(): Kafka writes UUIDs as strings"),
    (Serdes, "ByteArray", "keys are a string, JSON or a whole number"),
    (Consumed, "with_", "Write Consumed(key_serde="),
    (Consumed(), "withTimestampExtractor", "FieldTimestamp("),
]


@pytest.mark.parametrize(("owner", "name", "said"), WORDS)
def test_a_name_of_kafka_streams_has_a_hint(owner: Any, name: str, said: str) -> None:
    """The message names the replacement and the page, and Python finds no such attribute."""
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert said in str(caught.value)
    called = f"type object {owner.__name__!r}" if isinstance(owner, type) else None
    called = called or f"{type(owner).__name__!r} object"
    assert str(caught.value).startswith(f"{called} has no attribute {name!r}. ")
    assert "kafka-streams-calls.md" in str(caught.value)
    assert not hasattr(owner, name)


@pytest.mark.parametrize("name", ["nonsense", "_private", "__wrapped__"])
def test_an_unknown_word_has_pythons_message(name: str) -> None:
    """Python's message for an unknown name has no hint."""
    with pytest.raises(AttributeError) as caught:
        getattr(STREAM, name)
    assert str(caught.value) == f"'KStream' object has no attribute {name!r}"


def test_an_unknown_word_of_a_class_has_pythons_message() -> None:
    """A class has Python's message for an unknown name, as an object has."""
    with pytest.raises(AttributeError, match=r"^type object 'TimeWindows' has no .* 'nonsense'$"):
        TimeWindows.nonsense  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Materialized", r"Write \.materialize\(name"),
        ("Suppressed", r"suppress\(until_window_closes\(\)\)"),
        ("UnlimitedWindows", "Leave out windowed_by"),
        ("TopologyTestDriver", r"oriel\.testing"),
    ],
)
def test_an_import_of_a_kafka_streams_class_has_a_hint(name: str, said: str) -> None:
    """An import of a class of Kafka Streams raises an error that says what to use instead."""
    with pytest.raises(ImportError, match=said):
        exec(f"from oriel import {name}")  # noqa: S102 - as users write it
    assert name not in dir(oriel)


ARGUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: BUILDER.stream("t"), r"stream: missing .* 'schema'\. .* like 'item STRING"),
    (lambda: STREAM.join(STREAM, max, MINUTES, 1), "join: too many .* no ValueJoiner"),
    (lambda: STREAM.left_join(TABLE, joiner=max), r"left_join: .* 'joiner'\. .* no ValueJoiner"),
    (lambda: TABLE.join(TABLE, max), "join: too many .* no ValueJoiner"),
    (lambda: STREAM.group_by_key("v"), "group_by_key: .* Set the serdes in the topic's"),
    (lambda: GROUPED.count("s"), r"count: too .*\. It accepts \(\)\. .* with \.materialize"),
    (lambda: GROUPED.reduce(max, "store"), r"reduce: too many .* \.materialize\('name'\)"),
    (COUNTED.materialize, r"materialize: missing .* materialize\('name'\)"),
    (lambda: STREAM.to("x", Serdes.string()), "to: too many .* Messages are JSON"),
    (lambda: STREAM.to_table("s"), r"to_table: too many .* to_table\(\)\.materialize"),
    (lambda: STREAM.split("p-"), "split: too many .* Steps have no names"),
    (lambda: STREAM.select_key(key="v"), "select_key: .* They have no names"),
    (lambda: BUILDER.build({}), "build: too many"),
    (lambda: Consumed(Serdes.string(), Serdes.json()), r"Consumed: too many .*\(key_serde="),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("call", "said"), ARGUMENTS)
def test_arguments_of_kafka_streams_have_a_hint(call: Callable[[], Any], said: str) -> None:
    """An invalid or missing argument raises an error with a hint."""
    with pytest.raises(IllegalArgument, match=said) as caught:
        call()
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_python_copies_them_as_before(copied: Callable[[Any], Any]) -> None:
    """Copies work, although Python looks up names with an underscore on empty objects."""
    assert repr(copied(STREAM)) == repr(STREAM)
