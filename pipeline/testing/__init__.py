"""The test driver that is shipped to users, as Kafka Streams ships its TopologyTestDriver.

In come a topology and the records of a test, a batch at a time. They go through the pipeline's
own stages in this process, without a file, and without Spark where no expression needs it. Out
come the rows that a batch writes, read-only stores as Kafka Streams has them, counters and dead
letters. ``steps_for`` is for benchmarks that run tasks without Spark.
"""

from oriel.pipeline.errors import FunctionRaised
from oriel.pipeline.testing.driver import TopologyTestDriver
from oriel.pipeline.testing.output import OutputReader
from oriel.pipeline.testing.records import Record
from oriel.pipeline.testing.rows import KeyValue, WindowedValue
from oriel.pipeline.testing.steps import spark_session, steps_for
from oriel.pipeline.testing.store_driver import Counters
from oriel.pipeline.testing.stores import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
)
from oriel.pipeline.testing.streams import StreamReader

__all__ = [
    "Counters",
    "FunctionRaised",
    "KeyValue",
    "OutputReader",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "Record",
    "StreamReader",
    "TopologyTestDriver",
    "WindowedValue",
    "spark_session",
    "steps_for",
]
