"""The engine for each kind of windows and aggregation."""

from collections.abc import Mapping

import pyarrow as pa

from pipeline.windows.aggregates import Aggregate
from pipeline.windows.definitions import (
    NoWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
)
from pipeline.windows.engine import WindowEngine
from pipeline.windows.errors import IllegalArgument
from pipeline.windows.folds import Fold
from pipeline.windows.session_folds import SessionFoldEngine
from pipeline.windows.sessions import SessionWindowEngine
from pipeline.windows.sliding import SlidingWindowEngine
from pipeline.windows.sliding_folds import SlidingFoldEngine
from pipeline.windows.time_folds import TimeFoldEngine
from pipeline.windows.time_windows import TimeWindowEngine


def engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate] | Fold,
    values: pa.Schema,
    *,
    carried: pa.Schema | None = None,
    emit_final_only: bool = False,
) -> WindowEngine:
    """Return the engine of a store.

    ``aggregates`` are declarative, by the name of their column, or a user's fold; ``carried``
    are columns that the state keeps for the caller; ``emit_final_only`` tells a window once,
    when it is final.

    Raises:
        IllegalArgument: an aggregate does not fit ``values``, or the windows are unknown.
    """
    folds = isinstance(aggregates, Fold)
    engine: type[
        TimeFoldEngine
        | TimeWindowEngine
        | SlidingFoldEngine
        | SlidingWindowEngine
        | SessionFoldEngine
        | SessionWindowEngine
    ]
    if isinstance(windows, TimeWindows | NoWindows):
        engine = TimeFoldEngine if folds else TimeWindowEngine
    elif isinstance(windows, SlidingWindows):
        engine = SlidingFoldEngine if folds else SlidingWindowEngine
    elif isinstance(windows, SessionWindows):
        engine = SessionFoldEngine if folds else SessionWindowEngine
    else:
        message = f"there is no engine for {windows!r}"
        raise IllegalArgument(message)
    return engine(windows, aggregates, values, carried, emit_final_only=emit_final_only)  # type: ignore[arg-type]
