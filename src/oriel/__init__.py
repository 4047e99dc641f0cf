"""Interactive queries over materialized windows.

    from oriel import SlidingWindows, StreamsBuilder, count
    from oriel.testing import TopologyTestDriver

The names below are the topology language. They are imported when they are first used, so
that the service (``oriel.app``) starts without what only the pipeline needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

#: The version, which pyproject.toml also reads.
__version__ = "0.1.0"

if TYPE_CHECKING:
    from oriel.pipeline import InvalidTopology, PipelineError
    from oriel.pipeline.language import (
        AvroSerde,
        BranchedKStream,
        CogroupedKStream,
        Consumed,
        FieldTimestamp,
        GlobalKTable,
        KGroupedStream,
        KGroupedTable,
        KStream,
        KTable,
        ProtobufSerde,
        Serde,
        Serdes,
        SourceTable,
        StreamsBuilder,
        TimeWindowedKStream,
        Topology,
        VersionedTable,
        until_window_closes,
    )
    from oriel.pipeline.windows import (
        Aggregate,
        EmitStrategy,
        IllegalArgument,
        JoinWindows,
        ProcessContext,
        SessionWindows,
        SlidingWindows,
        TimeWindows,
        approx_count_distinct,
        approx_quantile,
        avg,
        collect_list,
        count,
        first,
        last,
        max,
        mergeable,
        min,
        stddev,
        sum,
    )

__all__ = [
    "Aggregate",
    "AvroSerde",
    "BranchedKStream",
    "CogroupedKStream",
    "Consumed",
    "EmitStrategy",
    "FieldTimestamp",
    "GlobalKTable",
    "IllegalArgument",
    "InvalidTopology",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "PipelineError",
    "ProcessContext",
    "ProtobufSerde",
    "Serde",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "SourceTable",
    "StreamsBuilder",
    "TimeWindowedKStream",
    "TimeWindows",
    "Topology",
    "VersionedTable",
    "approx_count_distinct",
    "approx_quantile",
    "avg",
    "collect_list",
    "count",
    "first",
    "last",
    "max",
    "mergeable",
    "min",
    "stddev",
    "sum",
    "until_window_closes",
]

#: Classes of Kafka Streams whose work is done by something else.
_ELSEWHERE = {
    **dict.fromkeys(
        ("Grouped", "Joined", "StreamJoined"), "Set the serdes in the topic's Consumed"
    ),
    **dict.fromkeys(
        ("Named", "Branched"), "Steps have no names. Name a branch with branch(condition, name)"
    ),
    **dict.fromkeys(("Repartitioned", "TableJoined"), "Oriel has no topics between steps"),
    "Materialized": "Write .materialize(name, retention_ms, key_serde) after the aggregation",
    "Stores": "Write .materialize(name), or builder.versioned_table(...)",
    "Produced": "Write stream.to(topic), or .materialize(name).to(topic)",
    "BufferConfig": "Nothing to do: Oriel keeps open windows on disk",
    "Suppressed": "Write suppress(until_window_closes())",
    "UnlimitedWindows": "Leave out windowed_by for one row per key",
    "KafkaStreams": "Write topology = builder.build() to a file, and run `oriel run FILE`",
    "TopologyTestDriver": "Import it from oriel.testing",
    "TimestampExtractor": "Write Consumed(timestamp=FieldTimestamp('column', 'ms'))",
    "ValueJoiner": "The result of a join has the columns of both inputs",
}

_PACKAGES = ("oriel.pipeline", "oriel.pipeline.language", "oriel.pipeline.windows")


def __getattr__(name: str) -> Any:
    """Import a name of the language from its package (PEP 562)."""
    if name in _ELSEWHERE:
        message = f"'oriel' has no {name}. {_ELSEWHERE[name]} (see kafka-streams-calls.md)"
        # `from oriel import ...` does not show the message of an AttributeError.
        raise ImportError(message, name=name)
    if name not in __all__:
        message = f"module 'oriel' has no attribute {name!r}"
        raise AttributeError(message)
    try:
        packages = map(import_module, _PACKAGES)
        return next(getattr(package, name) for package in packages if hasattr(package, name))
    except ModuleNotFoundError as error:
        error.add_note("the topology language is not installed. Run pip install 'oriel[pipeline]'")
        raise


def __dir__() -> list[str]:
    """Return the names of the language and of the module."""
    return [*globals(), *__all__]
