"""What Kafka Streams has and a class of the language hasn't: what to write instead.

Python's own message for such a call names neither the way out nor the page that lists all calls.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

_NO_PROCESSORS = "there are no processors: give aggregate(initializer, aggregator, schema=...)"
_GROUPED_BEFORE = "behind group_by_key() or group_by(...), as group_by_key().{}(...)"
_TO_STREAM_BEFORE = "behind to_stream(), as to_stream().{}(...)"
_GROUP_ROWS_BEFORE = "behind group_by(...), as group_by('column').{}(...)"
_AGGREGATED_BEFORE = "behind an aggregation, as count().{}(...)"
_STEPS_BEFORE = "in front of the grouping, as stream.{}(...)"
_ONLY_LOOKED_UP = "behind stream.join(table, key=...), which has the table's columns"
_OTHER_TABLE = "a global table is only looked up; read the topic with builder.table(...) too"

_OF_STREAMS = {
    "foreach": "peek(function) calls it; rows are watched with `oriel get --watch`",
    "print": "peek(function) shows records; rows are watched with `oriel get --watch`",
    **dict.fromkeys(
        ("process", "process_values", "transform", "transform_values", "flat_transform"),
        _NO_PROCESSORS,
    ),
    "repartition": "nothing to do: each batch is divided by key; to(topic) writes for others",
    "through": "to(topic), which returns the stream",
    "to_stream": "nothing to do: it is a stream",
    "branch": "split().branch(condition, name).default_branch()",
    **dict.fromkeys(("count", "reduce", "aggregate", "windowed_by", "cogroup"), _GROUPED_BEFORE),
    "suppress": "behind an aggregation of windows, as count().suppress(until_window_closes())",
    "materialize": (
        "a stream has no store: group_by_key().aggregate(...).materialize(name), or to(topic)"
    ),
}
_OF_TABLES = {
    **dict.fromkeys(
        (
            "group_by_key", "select_key", "merge", "peek", "map", "flat_map", "flat_map_values",
            "split", "windowed_by",
        ),
        _TO_STREAM_BEFORE,
    ),
    **dict.fromkeys(("count", "reduce", "aggregate"), _GROUP_ROWS_BEFORE),
    "transform_values": _NO_PROCESSORS,
    "to_table": "nothing to do: it is a table",
    "suppress": "a topic's rows are never final; behind an aggregation of windows",
    "to": "materialize(name).to(topic) writes rows, to_stream().to(topic) every update",
}  # fmt: skip
_OF_GROUPED_STREAMS = {
    **dict.fromkeys(("filter", "filter_not", "map_values", "select_key", "peek"), _STEPS_BEFORE),
    **dict.fromkeys(("suppress", "materialize", "to_stream", "to"), _AGGREGATED_BEFORE),
}
#: A class -> a method in Python's spelling -> what to write, ``{}`` standing for the method.
_WAYS_OUT: Mapping[str, Mapping[str, str]] = {
    "StreamsBuilder": {
        "add_state_store": _NO_PROCESSORS,
        "add_global_store": _NO_PROCESSORS,
    },
    "KStream": _OF_STREAMS,
    "SourceTable": _OF_TABLES,
    "VersionedTable": _OF_TABLES,
    "KTable": _OF_TABLES,
    "GlobalKTable": {
        **dict.fromkeys(("filter", "filter_not", "map_values"), _ONLY_LOOKED_UP),
        **dict.fromkeys(
            ("to_stream", "materialize", "group_by", "join", "left_join", "outer_join", "to"),
            _OTHER_TABLE,
        ),
    },
    "KGroupedStream": _OF_GROUPED_STREAMS,
    "TimeWindowedKStream": {
        **_OF_GROUPED_STREAMS,
        "cogroup": "in front of the windows, as cogroup(...).windowed_by(windows)",
    },
    "CogroupedKStream": {
        **dict.fromkeys(("count", "reduce"), "cogroup(stream, n=count()) and then aggregate()"),
        **dict.fromkeys(
            ("suppress", "materialize", "to_stream", "to"), "behind aggregate().{}(...)"
        ),
    },
    "KGroupedTable": {
        "windowed_by": (
            "a table's rows are in no windows; to_stream().group_by('column').windowed_by(...)"
        ),
        "cogroup": "streams are cogrouped: to_stream().group_by('column').cogroup(...)",
        "emit": "each update is written; nothing closes without windows",
        **dict.fromkeys(("suppress", "materialize", "to_stream", "to"), _AGGREGATED_BEFORE),
    },
    "BranchedKStream": dict.fromkeys(
        ("filter", "map_values", "group_by_key", "group_by", "to", "join", "merge"),
        "of one branch: split().branch(condition, 'a').default_branch()['a'].{}(...)",
    ),
}  # fmt: skip


class OtherWords:
    """A class of the language that answers the words of Kafka Streams which it does not have."""

    # Type checkers are to see the methods that there are, and no others.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Refuse an attribute that there isn't, with the way out where one is known.

            Raises:
                AttributeError: always, so that ``hasattr`` is False as for any object.
            """
            raise AttributeError(_message(type(self), name), name=name, obj=self)


def _message(of_class: type, name: str) -> str:
    """What to say of ``name``, which the class has not."""
    message = f"{of_class.__name__!r} object has no attribute {name!r}"
    # Python itself asks for such names, when it copies or prints.
    if name.startswith("_"):
        return message
    snake_case = re.sub(r"(?<=[a-z0-9])[A-Z]", lambda capital: f"_{capital[0]}", name).lower()
    way_out = _WAYS_OUT.get(of_class.__name__, {}).get(snake_case)
    if hasattr(of_class, snake_case):
        way_out = f"{snake_case}(...)"
    if way_out is None:
        return message
    return f"{message}; write {way_out.format(snake_case)} (see kafka-streams-calls.md)"
