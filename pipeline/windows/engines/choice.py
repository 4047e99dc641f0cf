"""The engine for each kind of windows and aggregation."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate
from oriel.pipeline.windows.definitions import (
    EmitStrategy,
    IllegalArgument,
    NoWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)
from oriel.pipeline.windows.engines.contract import WindowEngine
from oriel.pipeline.windows.engines.grid import TimeFoldEngine, TimeWindowEngine
from oriel.pipeline.windows.engines.sessions import SessionFoldEngine, SessionWindowEngine
from oriel.pipeline.windows.engines.sliding import SlidingFoldEngine, SlidingWindowEngine
from oriel.pipeline.windows.functions import Fold

#: Kinds of windows, their engine for declarative aggregates, and that for users' functions.
_ENGINES: tuple[tuple[Any, Callable[..., WindowEngine], Callable[..., WindowEngine]], ...] = (
    (TimeWindows | NoWindows, TimeWindowEngine, TimeFoldEngine),
    (SlidingWindows, SlidingWindowEngine, SlidingFoldEngine),
    (SessionWindows, SessionWindowEngine, SessionFoldEngine),
)


_ON_UPDATE = EmitStrategy.on_window_update()


def engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate] | Fold,
    values: pa.Schema,
    *,
    carried: pa.Schema | None = None,
    emit: EmitStrategy = _ON_UPDATE,
) -> WindowEngine:
    """Return the engine of a store.

    ``aggregates`` are declarative, by the name of their column, or a user's fold; ``carried``
    are columns that the state keeps for the caller; ``emit`` says when a window's row is
    written.

    Raises:
        IllegalArgument: an aggregate does not fit ``values``, or the windows are unknown.
    """
    for kinds, declarative, folding in _ENGINES:
        if isinstance(windows, kinds):
            engine = folding if isinstance(aggregates, Fold) else declarative
            return engine(windows, aggregates, values, carried, emit=emit)
    message = f"there is no engine for {windows!r}"
    raise IllegalArgument(message)
