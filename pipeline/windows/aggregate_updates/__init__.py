"""The engines that emit the updates of an aggregation as a stream (decision 0070).

Like a join, an engine is an operator upstream of the store that reads the updates. The class
``AggregateUpdatesEngine`` is the interface and the shared base. The function ``updates_engine_for``
returns the engine for the windows and the kind of an aggregation. The class ``ExpiryEngine`` is
the operator before an aggregation or a table whose keys expire (decision 0120).
"""

from oriel.pipeline.windows.aggregate_updates.choice import updates_engine_for
from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine
from oriel.pipeline.windows.aggregate_updates.expiry import ExpiryEngine

__all__ = ["AggregateUpdatesEngine", "ExpiryEngine", "updates_engine_for"]
