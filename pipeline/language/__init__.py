"""The topology language: what a user writes, and the topology as data that comes of it.

In come the calls of a topology's file, in Kafka Streams' words: ``StreamsBuilder``, streams,
tables, groupings, windows, aggregations, stores. Out goes a ``Topology``: sources, row-wise steps,
joins and stores, as frozen dataclasses without Spark. Each call is checked as it is made; what is
wrong is ``InvalidTopology`` or ``IllegalArgument`` with the step and the way out. Whether
expressions and schemas fit together is found out by the rooms that have Spark.
"""

from oriel.pipeline.language.builder import StreamsBuilder
from oriel.pipeline.language.consumed import (
    JSON_RECORDS,
    SINGLE_VALUES,
    Consumed,
    FieldTimestamp,
    Timestamp,
)
from oriel.pipeline.language.descriptions import (
    function_texts,
    schema_text,
    source_texts,
    step_texts,
)
from oriel.pipeline.language.grouped import until_window_closes
from oriel.pipeline.language.names import (
    SCOPE,
    check_names,
    check_topic,
    refuse_hidden,
    refuse_taken,
)
from oriel.pipeline.language.schemas import arrow_schema
from oriel.pipeline.language.serdes import AvroSerde, ProtobufSerde, Serde, Serdes, ValueSerde
from oriel.pipeline.language.steps import (
    NO_ROW_KEY,
    OWN_KEY,
    Filter,
    FlatMapValues,
    LookupKey,
    MapValues,
    OwnKey,
    Peek,
    Peeker,
    Step,
    flattens,
    grouping_text,
)
from oriel.pipeline.language.streams import KStream
from oriel.pipeline.language.topology import (
    Columns,
    Functions,
    Input,
    Join,
    Publication,
    Side,
    Source,
    Store,
    StreamJoin,
    TableChanges,
    TableLookup,
    TableRows,
    TableUpdates,
    Topology,
    has_elements,
    pairing_join,
    sides_of,
)

__all__ = [
    "JSON_RECORDS",
    "NO_ROW_KEY",
    "OWN_KEY",
    "SCOPE",
    "SINGLE_VALUES",
    "AvroSerde",
    "Columns",
    "Consumed",
    "FieldTimestamp",
    "Filter",
    "FlatMapValues",
    "Functions",
    "Input",
    "Join",
    "KStream",
    "LookupKey",
    "MapValues",
    "OwnKey",
    "Peek",
    "Peeker",
    "ProtobufSerde",
    "Publication",
    "Serde",
    "Serdes",
    "Side",
    "Source",
    "Step",
    "Store",
    "StreamJoin",
    "StreamsBuilder",
    "TableChanges",
    "TableLookup",
    "TableRows",
    "TableUpdates",
    "Timestamp",
    "Topology",
    "ValueSerde",
    "arrow_schema",
    "check_names",
    "check_topic",
    "flattens",
    "function_texts",
    "grouping_text",
    "has_elements",
    "pairing_join",
    "refuse_hidden",
    "refuse_taken",
    "schema_text",
    "sides_of",
    "source_texts",
    "step_texts",
    "until_window_closes",
]
