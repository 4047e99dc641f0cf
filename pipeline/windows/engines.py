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
from pipeline.windows.sessions import SessionWindowEngine
from pipeline.windows.sliding import SlidingWindowEngine
from pipeline.windows.time_windows import TimeWindowEngine


def engine_for(
    windows: Windows,
    aggregates: Mapping[str, Aggregate],
    values: pa.Schema,
    *,
    carried: pa.Schema | None = None,
    emit_final_only: bool = False,
) -> WindowEngine:
    """Return the engine of a store.

    Raises:
        IllegalArgument: an aggregate does not fit ``values``, or the windows are unknown.
    """
    if isinstance(windows, TimeWindows | NoWindows):
        return TimeWindowEngine(
            windows, aggregates, values, carried, emit_final_only=emit_final_only
        )
    if isinstance(windows, SlidingWindows):
        return SlidingWindowEngine(
            windows, aggregates, values, carried, emit_final_only=emit_final_only
        )
    if isinstance(windows, SessionWindows):
        return SessionWindowEngine(
            windows, aggregates, values, carried, emit_final_only=emit_final_only
        )
    message = f"there is no engine for {windows!r}"
    raise IllegalArgument(message)
