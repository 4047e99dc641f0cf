"""The plan of a batch, computed before its tasks run.

The input is a store of the topology, and the columns of its inputs after their row-wise steps. The
class ``StorePlans`` checks them once, and creates the window engine, joins, stream times and
streams that all batches share. For each batch, it returns a ``BatchPlan`` and a ``JoinPlan`` per
join, which are plain data for the tasks. The result of a batch is a ``PreparedBatch``, from which
the next batch starts.
"""

from oriel.pipeline.plan.batch import (
    NO_PARTITION,
    BatchPlan,
    JoinPlan,
    PreparedBatch,
    Segments,
    StoredOperator,
    StreamPlan,
    StreamTimePlan,
)
from oriel.pipeline.plan.engine import aggregate_calls, plan_engine
from oriel.pipeline.plan.final_rows import final_records
from oriel.pipeline.plan.inputs import InputPlan, Steps
from oriel.pipeline.plan.record_sources import (
    InputSource,
    header_texts,
    input_sources,
    record_sources,
)
from oriel.pipeline.plan.store import (
    StorePlans,
    reasons_by_store,
)
from oriel.pipeline.plan.wall_clock import (
    NO_LIMITS,
    NO_STREAM_TIME_NOTES,
    NO_WALL_CLOCK,
    StreamTimeNotes,
    StreamTimesByName,
    WallClock,
    WallClockLimits,
)
from oriel.pipeline.stage_columns import KEY_GROUP

__all__ = [
    "KEY_GROUP",
    "NO_LIMITS",
    "NO_PARTITION",
    "NO_STREAM_TIME_NOTES",
    "NO_WALL_CLOCK",
    "BatchPlan",
    "InputPlan",
    "InputSource",
    "JoinPlan",
    "PreparedBatch",
    "Segments",
    "Steps",
    "StorePlans",
    "StoredOperator",
    "StreamPlan",
    "StreamTimeNotes",
    "StreamTimePlan",
    "StreamTimesByName",
    "WallClock",
    "WallClockLimits",
    "aggregate_calls",
    "final_records",
    "header_texts",
    "input_sources",
    "plan_engine",
    "reasons_by_store",
    "record_sources",
]
