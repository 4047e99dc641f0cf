"""Session windows (KIP-94), with named aggregates or functions of a user.

The input is the open partition sessions of some keys, and a batch of their records. The output is
the sessions of the store that the batch changed, made final or removed, the next partition
sessions, and the records that were late or rejected. Records of one key and partition create
partition sessions (``merging``). Partition sessions of several partitions are linked to sessions of
the store (``linking``). The module ``engine`` has the steps of a batch. The function
``merge_in_arrival_order`` processes the records of a key and partition one by one.
"""

from oriel.pipeline.windows.engines.sessions.engine import SESSION_FIELDS, SessionWindowEngine
from oriel.pipeline.windows.engines.sessions.functions import SessionFunctionEngine
from oriel.pipeline.windows.engines.sessions.merging import (
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    assign_records,
    merge_in_arrival_order,
    overlapping,
)

__all__ = [
    "SESSION_FIELDS",
    "Arrival",
    "PartitionSession",
    "SessionBounds",
    "SessionFunctionEngine",
    "SessionRecords",
    "SessionWindowEngine",
    "assign_records",
    "merge_in_arrival_order",
    "overlapping",
]
