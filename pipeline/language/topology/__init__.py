"""A topology as data: frozen dataclasses that Kafka Streams' words make and the pipeline runs.

From the source to the store: ``sources``, row-wise ``steps``, the ``inputs`` that are read and
joined, their ``aggregations``, and the ``stores`` with the ``Topology`` itself. ``descriptions``
are their texts, which a store's table remembers. Nothing here touches Spark.
"""

from oriel.pipeline.language.topology.aggregations import (
    Aggregation,
    Columns,
    Functions,
    Publication,
    Records,
    TableRows,
)
from oriel.pipeline.language.topology.descriptions import (
    function_texts,
    schema_text,
    source_texts,
    step_texts,
)
from oriel.pipeline.language.topology.inputs import (
    Input,
    Join,
    Responses,
    Side,
    StreamJoin,
    Subscriptions,
    TableChanges,
    TableLookup,
    TableUpdates,
    has_elements,
    pairing_join,
    places_of,
    side_of,
    sides_of,
)
from oriel.pipeline.language.topology.sources import Source, StoreSource, of_topics
from oriel.pipeline.language.topology.steps import (
    NO_ROW_KEY,
    OWN_KEY,
    AggregatedRows,
    Filter,
    FlatMapValues,
    ForeignKey,
    LookupKey,
    MapValues,
    OwnKey,
    Peek,
    Peeker,
    Step,
    flattens,
    function_name,
    grouping_text,
)
from oriel.pipeline.language.topology.stores import Store, Topology

__all__ = [
    "NO_ROW_KEY",
    "OWN_KEY",
    "AggregatedRows",
    "Aggregation",
    "Columns",
    "Filter",
    "FlatMapValues",
    "ForeignKey",
    "Functions",
    "Input",
    "Join",
    "LookupKey",
    "MapValues",
    "OwnKey",
    "Peek",
    "Peeker",
    "Publication",
    "Records",
    "Responses",
    "Side",
    "Source",
    "Step",
    "Store",
    "StoreSource",
    "StreamJoin",
    "Subscriptions",
    "TableChanges",
    "TableLookup",
    "TableRows",
    "TableUpdates",
    "Topology",
    "flattens",
    "function_name",
    "function_texts",
    "grouping_text",
    "has_elements",
    "of_topics",
    "pairing_join",
    "places_of",
    "schema_text",
    "side_of",
    "sides_of",
    "source_texts",
    "step_texts",
]
