"""The engines: records of a batch in, changed windows and the next state out.

``engine_for`` returns the engine of a store by its kind of windows and by whether its
aggregates are declarative or a user's functions. ``WindowEngine`` is the contract of all of them:
a pure function of (state, batch, close times), Arrow in and Arrow out. ``WindowGrid`` says where
tumbling and hopping windows lie.
"""

from oriel.pipeline.windows.engines.choice import engine_for
from oriel.pipeline.windows.engines.contract import Due, EngineResult, WindowEngine
from oriel.pipeline.windows.engines.grid import WindowGrid
from oriel.pipeline.windows.engines.records import RecordsEngine

__all__ = [
    "Due",
    "EngineResult",
    "RecordsEngine",
    "WindowEngine",
    "WindowGrid",
    "engine_for",
]
