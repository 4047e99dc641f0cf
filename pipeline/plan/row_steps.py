"""The steps of rows behind an aggregation or joined tables, checked.

They run in the task that has computed the rows, where Spark doesn't come: so Arrow has to run all
of them (decision 0064).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from oriel.pipeline.arrow_steps import AggregatedSteps, ArrowSteps, UpdateSteps
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import AggregatedRows, Store
from oriel.pipeline.plan.engine import Assembly, check_columns
from oriel.pipeline.windows import EmitStrategy

#: As ``StepsOf``, of rows behind an aggregation.
RowStepsOf = Callable[[AggregatedRows, pa.Schema], Any]


def with_row_steps(store: Store, assembly: Assembly, steps_of: RowStepsOf) -> Assembly:
    """``assembly`` with the steps of the store's rows, if it has any, as ``steps_of`` makes them.

    Raises:
        InvalidTopology: a step does not fit the aggregates, Arrow does not run it, or the store's
            table can't have its columns; the message names it.
    """
    if not store.row_steps:
        return assembly
    types = assembly.engine.aggregate_types
    steps = _checked_steps(store.name, store.aggregated_rows, types, steps_of)
    final_only = store.emit == EmitStrategy.on_window_close()
    row_steps = AggregatedSteps.of(steps, final_only=final_only)
    check_columns(store, row_steps.types)
    return replace(assembly, row_steps=row_steps)


def update_steps(
    store: str, rows: AggregatedRows, types: Mapping[str, pa.DataType], steps_of: RowStepsOf
) -> UpdateSteps:
    """The steps of a table's updates, which ``store`` reads; ``types`` are the table's columns.

    Raises:
        InvalidTopology: a step does not fit the columns, or Arrow does not run it.
    """
    return UpdateSteps.of(_checked_steps(store, rows, types, steps_of), windowed=rows.windowed)


def _checked_steps(
    store: str, rows: AggregatedRows, types: Mapping[str, pa.DataType], steps_of: RowStepsOf
) -> ArrowSteps:
    of_scope = [pa.field(name, pa.string() if name == "key" else pa.int64()) for name in rows.scope]
    read = pa.schema([*of_scope, *(pa.field(name, of) for name, of in types.items())])
    steps = steps_of(rows, read).arrow
    if isinstance(steps, ArrowSteps):
        return steps
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
