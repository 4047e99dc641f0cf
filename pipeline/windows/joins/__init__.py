"""Joins of inputs by key, as pure functions of (state, batch, stream times).

The input is one Arrow table with the records of all inputs and the column ``side``. The output is
joined rows with record id, lineage and stream time, by which downstream windows order them and
decide which rows are late. Each kind of join has one engine:

    stream with stream      ``StreamJoinEngine``
    stream with table       ``StreamTableJoinEngine``, or ``VersionedLookupEngine`` for the row at
                            the time of the record, optionally after a ``GraceBufferEngine``
    updates of tables       ``TableUpdatesEngine``
    by a foreign key        several engines (``foreign_keys``)

Other operators have the same contract, ``JoinEngine``: the changes of tables
(``TableChangesEngine``), the updates of an aggregation (``windows.aggregate_updates``), and streams
that are merged before a join (``MergeEngine``). A table as a store (``TableRowsEngine``), also with
its versions (``VersionRowsEngine``), is a ``WindowEngine``.
"""

from oriel.pipeline.windows.joins.changes import TableChangesEngine
from oriel.pipeline.windows.joins.distinct import DistinctEngine
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
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputLogs,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    OpenRecordsEngine,
    apply_order,
    replaced,
    value_fields,
)
from oriel.pipeline.windows.joins.late_records import LateRecordsEngine, late_records_engine_for
from oriel.pipeline.windows.joins.merge import MergeEngine
from oriel.pipeline.windows.joins.process import ProcessEngine
from oriel.pipeline.windows.joins.stream_tables import StreamTableJoinEngine
from oriel.pipeline.windows.joins.streams import StreamJoinEngine
from oriel.pipeline.windows.joins.tables import TableJoin, TableRowsEngine
from oriel.pipeline.windows.joins.updates import TableUpdatesEngine
from oriel.pipeline.windows.joins.version_rows import VersionRowsEngine
from oriel.pipeline.windows.joins.versions import VersionedLookupEngine, VersionedRecordsEngine

__all__ = [
    "FOREIGN_KEY",
    "INPUT_FIELDS",
    "LEAVES",
    "MATCHED",
    "RECORDS",
    "RESULT_FIELDS",
    "SIDE",
    "STREAM_TIME",
    "SUBSCRIBED",
    "SUBSCRIBER",
    "DistinctEngine",
    "ForeignUpdatesEngine",
    "GraceBufferEngine",
    "InputLogs",
    "InputRows",
    "InputStreamTimes",
    "JoinEngine",
    "JoinResult",
    "LateRecordsEngine",
    "MergeEngine",
    "OpenRecordsEngine",
    "ProcessEngine",
    "ResponseUpdatesEngine",
    "ResponsesEngine",
    "StreamJoinEngine",
    "StreamTableJoinEngine",
    "SubscriptionUpdatesEngine",
    "SubscriptionsEngine",
    "TableChangesEngine",
    "TableJoin",
    "TableRowsEngine",
    "TableUpdatesEngine",
    "VersionRowsEngine",
    "VersionedLookupEngine",
    "VersionedRecordsEngine",
    "apply_order",
    "late_records_engine_for",
    "replaced",
    "value_fields",
]
