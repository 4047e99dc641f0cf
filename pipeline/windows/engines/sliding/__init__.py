"""Door of oriel.pipeline.windows.engines.sliding."""

from oriel.pipeline.windows.engines.sliding.sliding_folds import SlidingFoldEngine
from oriel.pipeline.windows.engines.sliding.sliding_windows import SlidingWindowEngine

__all__ = [
    "SlidingFoldEngine",
    "SlidingWindowEngine",
]
