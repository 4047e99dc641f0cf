"""The engine for the updates of each kind of windows and aggregation."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.functions import FunctionUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.grid import ColumnUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.sessions import (
    SessionColumnUpdatesEngine,
    SessionFunctionUpdatesEngine,
)
from oriel.pipeline.windows.aggregate_updates.sliding import SlidingColumnUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.sliding_functions import SlidingFunctionUpdatesEngine
from oriel.pipeline.windows.aggregates import Aggregate
from oriel.pipeline.windows.definitions import Kind, Windows
from oriel.pipeline.windows.functions import UserFunctions
from oriel.pipeline.windows.joins import RECORDS, InputRows


class _Engines(NamedTuple):
    """The engines of one kind of windows, for named aggregates and for functions."""

    declarative: Callable[..., AggregateUpdatesEngine]
    functions: Callable[..., AggregateUpdatesEngine]


# Without windows, a key has the only window [0, FOREVER_MS]. The engines of a grid therefore also
# compute the aggregations without windows.
_ENGINES: Mapping[Kind, _Engines] = {
    "tumbling": _Engines(ColumnUpdatesEngine, FunctionUpdatesEngine),
    "hopping": _Engines(ColumnUpdatesEngine, FunctionUpdatesEngine),
    "none": _Engines(ColumnUpdatesEngine, FunctionUpdatesEngine),
    "sliding": _Engines(SlidingColumnUpdatesEngine, SlidingFunctionUpdatesEngine),
    "session": _Engines(SessionColumnUpdatesEngine, SessionFunctionUpdatesEngine),
}


def updates_engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate] | UserFunctions,
    values: pa.Schema,
    carried: pa.Schema | None = None,
    *,
    inputs: Sequence[InputRows] = (RECORDS,),
    reason: Callable[[str], str] = str,
) -> AggregateUpdatesEngine:
    """Return the engine of the updates of an aggregation.

    Args:
        windows: The definition of the windows.
        aggregates: Named aggregates by the name of their column, or the functions of a user.
            Named aggregates must fit the rows of ``inputs``.
        values: The columns of the values.
        carried: Columns that the state keeps for the caller.
        inputs: The rows of each input stream.
        reason: Returns the text of the reason for which a record is rejected.

    Raises:
        IllegalArgument: An aggregate does not fit ``values``, or has the name of a column that the
            engine needs.
    """
    engines = _ENGINES[windows.kind]
    # Only functions of a user reject records. An error in a named aggregate, for example in the
    # functions of ``mergeable``, stops the pipeline, so these engines need no text of a reason.
    if not isinstance(aggregates, UserFunctions):
        return engines.declarative(windows, aggregates, values, carried, inputs=inputs)
    return engines.functions(
        windows, aggregates, values, carried, inputs=inputs, rejection_text=reason
    )
