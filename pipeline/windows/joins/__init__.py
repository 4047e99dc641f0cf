"""Joins of inputs by key, as pure functions of (state, batch, clocks).

Records of all sides come in as one Arrow table with the column ``side``; joined rows go out, with
the place and the stream time by which the windows behind the join put them in order and judge them.
There is one engine for each kind of inputs: two streams (``StreamJoinEngine``), a stream with a
table (``TableLookupEngine``, or as of its records' time ``VersionedLookupEngine``, perhaps behind
``GraceBufferEngine``), the updates of tables (``TableUpdatesEngine``). By a foreign key several of
them stand behind each other (``foreign_keys``).
What is no join, but takes the same way, are the changes of a table (``TableChangesEngine``, also of
several), the updates of an aggregation (``windows.aggregate_updates``) and streams that are merged
in front of a join (``MergeEngine``). These are ``JoinEngine`` all.
A table itself, of one topic or of several (``TableRowsEngine``), is a store's ``WindowEngine``.
"""

from oriel.pipeline.windows.joins.changes import TableChangesEngine
from oriel.pipeline.windows.joins.foreign_keys import (
    FOREIGN_KEY,
    LEAVES,
    SUBSCRIBED,
    SUBSCRIBER,
    ForeignUpdatesEngine,
    ResponsesEngine,
    ResponseUpdatesEngine,
    SubscriptionsEngine,
    SubscriptionUpdatesEngine,
)
from oriel.pipeline.windows.joins.grace_buffer import GraceBufferEngine
from oriel.pipeline.windows.joins.lookups import TableLookupEngine
from oriel.pipeline.windows.joins.merge import MergeEngine
from oriel.pipeline.windows.joins.places import (
    NO_NUMBERS,
    Places,
    merged_places,
    numbered_places,
    places_side_by_side,
    refuse_large_places,
)
from oriel.pipeline.windows.joins.sides import (
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinEngine,
    JoinResult,
    OpenRecordsEngine,
    SideLogs,
    SideRows,
    effect_order,
    replaced,
    values_beside,
)
from oriel.pipeline.windows.joins.streams import StreamJoinEngine
from oriel.pipeline.windows.joins.tables import TableJoin, TableRowsEngine
from oriel.pipeline.windows.joins.updates import TableUpdatesEngine
from oriel.pipeline.windows.joins.versions import VersionedLookupEngine, VersionedRecordsEngine

__all__ = [
    "FOREIGN_KEY",
    "LEAVES",
    "MATCHED",
    "NO_NUMBERS",
    "RECORDS",
    "RESULT_FIELDS",
    "SIDE",
    "SIDE_FIELDS",
    "STREAM_TIME",
    "SUBSCRIBED",
    "SUBSCRIBER",
    "Clocks",
    "ForeignUpdatesEngine",
    "GraceBufferEngine",
    "JoinEngine",
    "JoinResult",
    "MergeEngine",
    "OpenRecordsEngine",
    "Places",
    "ResponseUpdatesEngine",
    "ResponsesEngine",
    "SideLogs",
    "SideRows",
    "StreamJoinEngine",
    "SubscriptionUpdatesEngine",
    "SubscriptionsEngine",
    "TableChangesEngine",
    "TableJoin",
    "TableLookupEngine",
    "TableRowsEngine",
    "TableUpdatesEngine",
    "VersionedLookupEngine",
    "VersionedRecordsEngine",
    "effect_order",
    "merged_places",
    "numbered_places",
    "places_side_by_side",
    "refuse_large_places",
    "replaced",
    "values_beside",
]
