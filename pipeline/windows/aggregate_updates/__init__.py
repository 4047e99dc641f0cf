"""The updates of an aggregation as a stream, by engines at the position of joins (decision 0070).

The class ``AggregateUpdatesEngine`` is the interface and the shared base. The function
``updates_engine_for`` returns the engine of an aggregation by its windows and its kind.
"""

from oriel.pipeline.windows.aggregate_updates.choice import updates_engine_for
from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine

__all__ = [
    "AggregateUpdatesEngine",
    "updates_engine_for",
]
