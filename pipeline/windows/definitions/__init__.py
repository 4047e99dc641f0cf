"""Door of oriel.pipeline.windows.definitions."""

from oriel.pipeline.windows.definitions.emit import EmitStrategy
from oriel.pipeline.windows.definitions.errors import IllegalArgument, WindowsError, said
from oriel.pipeline.windows.definitions.join_windows import LEFT, RIGHT, JoinWindows
from oriel.pipeline.windows.definitions.rules import FOREVER_MS, RULES, Kind
from oriel.pipeline.windows.definitions.windows import (
    MAX_TIMESTAMP_MS,
    Duration,
    NoWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    Windows,
    checked_grace,
    refuse_too_long,
    to_ms,
    to_ms_not_negative,
)

__all__ = [
    "FOREVER_MS",
    "LEFT",
    "MAX_TIMESTAMP_MS",
    "RIGHT",
    "RULES",
    "Duration",
    "EmitStrategy",
    "IllegalArgument",
    "JoinWindows",
    "Kind",
    "NoWindows",
    "SessionWindows",
    "SlidingWindows",
    "TimeWindows",
    "Windows",
    "WindowsError",
    "checked_grace",
    "refuse_too_long",
    "said",
    "to_ms",
    "to_ms_not_negative",
]
