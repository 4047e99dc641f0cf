"""Door of oriel.pipeline.language."""

from oriel.pipeline.language.aggregations import check_names
from oriel.pipeline.language.grouped import until_window_closes
from oriel.pipeline.language.reserved_names import SCOPE, refuse_hidden, refuse_taken
from oriel.pipeline.language.schemas import arrow_schema
from oriel.pipeline.language.streams import StreamsBuilder
from oriel.pipeline.language.topics import check_topic
from oriel.pipeline.language.topology import (
    Columns,
    Filter,
    Functions,
    Input,
    Join,
    MapValues,
    Side,
    Source,
    Step,
    Store,
    StreamJoin,
    TableLookup,
    TableRows,
    TableUpdates,
    Topology,
    group_written,
)

__all__ = [
    "SCOPE",
    "Columns",
    "Filter",
    "Functions",
    "Input",
    "Join",
    "MapValues",
    "Side",
    "Source",
    "Step",
    "Store",
    "StreamJoin",
    "StreamsBuilder",
    "TableLookup",
    "TableRows",
    "TableUpdates",
    "Topology",
    "arrow_schema",
    "check_names",
    "check_topic",
    "group_written",
    "refuse_hidden",
    "refuse_taken",
    "until_window_closes",
]
