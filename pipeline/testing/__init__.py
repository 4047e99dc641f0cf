"""Door of oriel.pipeline.testing."""

from oriel.pipeline.testing.driver import TopologyTestDriver
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.rows import KeyValue, WindowedValue
from oriel.pipeline.testing.steps import spark_session, steps_for
from oriel.pipeline.testing.store_driver import Counters
from oriel.pipeline.testing.stores import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
)

__all__ = [
    "Counters",
    "KeyValue",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Record",
    "TopologyTestDriver",
    "WindowedValue",
    "spark_session",
    "steps_for",
]
