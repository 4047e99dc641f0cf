"""What the tasks of a batch have to know, worked out before they run.

In come a store of the topology and the columns that its inputs have behind their row-wise
steps. ``StorePlans`` checks them once and builds what every batch needs: the window engine,
joins, clocks and stamps. Out comes, for each batch, a ``BatchPlan`` (and a ``JoinPlan`` for
each join): plain data for the tasks. A ``PreparedBatch`` is the batch computed, the start of
the next one.
"""

from oriel.pipeline.hops import KEY_GROUP
from oriel.pipeline.plan.batch import (
    NO_PARTITION,
    BatchPlan,
    ClockPlan,
    JoinPlan,
    PreparedBatch,
    Segments,
    StampPlan,
)
from oriel.pipeline.plan.clocks import (
    NO_CLOCK_NOTES,
    NO_WALL_CLOCK,
    UNPROTECTED,
    ClockNotes,
    Clocks,
    ClockSettings,
    WallClock,
)
from oriel.pipeline.plan.engine import aggregate_calls, assemble
from oriel.pipeline.plan.final_rows import final_records
from oriel.pipeline.plan.inputs import InputPlan, Steps
from oriel.pipeline.plan.record_sources import InputSource, input_sources, record_sources
from oriel.pipeline.plan.store import (
    StorePlans,
    reasons_by_store,
)

__all__ = [
    "KEY_GROUP",
    "NO_CLOCK_NOTES",
    "NO_PARTITION",
    "NO_WALL_CLOCK",
    "UNPROTECTED",
    "BatchPlan",
    "ClockNotes",
    "ClockPlan",
    "ClockSettings",
    "Clocks",
    "InputPlan",
    "InputSource",
    "JoinPlan",
    "PreparedBatch",
    "Segments",
    "StampPlan",
    "Steps",
    "StorePlans",
    "WallClock",
    "aggregate_calls",
    "assemble",
    "final_records",
    "input_sources",
    "reasons_by_store",
    "record_sources",
]
