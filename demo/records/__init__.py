"""The flights as records: read from the package, and put into an event log as they arrive."""

from oriel.demo.records.event_log import TOPIC, append_lines, create_partitions, log_sizes, to_lines
from oriel.demo.records.flight_data import ORIGINS, read_flights
from oriel.demo.records.live import replay

__all__ = [
    "ORIGINS",
    "TOPIC",
    "append_lines",
    "create_partitions",
    "log_sizes",
    "read_flights",
    "replay",
    "to_lines",
]
