"""The engine for each kind of windows and aggregation."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate
from oriel.pipeline.windows.definitions import EmitStrategy, IllegalArgument, Kind, Windows
from oriel.pipeline.windows.engines.contract import WindowEngine
from oriel.pipeline.windows.engines.grid import TimeFunctionsEngine, TimeWindowEngine
from oriel.pipeline.windows.engines.sessions import SessionFunctionEngine, SessionWindowEngine
from oriel.pipeline.windows.engines.sliding import SlidingFunctionEngine, SlidingWindowEngine
from oriel.pipeline.windows.functions import UserFunctions


class _Engines(NamedTuple):
    """The engines of one kind of windows, for named aggregates and for functions."""

    declarative: Callable[..., WindowEngine]
    functions: Callable[..., WindowEngine]


# Without windows, a key has the only window [0, FOREVER_MS], so the engines of a grid compute it.
_ENGINES: Mapping[Kind, _Engines] = {
    "tumbling": _Engines(TimeWindowEngine, TimeFunctionsEngine),
    "hopping": _Engines(TimeWindowEngine, TimeFunctionsEngine),
    "none": _Engines(TimeWindowEngine, TimeFunctionsEngine),
    "sliding": _Engines(SlidingWindowEngine, SlidingFunctionEngine),
    "session": _Engines(SessionWindowEngine, SessionFunctionEngine),
}


def engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate] | UserFunctions,
    values: pa.Schema,
    *,
    carried: pa.Schema | None = None,
    emit: EmitStrategy | None = None,
) -> WindowEngine:
    """Return the engine of a store.

    Args:
        windows: The definition of the windows.
        aggregates: Named aggregates by the name of their column, or the functions of a user.
        values: The columns of the values.
        carried: Columns that the state keeps for the caller.
        emit: The emit strategy. Default: every update.

    Raises:
        IllegalArgument: An aggregate does not fit ``values``, or the windows are unknown.
    """
    if not isinstance(windows, Windows):
        message = f"no engine for {windows!r}"
        raise IllegalArgument(message)
    engines = _ENGINES[windows.kind]
    engine = engines.functions if isinstance(aggregates, UserFunctions) else engines.declarative
    emit = emit or EmitStrategy.on_window_update()
    return engine(windows, aggregates, values, carried, emit=emit)
