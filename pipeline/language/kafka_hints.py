"""Hints for methods of Kafka Streams that Oriel does not have: the calls to write instead."""

from collections.abc import Mapping
from typing import ClassVar

from oriel.pipeline.windows import KafkaHints

_PROCESS = "Write stream.process(function, schema=...)"
_GROUPED_BEFORE = "Write it after group_by_key() or group_by(...), as group_by_key().{}(...)"
_TO_STREAM_BEFORE = "Write it after to_stream(), as to_stream().{}(...)"
_GROUP_ROWS_BEFORE = "Write it after group_by(...), as group_by('column').{}(...)"
_AGGREGATED_BEFORE = "Write it after an aggregation, as count().{}(...)"
_STEPS_BEFORE = "Write it before the grouping, as stream.{}(...)"
_ONLY_JOINED = "Write it after stream.join(table, key=...), which has the table's columns"
_OTHER_TABLE = "A global table supports only joins. Also read its topic with builder.table(...)"

_STREAM_HINTS = {
    "foreach": "Write peek(function), which calls it. Use `oriel get --watch` to watch rows",
    "print": "Write peek(function), which shows records. Use `oriel get --watch` to watch rows",
    **dict.fromkeys(
        ("process_values", "transform", "transform_values", "flat_transform"), _PROCESS
    ),
    "repartition": (
        "Nothing to do: Oriel partitions each batch by key. Use to(topic) to write a topic"
    ),
    "through": "Write to(topic), which returns the stream",
    "to_stream": "Nothing to do: it is a stream",
    "branch": "Write split().branch(condition, name).default_branch()",
    **dict.fromkeys(("count", "reduce", "aggregate", "windowed_by", "cogroup"), _GROUPED_BEFORE),
    "suppress": (
        "Write it after an aggregation of windows, as count().suppress(until_window_closes())"
    ),
    "materialize": (
        "A stream has no store. Use group_by_key().aggregate(...).materialize(name), or to(topic)"
    ),
}
_TABLE_HINTS = {
    **dict.fromkeys(
        (
            "group_by_key", "select_key", "merge", "peek", "map", "flat_map", "flat_map_values",
            "split", "windowed_by",
        ),
        _TO_STREAM_BEFORE,
    ),
    **dict.fromkeys(("count", "reduce", "aggregate"), _GROUP_ROWS_BEFORE),
    "transform_values": (
        "Tables have no processors. Use aggregate(initializer, aggregator, schema=...)"
    ),
    **dict.fromkeys(("foreach", "print"), _TO_STREAM_BEFORE.format("peek")),
    "queryable_store_name": "Write store_name",
    "to_table": "Nothing to do: it is a table",
    "suppress": "Rows of a topic are never final. Use suppress after a windowed aggregation",
    "to": "Write materialize(name).to(topic) for rows, or to_stream().to(topic) for every update",
}  # fmt: skip
_EMIT = "Write emit(EmitStrategy.on_window_close()) after windowed_by(windows)"
_GROUPED_STREAM_HINTS = {
    **dict.fromkeys(
        ("filter", "filter_not", "map_values", "select_key", "peek", "process"), _STEPS_BEFORE
    ),
    **dict.fromkeys(("emit", "emit_strategy"), _EMIT),
    **dict.fromkeys(("suppress", "materialize", "to_stream", "to"), _AGGREGATED_BEFORE),
}
#: Class -> method of Kafka Streams in snake case -> the hint. ``{}`` is replaced by the method.
_NAME_HINTS: Mapping[str, Mapping[str, str]] = {
    "StreamsBuilder": {
        "add_state_store": _PROCESS,
        "add_global_store": _PROCESS,
    },
    "KStream": _STREAM_HINTS,
    "SourceTable": _TABLE_HINTS,
    "VersionedTable": _TABLE_HINTS,
    "KTable": {
        **_TABLE_HINTS,
        "emit": "Write it before the aggregation, as windowed_by(...).emit(strategy).count()",
    },
    "GlobalKTable": {
        **dict.fromkeys(("filter", "filter_not", "map_values"), _ONLY_JOINED),
        **dict.fromkeys(
            ("to_stream", "materialize", "group_by", "join", "left_join", "outer_join", "to"),
            _OTHER_TABLE,
        ),
    },
    "KGroupedStream": _GROUPED_STREAM_HINTS,
    "TimeWindowedKStream": {
        **_GROUPED_STREAM_HINTS,
        "windowed_by": "It already has windows. Choose other windows after the grouping",
        "cogroup": "Write it before the windows, as cogroup(...).windowed_by(windows)",
    },
    "CogroupedKStream": {
        **dict.fromkeys(
            ("count", "reduce"), "Write cogroup(stream, n=count()) and then aggregate()"
        ),
        **dict.fromkeys(
            ("suppress", "materialize", "to_stream", "to"),
            "Write it after aggregate(), as aggregate().{}(...)",
        ),
        "emit_strategy": _EMIT,
    },
    "KGroupedTable": {
        "windowed_by": (
            "Rows of a table have no windows. Write "
            "to_stream().group_by('column').windowed_by(...)"
        ),
        "cogroup": "Only streams have cogroup. Write to_stream().group_by('column').cogroup(...)",
        "emit": "Each update is emitted, because without windows nothing closes",
        **dict.fromkeys(("suppress", "materialize", "to_stream", "to"), _AGGREGATED_BEFORE),
    },
    "BranchedKStream": dict.fromkeys(
        ("filter", "map_values", "group_by_key", "group_by", "to", "join", "merge"),
        "Call it on one branch: split().branch(condition, 'a').default_branch()['a'].{}(...)",
    ),
    "Topology": {
        **dict.fromkeys(
            (
                "add_source", "add_sink", "add_processor", "add_state_store", "add_global_store",
                "connect_processor_and_state_stores",
            ),
            _PROCESS,
        ),
        **dict.fromkeys(("run", "start"), "`oriel run FILE` runs the topology of a file"),
    },
    "Serdes": {
        "uuid": "Write Serdes.string(): Kafka writes UUIDs as strings",
        **dict.fromkeys(
            ("bytes", "byte_array", "byte_buffer", "boolean", "list", "void"),
            "Not supported: values are JSON, Avro, Protobuf, a string or a number, and keys "
            "are a string, JSON or a whole number",
        ),
        **dict.fromkeys(
            ("serde_from", "of"), "Custom serdes are not supported. Use one of Serdes"
        ),
    },
    "Consumed": {
        "with": "Write Consumed(key_serde=Serdes.long(), value_serde=Serdes.json())",
        "with_key_serde": "Write Consumed(key_serde=Serdes.long())",
        "with_value_serde": "Write Consumed(value_serde=Serdes.avro())",
        "with_timestamp_extractor": (
            "Write Consumed(timestamp=FieldTimestamp('column', 'ms')): a time is a column, or the "
            "message's"
        ),
        "with_offset_reset_policy": "Pass `oriel run --start` when you create the checkpoint",
        **dict.fromkeys(("as", "with_name"), "Steps have no names"),
    },
}  # fmt: skip

