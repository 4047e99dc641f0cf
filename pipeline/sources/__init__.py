"""Door of oriel.pipeline.sources."""

from oriel.pipeline.sources.kafka_connector import kafka_settings
from oriel.pipeline.sources.log import EventLog, Kafka, Log

__all__ = [
    "EventLog",
    "Kafka",
    "Log",
    "kafka_settings",
]
