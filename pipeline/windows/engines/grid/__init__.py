"""The engines of tumbling and hopping windows, and of groupings without windows.

A grouping without windows has one window that never ends. The input is a state of one row per
window, and a batch of records. The output is the next state and the row of each changed window. The
class ``TimeWindowEngine`` computes named aggregates for all keys. The class ``TimeFunctionsEngine``
calls functions of a user record by record. The class ``WindowGrid`` has the bounds of windows.
"""

from oriel.pipeline.windows.engines.grid.declarative import TimeWindowEngine, WindowGrid
from oriel.pipeline.windows.engines.grid.functions import TimeFunctionsEngine

__all__ = ["TimeFunctionsEngine", "TimeWindowEngine", "WindowGrid"]
