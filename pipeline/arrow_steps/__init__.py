"""Row-wise steps that Arrow runs, wherever the rows are: in a Python task or in the driver.

In come decoded records (or a join's results) as Arrow tables; out go the rows for the stamp that
``oriel.pipeline.rows.RowSteps`` would give. ``arrow_steps`` makes steps that only choose columns;
``RowSteps.arrow`` those whose expressions Spark has read, as a ``Program``. Which functions
there are says ``FUNCTIONS``. The steps of an aggregation's rows are run here only
(``AggregatedSteps``, ``UpdateSteps``). Nothing here imports Spark.
"""

from oriel.pipeline.arrow_steps.aggregated import AggregatedSteps, UpdateSteps
from oriel.pipeline.arrow_steps.choosing import arrow_steps
from oriel.pipeline.arrow_steps.expressions import (
    Call,
    ColumnRef,
    Constant,
    Expression,
    evaluate,
)
from oriel.pipeline.arrow_steps.steps import (
    ArrowSteps,
    Compute,
    Delete,
    Explode,
    Keep,
    Program,
    ProgramStep,
)
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.hops import StepsOutput

__all__ = [
    "AggregatedSteps",
    "ArrowSteps",
    "Call",
    "ColumnRef",
    "Compute",
    "Constant",
    "Delete",
    "Explode",
    "Expression",
    "Keep",
    "Program",
    "ProgramStep",
    "StepsOutput",
    "TypedKeys",
    "UpdateSteps",
    "arrow_steps",
    "evaluate",
]
