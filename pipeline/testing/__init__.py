"""For users' unit tests: a topology in this process, batch by batch, without a streaming query.

driver = TopologyTestDriver(topology)
driver.pipe_input("flights", [Record("EWR", {"delay": 5.0}, 1000)])
driver.read_output("delays")
driver.window_store("delays").fetch("EWR", 0, 2000)
"""

from pipeline.testing.driver import TopologyTestDriver
from pipeline.testing.records import Record
from pipeline.testing.rows import KeyValue, WindowedValue
from pipeline.testing.steps import spark_session
from pipeline.testing.store_driver import Counters
from pipeline.testing.stores import (
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
]
