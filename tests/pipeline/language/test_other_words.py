"""Words of Kafka Streams that a class has not: each is answered with what to write instead."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from oriel import StreamsBuilder, TimeWindows
from oriel import aggregates as agg

BUILDER = StreamsBuilder()
STREAM = BUILDER.stream("t", "v DOUBLE")
TABLE = BUILDER.table("u", "w DOUBLE")
VERSIONED = BUILDER.versioned_table("x", "w DOUBLE", 10)
GLOBAL = BUILDER.global_table("g", "w DOUBLE")
GROUPED = STREAM.group_by_key()
COUNTED = GROUPED.count()
WINDOWED = GROUPED.windowed_by(TimeWindows.of_size_with_no_grace(10))

#: Who is asked -> for what -> what the message has to say.
WORDS: list[tuple[Any, str, str]] = [
    (STREAM, "foreach", "write peek(function)"),
    (STREAM, "processValues", "there are no processors"),
    (STREAM, "repartition", "each batch is divided by key"),
    (STREAM, "toTable", "write to_table(...)"),
    (STREAM, "count", "write behind group_by_key() or group_by(...), as group_by_key().count(...)"),
    (STREAM, "windowed_by", "as group_by_key().windowed_by(...)"),
    (STREAM, "materialize", "a stream has no store"),
    (STREAM, "groupByKey", "write group_by_key(...)"),
    (STREAM, "mapValues", "write map_values(...)"),
    (TABLE, "group_by_key", "as to_stream().group_by_key(...)"),
    (VERSIONED, "selectKey", "as to_stream().select_key(...)"),
    (VERSIONED, "to", "materialize(name).to(topic)"),
    (COUNTED, "merge", "as to_stream().merge(...)"),
    (COUNTED, "count", "as group_by('column').count(...)"),
    (COUNTED, "toStream", "write to_stream(...)"),
    (TABLE.group_by("w"), "windowed_by", "a table's rows are in no windows"),
    (GLOBAL, "filter", "behind stream.join(table, key=...)"),
    (GLOBAL, "toStream", "read the topic with builder.table(...) too"),
    (GROUPED, "materialize", "as count().materialize(...)"),
    (WINDOWED, "suppress", "as count().suppress(...)"),
    (GROUPED.cogroup(n=agg.count()), "count", "and then aggregate()"),
    (STREAM.split(), "to", "of one branch"),
    (BUILDER, "globalTable", "write global_table(...)"),
]


@pytest.mark.parametrize(("asked", "name", "said"), WORDS)
def test_a_word_of_kafka_streams_is_answered(asked: Any, name: str, said: str) -> None:
    """The message names the way out and the page; for Python there is no such attribute."""
    with pytest.raises(AttributeError) as caught:
        getattr(asked, name)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{type(asked).__name__!r} object has no attribute")
    assert "kafka-streams-calls.md" in str(caught.value)
    assert not hasattr(asked, name)


@pytest.mark.parametrize("name", ["nonsense", "_private", "__wrapped__"])
def test_an_unknown_word_has_pythons_message(name: str) -> None:
    """Nobody wrote it for Kafka Streams."""
    with pytest.raises(AttributeError) as caught:
        getattr(STREAM, name)
    assert str(caught.value) == f"'KStream' object has no attribute {name!r}"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_python_copies_them_as_before(copied: Callable[[Any], Any]) -> None:
    """It asks for names beginning with an underscore, of objects that have nothing yet."""
    assert repr(copied(STREAM)) == repr(STREAM)
