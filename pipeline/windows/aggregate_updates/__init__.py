"""The updates of an aggregation as a stream: engines that stand where joins do (decision 0070).

``AggregateUpdatesEngine`` is the contract and what all of them share; ``updates_engine_for``
returns that of an aggregation, by its windows and by whether it is declarative or functions.
"""

from oriel.pipeline.windows.aggregate_updates.choice import updates_engine_for
from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine

__all__ = [
    "AggregateUpdatesEngine",
    "updates_engine_for",
]
