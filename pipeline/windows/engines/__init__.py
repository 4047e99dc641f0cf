"""Door of oriel.pipeline.windows.engines."""

from oriel.pipeline.windows.engines.choice import engine_for
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.sliding import SlidingWindowEngine

__all__ = [
    "EngineResult",
    "SlidingWindowEngine",
    "WindowEngine",
    "engine_for",
]
