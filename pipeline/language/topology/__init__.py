"""A topology as data: frozen dataclasses that the calls of the language create.

A node is a stream or a table: a source or an operation, with row-wise steps. Operations have nodes
as children. A ``Topology`` has stores and sinks, which read nodes. ``oriel.pipeline.lowered``
lowers it to what the pipeline runs. These modules do not import Spark.
"""

from oriel.pipeline.language.topology.aggregations import (
    Aggregation,
    Columns,
    Functions,
    Publication,
    verb,
)
from oriel.pipeline.language.topology.nodes import (
    Aggregated,
    AggregationUpdates,
    Distinct,
    JoinedWindows,
    JoinUpdates,
    Late,
    Node,
    Operation,
    Read,
    RowChanges,
    Rows,
    RowStep,
    StreamPair,
    TableHistory,
    TableLookup,
    TablePair,
    Versions,
)
from oriel.pipeline.language.topology.schema_texts import schema_text
from oriel.pipeline.language.topology.sources import Source, StoreSource, of_topics
from oriel.pipeline.language.topology.steps import (
    Branches,
    Chain,
    Filter,
    FlatMapValues,
    MapValues,
    Peek,
    Peeker,
    Step,
    expressions_of,
    flattens,
    function_name,
    grouping_text,
    kept_columns,
    key_of,
    null_key_filter,
    short_name,
)
from oriel.pipeline.language.topology.stores import SinkNode, StoreNode
from oriel.pipeline.language.topology.topology import Topology

__all__ = [
    "Aggregated",
    "Aggregation",
    "AggregationUpdates",
    "Branches",
    "Chain",
    "Columns",
    "Distinct",
    "Filter",
    "FlatMapValues",
    "Functions",
    "JoinUpdates",
    "JoinedWindows",
    "Late",
    "MapValues",
    "Node",
    "Operation",
    "Peek",
    "Peeker",
    "Publication",
    "Read",
    "RowChanges",
    "RowStep",
    "Rows",
    "SinkNode",
    "Source",
    "Step",
    "StoreNode",
    "StoreSource",
    "StreamPair",
    "TableHistory",
    "TableLookup",
    "TablePair",
    "Topology",
    "Versions",
    "expressions_of",
    "flattens",
    "function_name",
    "grouping_text",
    "kept_columns",
    "key_of",
    "null_key_filter",
    "of_topics",
    "schema_text",
    "short_name",
    "verb",
]
