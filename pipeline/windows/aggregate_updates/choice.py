"""The engine for each kind of windows and aggregation."""

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
    """The engine of declarative aggregates, and that of a user's functions."""

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
    """Return the engine of an aggregation's updates.

    ``aggregates`` are declarative, by the name of their column, and fit the rows of ``sides``, or a
    user's fold over columns of the schema ``values``; ``reason`` says in which words it rejects a
    record. ``carried`` are columns that the state keeps for the caller.

    Raises:
        IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
    """
    engines = _ENGINES[windows.kind]
    if not isinstance(aggregates, Fold):
        return engines.declarative(windows, aggregates, values, carried, sides=sides)
    return engines.functions(windows, aggregates, values, carried, sides=sides, reason=reason)
