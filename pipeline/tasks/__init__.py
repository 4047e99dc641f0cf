"""Door of oriel.pipeline.tasks."""

from oriel.pipeline.tasks.join import join_with
from oriel.pipeline.tasks.stages import Runner, TaskFunction, run_stages
from oriel.pipeline.tasks.stamp import (
    Stamper,
    route_with,
    stamp_for_join,
    stamp_looked_up,
    stamp_with,
)
from oriel.pipeline.tasks.windows import RESULT_SCHEMA, found_by_input, group_with, rejected_letters

__all__ = [
    "RESULT_SCHEMA",
    "Runner",
    "Stamper",
    "TaskFunction",
    "found_by_input",
    "group_with",
    "join_with",
    "rejected_letters",
    "route_with",
    "run_stages",
    "stamp_for_join",
    "stamp_looked_up",
    "stamp_with",
]
