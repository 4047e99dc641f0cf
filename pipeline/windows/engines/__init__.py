"""The engines: they turn the records of a batch into changed windows and the next state.

The function ``engine_for`` returns the engine of a store by its kind of windows and of aggregation.
The class ``WindowEngine`` is the interface of all engines. An engine is a pure function of state,
batch and close times, with Arrow tables as input and output. The class ``WindowGrid`` has the
bounds of tumbling and hopping windows, and ``WindowMembers`` the members of sliding windows. The
function ``merge_in_arrival_order`` decides which sessions a record joins.
"""

from oriel.pipeline.windows.engines.choice import engine_for
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.grid import WindowGrid
from oriel.pipeline.windows.engines.operator import (
    Expiring,
    Operator,
    Result,
    StateLayout,
    StateReader,
    Times,
    WorkingSet,
)
from oriel.pipeline.windows.engines.records import RecordsEngine
from oriel.pipeline.windows.engines.sessions import (
    SESSION_FIELDS,
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    assign_records,
    merge_in_arrival_order,
    overlapping,
)
from oriel.pipeline.windows.engines.sliding import SlidingEntries, WindowMembers

__all__ = [
    "SESSION_FIELDS",
    "Arrival",
    "EngineResult",
    "Expiring",
    "Operator",
    "PartitionSession",
    "RecordsEngine",
    "Result",
    "SessionBounds",
    "SessionRecords",
    "SlidingEntries",
    "StateLayout",
    "StateReader",
    "Times",
    "WindowEngine",
    "WindowGrid",
    "WindowMembers",
    "WorkingSet",
    "assign_records",
    "engine_for",
    "merge_in_arrival_order",
    "overlapping",
]
