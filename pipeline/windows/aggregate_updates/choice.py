"""The engine for the updates of each kind of windows and aggregation."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.functions import FoldUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.grid import ColumnUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.sessions import (
    SessionColumnUpdatesEngine,
    SessionFoldUpdatesEngine,
)
from oriel.pipeline.windows.aggregate_updates.sliding import SlidingColumnUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.sliding_functions import SlidingFoldUpdatesEngine
from oriel.pipeline.windows.aggregates import Aggregate
from oriel.pipeline.windows.definitions import Kind, Windows
from oriel.pipeline.windows.functions import Fold
from oriel.pipeline.windows.joins import RECORDS, SideRows


class _Engines(NamedTuple):
    """The engines of one kind of windows, for named aggregates and for functions."""

    declarative: Callable[..., AggregateUpdatesEngine]
    functions: Callable[..., AggregateUpdatesEngine]


_ENGINES: Mapping[Kind, _Engines] = {
    "tumbling": _Engines(ColumnUpdatesEngine, FoldUpdatesEngine),
    "hopping": _Engines(ColumnUpdatesEngine, FoldUpdatesEngine),
    "none": _Engines(ColumnUpdatesEngine, FoldUpdatesEngine),
    "sliding": _Engines(SlidingColumnUpdatesEngine, SlidingFoldUpdatesEngine),
    "session": _Engines(SessionColumnUpdatesEngine, SessionFoldUpdatesEngine),
}


def updates_engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate] | Fold,
    values: pa.Schema,
    carried: pa.Schema | None = None,
    *,
    sides: Sequence[SideRows] = (RECORDS,),
    reason: Callable[[str], str] = str,
) -> AggregateUpdatesEngine:
    """Return the engine of the updates of an aggregation.

    Args:
        windows: The definition of the windows.
        aggregates: Named aggregates by the name of their column, or the functions of a user.
            Named aggregates must fit the rows of ``sides``.
        values: The columns of the values.
        carried: Columns that the state keeps for the caller.
        sides: The rows of each input stream.
        reason: Returns the text of the reason for which a record is rejected.

    Raises:
        IllegalArgument: An aggregate does not fit ``values``, or has the name of a column that the
            engine needs.
    """
    engines = _ENGINES[windows.kind]
    if not isinstance(aggregates, Fold):
        return engines.declarative(windows, aggregates, values, carried, sides=sides)
    return engines.functions(windows, aggregates, values, carried, sides=sides, reason=reason)
