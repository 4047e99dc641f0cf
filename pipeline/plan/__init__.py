"""Door of oriel.pipeline.plan."""

from oriel.pipeline.plan.batch import (
    COUNTERS,
    DEAD_LETTER_SCHEMA,
    LATE_RESULTS,
    REJECTED_RESULTS,
    STAMPED_FIELDS,
    BatchPlan,
    ClockPlan,
    GroupReport,
    JoinPlan,
    JoinReport,
    Origin,
    Reports,
    Segments,
    SourceReasons,
    StampPlan,
    StampReport,
)
from oriel.pipeline.plan.engine import KEY_GROUP, RAW, aggregate_calls, assemble
from oriel.pipeline.plan.join import JoinedBatch
from oriel.pipeline.plan.prepared_batch import PreparedBatch
from oriel.pipeline.plan.store import InputPlan, Place, SidePlan, Steps, StorePlans, tellers

__all__ = [
    "COUNTERS",
    "DEAD_LETTER_SCHEMA",
    "KEY_GROUP",
    "LATE_RESULTS",
    "RAW",
    "REJECTED_RESULTS",
    "STAMPED_FIELDS",
    "BatchPlan",
    "ClockPlan",
    "GroupReport",
    "InputPlan",
    "JoinPlan",
    "JoinReport",
    "JoinedBatch",
    "Origin",
    "Place",
    "PreparedBatch",
    "Reports",
    "Segments",
    "SidePlan",
    "SourceReasons",
    "StampPlan",
    "StampReport",
    "Steps",
    "StorePlans",
    "aggregate_calls",
    "assemble",
    "tellers",
]
