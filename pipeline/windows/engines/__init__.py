"""The engines: records of a batch in, changed windows and the next state out.

``engine_for`` returns the engine of a store by its kind of windows and by whether its
aggregates are declarative or a user's functions. ``WindowEngine`` is the contract of all of them:
a pure function of (state, batch, close times), Arrow in and Arrow out. ``WindowGrid`` says where
tumbling and hopping windows lie, ``WindowMembers`` what is in sliding ones, and
``merge_in_arrival_order`` which sessions records join.
"""

from oriel.pipeline.windows.engines.choice import engine_for
from oriel.pipeline.windows.engines.contract import Due, EngineResult, WindowEngine
from oriel.pipeline.windows.engines.grid import WindowGrid
from oriel.pipeline.windows.engines.records import RecordsEngine
from oriel.pipeline.windows.engines.sessions import (
    SESSION_FIELDS,
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    merge_in_arrival_order,
    overlapping,
)
from oriel.pipeline.windows.engines.sliding import SlidingEntries, WindowMembers

__all__ = [
    "SESSION_FIELDS",
    "Arrival",
    "Due",
    "EngineResult",
    "PartitionSession",
    "RecordsEngine",
    "SessionBounds",
    "SessionRecords",
    "SlidingEntries",
    "WindowEngine",
    "WindowGrid",
    "WindowMembers",
    "engine_for",
    "merge_in_arrival_order",
    "overlapping",
]
