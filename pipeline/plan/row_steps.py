"""The planner of steps over rows, after an aggregation or a join of tables.

The task that computes the rows also runs these steps, without Spark. So Arrow must support all
steps (decision 0064).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from oriel.pipeline.arrow_steps import AggregatedSteps, ArrowSteps, UpdateSteps
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.lowered import AggregatedRows, Store
from oriel.pipeline.plan.engine import PlannedEngine, check_columns
from oriel.pipeline.windows import EmitStrategy

#: Like ``StepsOf``, for rows after an aggregation or a join of tables.
RowStepsOf = Callable[[AggregatedRows, pa.Schema], Any]


def with_row_steps(store: Store, assembly: PlannedEngine, steps_of: RowStepsOf) -> PlannedEngine:
    """Return ``assembly`` with the steps of the store's rows, if it has any.

    Args:
        store: The store.
        assembly: The engine of the store.
        steps_of: Returns the steps of rows.

    Raises:
        InvalidTopology: A step does not fit the aggregates, Arrow does not run it, or the table of
            the store cannot have its columns. The message names it.
    """
    if not store.row_steps:
        return assembly
    types = assembly.engine.aggregate_types
    steps = _arrow_steps(store.name, store.aggregated_rows, types, steps_of)
    # With emit on close, no earlier row of the window was written. So a dropped row needs no
    # removal (decision 0064).
    final_only = store.emit == EmitStrategy.on_window_close()
    row_steps = AggregatedSteps.of(steps, final_only=final_only)
    check_columns(store, row_steps.types)
    return replace(assembly, row_steps=row_steps)


def update_steps(
    store: str, rows: AggregatedRows, types: Mapping[str, pa.DataType], steps_of: RowStepsOf
) -> UpdateSteps:
    """Return the steps of the updates of a table.

    Args:
        store: The name of the store that reads the updates.
        rows: The node of the topology.
        types: The columns of the table.
        steps_of: Returns the steps of rows.

    Raises:
        InvalidTopology: A step does not fit the columns, or Arrow does not run it.
    """
    return UpdateSteps.of(_arrow_steps(store, rows, types, steps_of), windowed=rows.windowed)


def _arrow_steps(
    store: str, rows: AggregatedRows, types: Mapping[str, pa.DataType], steps_of: RowStepsOf
) -> ArrowSteps:
    # The columns of the scope are the key, and the bounds of windows in ms.
    scope_columns = [
        pa.field(name, pa.string() if name == "key" else pa.int64()) for name in rows.scope
    ]
    read = pa.schema([*scope_columns, *(pa.field(name, of) for name, of in types.items())])
    steps = steps_of(rows, read).arrow
    # The steps of the test driver that only Spark can run have no other form.
    if isinstance(steps, ArrowSteps):
        return steps
    # Planned again with one step more each time, so the message names the first step that Arrow
    # cannot run.
    chains = (replace(rows, steps=rows.steps[:end]) for end in range(1, len(rows.steps) + 1))
    first = next(
        chain.steps[-1]
        for chain in chains
        if not isinstance(steps_of(chain, read).arrow, ArrowSteps)
    )
    message = (
        f"store {store!r}, step {first}: Arrow cannot run this expression, and Spark does not run "
        "steps after an aggregation or a join of tables. Use the expressions that "
        "docs/reference/topology/streams.md lists (for example 1.5D instead of the decimal 1.5), "
        "compute it before the aggregation or join, or use it after to_stream()"
    )
    raise InvalidTopology(message)
