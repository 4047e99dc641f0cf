"""Door of oriel.pipeline.windows.engines.grid."""

from oriel.pipeline.windows.engines.grid.time_folds import TimeFoldEngine
from oriel.pipeline.windows.engines.grid.time_windows import TimeWindowEngine

__all__ = [
    "TimeFoldEngine",
    "TimeWindowEngine",
]
