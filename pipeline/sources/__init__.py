"""Sources: topics of an event log or of Kafka as streams of rows, and rows decoded to records.

In come a topic and the schema of its values. Out go a streaming DataFrame of raw rows, in which a
partition is read in the order of its offsets by one task a batch, and a decoder that turns raw rows
into ``partition, offset, raw, key, timestamp_ms, value, reason``, alike for both: what can't be
used has a reason and keeps its bytes. An event log that is not append-only is an
``EventLogError``; without Kafka's connector there is a ``ConnectorUnavailable``.
"""

from oriel.pipeline.sources.logs import EventLog, Kafka, Log, kafka_settings

__all__ = [
    "EventLog",
    "Kafka",
    "Log",
    "kafka_settings",
]
