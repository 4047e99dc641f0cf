"""Sources: topics of an event log or of Kafka as streams of rows, and rows decoded to records.

In come a topic and the schema of its values. Out go a streaming DataFrame, in which a partition is
read in the order of its offsets by one task a batch, and decoders that turn its raw rows into
``partition, offset, raw, key, timestamp_ms, value, reason``, alike for both: what can't be
used has a reason and keeps its bytes. An event log that is not append-only is an
``EventLogError``; without Kafka's connector there is a ``ConnectorUnavailable``.
"""

from oriel.pipeline.sources.brokers import Brokers, Message, NoTopic, TopicLog
from oriel.pipeline.sources.connector import kafka_settings
from oriel.pipeline.sources.event_log_source import EventLog
from oriel.pipeline.sources.kafka import SMALL_BATCH_RECORDS, Kafka, Start
from oriel.pipeline.sources.kafka_options import client_options
from oriel.pipeline.sources.kafka_readers import ReaderName, reader_maker
from oriel.pipeline.sources.log import Decoder, Log
from oriel.pipeline.sources.spark_decoding import SparkDecoder, spark_refuse_ahead

__all__ = [
    "SMALL_BATCH_RECORDS",
    "Brokers",
    "Decoder",
    "EventLog",
    "Kafka",
    "Log",
    "Message",
    "NoTopic",
    "ReaderName",
    "SparkDecoder",
    "Start",
    "TopicLog",
    "client_options",
    "kafka_settings",
    "reader_maker",
    "spark_refuse_ahead",
]
