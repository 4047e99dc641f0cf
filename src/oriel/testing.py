"""The test driver: a topology in this process, for users' unit tests; see docs/testing.md."""

from oriel.pipeline.testing import (
    Counters,
    KeyValue,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    Record,
    TopologyTestDriver,
    WindowedValue,
    spark_session,
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
]