_SCHEMA = "Name the columns of the values with schema=, like 'item STRING, amount DOUBLE'"
_STORE = "Name the store after the aggregation with .materialize('name'). Steps have no names"
NO_VALUE_JOINER = (
    "Joins need no ValueJoiner: the result has the columns of both inputs. Use map_values(...) "
    "after the join to compute others"
)
_JOINED = f"{NO_VALUE_JOINER}. Serdes belong to the topics"
_NO_NAMES = "Steps have no names. Set the serdes in the topic's Consumed"


class CallHints(KafkaHints):
    """A base class whose errors have a hint for each missing method of Kafka Streams."""

    _NAME_HINTS: ClassVar[Mapping[str, Mapping[str, str]]] = _NAME_HINTS
    _ARGUMENT_HINTS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("stream", "table", "global_table", "versioned_table"), _SCHEMA),
        **dict.fromkeys(("join", "left_join", "outer_join"), _JOINED),
        **dict.fromkeys(("count", "reduce", "aggregate", "cogroup"), _STORE),
        **dict.fromkeys(
            ("filter", "filter_not", "merge", "peek", "split", "group_by_key", "to_stream"),
            _NO_NAMES,
        ),
        **dict.fromkeys(
            ("select_key", "group_by"),
            "List the columns or expressions of the key. They have no names",
        ),
        "to_table": "Name its store with to_table().materialize('name'). Steps have no names",
        "to": "Messages are JSON, their keys are strings, and Kafka partitions them by key",
        "materialize": "A store needs a name, materialize('name')",
        "build": "Pass options to `oriel run`",
    }
