"""Lower a topology: the nodes of the language become the inputs and joins that the pipeline runs.

``lower`` is the input of the planner and of a run. A call of the language can need several joins
and steps. For example, a join of tables by a foreign key has three joins and the steps of two keys.
The texts of ``describe``, of drawings and of messages are written from the lowered form, and the
table of a store records its definition as texts of it (``descriptions``). So a start detects a
changed topology. These modules do not import Spark.
"""

from oriel.pipeline.lowered.descriptions import function_texts, source_texts, step_texts
from oriel.pipeline.lowered.inputs import (
    AggregateUpdates,
    Input,
    Join,
    MergedStreams,
    Responses,
    StreamJoin,
    StreamTableJoin,
    Subscriptions,
    TableChanges,
    TableUpdates,
    share_flattened,
)
from oriel.pipeline.lowered.lowering import lower, lower_node, lower_sink, stream_text, table_text
from oriel.pipeline.lowered.one_stream import (
    DistinctRecords,
    ExpiringRecords,
    GraceBuffer,
    LateRecords,
    ProcessedRecords,
    VersionedRecords,
)
from oriel.pipeline.lowered.steps import NO_ROW_KEY, OWN_KEY, ForeignKey, LookupKey, OwnKey
from oriel.pipeline.lowered.stores import AggregatedRows, Records, Store, TableRows, VersionRows
from oriel.pipeline.lowered.topology import LoweredTopology
from oriel.pipeline.lowered.written import grouping_call, step_calls, step_for_message

__all__ = [
    "NO_ROW_KEY",
    "OWN_KEY",
    "AggregateUpdates",
    "AggregatedRows",
    "DistinctRecords",
    "ExpiringRecords",
    "ForeignKey",
    "GraceBuffer",
    "Input",
    "Join",
    "LateRecords",
    "LookupKey",
    "LoweredTopology",
    "MergedStreams",
    "OwnKey",
    "ProcessedRecords",
    "Records",
    "Responses",
    "Store",
    "StreamJoin",
    "StreamTableJoin",
    "Subscriptions",
    "TableChanges",
    "TableRows",
    "TableUpdates",
    "VersionRows",
    "VersionedRecords",
    "function_texts",
    "grouping_call",
    "lower",
    "lower_node",
    "lower_sink",
    "share_flattened",
    "source_texts",
    "step_calls",
    "step_for_message",
    "step_texts",
    "stream_text",
    "table_text",
]
