"""Words and habits of Kafka Streams that are rejected where they are written, with the solution."""

from collections.abc import Callable
from typing import Any

import pytest

from oriel import InvalidTopology, Serdes, StreamsBuilder, TimeWindows, count

BUILDER = StreamsBuilder()
STREAM = BUILDER.stream("t", "v DOUBLE")
TABLE = BUILDER.table("u", "w DOUBLE")


def counted(name: str) -> Any:
    """Return an aggregation of windows with one column."""
    aggregates: Any = {name: count()}
    return (
        STREAM.group_by_key()
        .windowed_by(TimeWindows.of_size_with_no_grace(10))
        .aggregate(**aggregates)
    )


def larger(left: Any, right: Any) -> Any:
    """Return the larger value."""
    return max(left, right)


#: What is written -> what the message says.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a foreign key of an update's time": (
        lambda: TABLE.join(TABLE, foreign_key="timestamp_ms"),
        r"join: foreign_key=: the row that a row names depends on the row only",
    ),
    "a group of an update's time": (
        lambda: TABLE.group_by("w", "Timestamp_ms"),
        r"group_by: a row's group depends on the row only, .*_values\('\*', t='timestamp_ms'",
    ),
    "a key that is kept as a column": (
        lambda: STREAM.map_values("key"),
        r"map_values: 'key' is not a column of the value\. Keep it under another name, k='key'",
    ),
    "a time that is kept as a column": (
        lambda: TABLE.map_values("w", "TIMESTAMP_MS"),
        r"map_values: 'TIMESTAMP_MS' is not a column of the value\. .*, t='TIMESTAMP_MS'",
    ),
    "a key that is kept beside elements": (
        lambda: STREAM.flat_map_values("key", w="array(v)"),
        r"flat_map_values: 'key' is not a column of the value",
    ),
    "a key that is kept beside a new one": (
        lambda: STREAM.map("v", "v", "key"),
        r"map: 'key' is not a column of the value",
    ),
    "an outer join by a foreign key": (
        lambda: TABLE.outer_join(TABLE, foreign_key="w"),
        r"outer_join: not supported with foreign_key=, .* Use join or left_join",
    ),
    "an outer join of an aggregation by a foreign key": (
        lambda: STREAM.group_by_key().count().outer_join(TABLE, foreign_key="w"),
        r"outer_join: not supported with foreign_key=",
    ),
    "a stream's foreign key": (
        lambda: STREAM.left_join(TABLE, foreign_key="v"),  # type: ignore[arg-type]
        r"left_join: foreign_key= is for tables\. To join a stream .* global table with key=",
    ),
    "an aggregate without a name": (
        lambda: STREAM.group_by_key().aggregate(count()),  # type: ignore[arg-type]
        r"aggregate: name the column of the aggregate\. Write n=count\(\)",
    ),
    "a branch before the end of the division": (
        lambda: STREAM.split().branch("v > 0", "a")["a"],  # type: ignore[index]
        r"split: the branch \['a'\] is not available .* default_branch\(\) or ",
    ),
    "a value joiner": (
        lambda: STREAM.join(TABLE, larger),  # type: ignore[arg-type]
        r"^join: a function cannot be an argument\. Joins need no ValueJoiner: .* Use map_values",
    ),
    "a value joiner of streams": (
        lambda: STREAM.left_join(STREAM, larger),  # type: ignore[arg-type]
        r"left_join: a function cannot be an argument\. Joins need no ValueJoiner",
    ),
    "a function as a condition": (
        lambda: STREAM.filter(lambda value: value["v"] > 1),  # type: ignore[arg-type]
        r"filter: an expression must be SQL text .*\. Write .* as F\.udf\(function, 'type'\)",
    ),
    "an update that nobody keeps": (
        lambda: STREAM.group_by_key().count().to("q"),
        r"to\('q'\): the table needs a store, .* write each update with to_stream\(\)\.to\('q'\)",
    ),
    "several topics of one stream": (
        lambda: BUILDER.stream(["a", "b"], "v INT"),  # type: ignore[arg-type]
        r"stream: topic must be one topic, not \['a', 'b'\]\. .* merge: .*\.merge\(",
    ),
    "a global table that a table joins": (
        lambda: TABLE.join(BUILDER.global_table("g", "x INT")),  # type: ignore[arg-type]
        r"join: a table can only be joined with a table, .*\. Also read its topic with ",
    ),
    "a function that names a branch": (
        lambda: STREAM.split().branch("v > 0", larger),  # type: ignore[arg-type]
        r"branch: the name of a branch must be a string, not .*\. Continue with the stream",
    ),
    "a schema in the merger's place": (
        lambda: STREAM.group_by_key().aggregate(list, larger, "n INT"),  # type: ignore[arg-type]
        r"aggregate: pass the schema as a keyword argument, schema='n INT'",
    ),
    "an Avro schema that is a dict": (
        lambda: Serdes.avro({"type": "record"}),  # type: ignore[arg-type]
        r"Serdes\.avro: schema must be a JSON string or the Path of a file, .*, not \{'type'",
    ),
    "an Avro schema's file that is a text": (
        lambda: Serdes.avro("trips.avsc"),
        r"Serdes\.avro: schema must be a JSON string .* Path\('file\.avsc'\), not 'trips\.avsc'",
    ),
    "descriptors that are a text": (
        lambda: Serdes.protobuf("trips.desc", "shop.Trip"),  # type: ignore[arg-type]
        r"Serdes\.protobuf: descriptors must be bytes or the Path of a file, .*, not 'trips\.desc'",
    ),
    "a stream that a table joins": (
        lambda: TABLE.join(STREAM),  # type: ignore[arg-type]
        r"join: a table can only be joined with a table, .*\. Join the table with stream\.join\(",
    ),
    "streams that are joined without windows": (
        lambda: STREAM.join(STREAM),
        r"join: a join of two streams needs JoinWindows, .*\. Write join\(other, JoinWindows\.of_",
    ),
    "a function that maps": (
        lambda: STREAM.map(larger),  # type: ignore[arg-type]
        r"map: an expression must be SQL text .*, not the function larger\. Write a",
    ),
    "a function that flattens": (
        lambda: STREAM.flat_map_values(larger),  # type: ignore[arg-type]
        r"flat_map_values: an expression must be SQL text .*, not the function larger",
    ),
    "a topic that a function chooses": (
        lambda: STREAM.to(larger),  # type: ignore[arg-type]
        r"is a function, and topics are fixed\. Call split\(\), and write each branch",
    ),
    "three aggregations joined": (
        lambda: counted("a").join(counted("b")).join(counted("c")),
        r"join: windowed tables must be joined directly .* three or more streams in one cogroup",
    ),
    "a column of every store": (
        lambda: STREAM.group_by_key().count().map_values("timestamp"),
        r"'timestamp' is a column .* map_values\(my_timestamp='timestamp'\)",
    ),
}


@pytest.mark.parametrize(("build", "said"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_the_way_out(build: Callable[[], Any], said: str) -> None:
    """The message begins with the name of the step."""
    with pytest.raises(InvalidTopology, match=said):
        build()
