"""Session windows (KIP-94), with declarative aggregates or the user's own functions.

In come the open partition sessions of some keys and a batch of their stamped records; out go
the store's sessions that the batch changed, made final or removed, the next partition sessions,
and which records were late or rejected. Records of one key and partition make partition sessions
(``merging``); those of several partitions are linked to sessions of the store (``linking``).
``engine`` tells the way of a batch. ``merge_in_arrival_order`` takes the records of a pair one by
one.
"""

from oriel.pipeline.windows.engines.sessions.engine import SESSION_FIELDS, SessionWindowEngine
from oriel.pipeline.windows.engines.sessions.functions import SessionFoldEngine
from oriel.pipeline.windows.engines.sessions.merging import (
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    merge_in_arrival_order,
    overlapping,
)

__all__ = [
    "SESSION_FIELDS",
    "Arrival",
    "PartitionSession",
    "SessionBounds",
    "SessionFoldEngine",
    "SessionRecords",
    "SessionWindowEngine",
    "merge_in_arrival_order",
    "overlapping",
]
