"""The steps of a store's rows behind its aggregation, checked.

They run in the task that has computed the rows, where Spark doesn't come: so Arrow has to run all
of them (decision 0064).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from oriel.pipeline.arrow_steps import AggregatedSteps, ArrowSteps
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import AggregatedRows, Store
from oriel.pipeline.plan.engine import Assembly, check_columns
from oriel.pipeline.windows import EmitStrategy


def with_row_steps(
    store: Store, assembly: Assembly, steps_of: Callable[[AggregatedRows, pa.Schema], Any]
) -> Assembly:
    """``assembly`` with the steps of the store's rows, if it has any, as ``steps_of`` makes them.

    Raises:
        InvalidTopology: a step does not fit the aggregates, Arrow does not run it, or the store's
            table can't have its columns; the message names it.
    """
    if not store.row_steps:
        return assembly
    rows = store.aggregated_rows
    of_scope = [pa.field(name, pa.string() if name == "key" else pa.int64()) for name in rows.scope]
    aggregates = [pa.field(name, of) for name, of in assembly.engine.aggregate_types.items()]
    read = pa.schema([*of_scope, *aggregates])
    steps = steps_of(rows, read).arrow
    if not isinstance(steps, ArrowSteps):
        _refuse_first_of_spark(store, read, steps_of)
    final_only = store.emit == EmitStrategy.on_window_close()
    row_steps = AggregatedSteps.of(steps, final_only=final_only)
    check_columns(store, row_steps.types)
    return replace(assembly, row_steps=row_steps)


def _refuse_first_of_spark(
    store: Store, read: pa.Schema, steps_of: Callable[[AggregatedRows, pa.Schema], Any]
) -> None:
    """Refuse the first step that Arrow does not run.

    Raises:
        InvalidTopology: always.
    """
    rows = store.aggregated_rows
    chains = (replace(rows, steps=rows.steps[:end]) for end in range(1, len(rows.steps) + 1))
    first = next(
        chain.steps[-1]
        for chain in chains
        if not isinstance(steps_of(chain, read).arrow, ArrowSteps)
    )
    message = (
        f"store {store.name!r}, step {first}: Arrow does not run this expression, and rows behind "
        "an aggregation don't come to Spark. Say it with what docs/topology.md lists (a number "
        "with a fraction is 1.5D: 1.5 is a decimal), or compute it in front of the aggregation or "
        "where the rows are read"
    )
    raise InvalidTopology(message)
