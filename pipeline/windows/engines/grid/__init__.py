"""Tumbling and hopping windows, and groupings without windows, which are one window for ever.

In come a state of one row a window and a batch of records; out go the next state and each changed
window's row. ``TimeWindowEngine`` computes declarative aggregates for all keys at once,
``TimeFoldEngine`` calls a user's functions record by record. Where windows lie says ``WindowGrid``.
"""

from oriel.pipeline.windows.engines.grid.declarative import TimeWindowEngine, WindowGrid
from oriel.pipeline.windows.engines.grid.functions import TimeFoldEngine

__all__ = [
    "TimeFoldEngine",
    "TimeWindowEngine",
    "WindowGrid",
]
