"""Session windows (KIP-94), with declarative aggregates or the user's own functions.

In come the open partition sessions of some keys and a batch of their stamped records; out go
the store's sessions that the batch changed, made final or removed, the next partition sessions,
and which records were late or rejected. Records of one key and partition make partition sessions
(``merging``); those of several partitions are linked to sessions of the store (``linking``).
``engine`` tells the way of a batch.
"""

from oriel.pipeline.windows.engines.sessions.engine import SessionWindowEngine
from oriel.pipeline.windows.engines.sessions.functions import SessionFoldEngine

__all__ = [
    "SessionFoldEngine",
    "SessionWindowEngine",
]
