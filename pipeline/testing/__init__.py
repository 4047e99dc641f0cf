"""The test driver for users, like the TopologyTestDriver of Kafka Streams.

A test creates a driver for a topology and pipes records into it. The stages of the pipeline process
them in this process without files, and without Spark if no expression needs it. The test then reads
the written rows, the stores, the counters and the dead letters. ``steps_for`` is for benchmarks
that run tasks without Spark.
"""

from oriel.pipeline.errors import FunctionRaised
from oriel.pipeline.testing.driver import TopologyTestDriver
from oriel.pipeline.testing.output import OutputReader
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.rows import KeyValue, VersionedValue, WindowedValue
from oriel.pipeline.testing.session_store import DriverSessionStore
from oriel.pipeline.testing.steps import spark_session, steps_for
from oriel.pipeline.testing.store_driver import Counters
from oriel.pipeline.testing.stores import DriverKeyValueStore, DriverWindowStore
from oriel.pipeline.testing.streams import StreamReader
from oriel.pipeline.testing.versioned_store import DriverVersionedStore

__all__ = [
    "Counters",
    "DriverKeyValueStore",
    "DriverSessionStore",
    "DriverVersionedStore",
    "DriverWindowStore",
    "FunctionRaised",
    "KeyValue",
    "OutputReader",
    "Record",
    "StreamReader",
    "TopologyTestDriver",
    "VersionedValue",
    "WindowedValue",
    "spark_session",
    "steps_for",
]
