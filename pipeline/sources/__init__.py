"""Sources: topics of an event log or of Kafka as streams of rows, and rows decoded to records.

The input is a topic and the schema of its values. The output is a streaming DataFrame, and decoders
that convert its raw rows to records with the columns of ``stage_columns.decoded_schema``. One task
per batch reads a partition in the order of its offsets. An invalid record has a reason and keeps
its bytes. The package raises ``EventLogError`` if an event log is not append-only. It raises
``ConnectorUnavailable`` if Spark's Kafka connector cannot be downloaded.
"""

from oriel.pipeline.sources.brokers import BrokersUnavailable, MissingTopic, TopicLog
from oriel.pipeline.sources.client_settings import UntranslatableOption, producer_settings
from oriel.pipeline.sources.connector import kafka_settings
from oriel.pipeline.sources.event_log_source import EventLog
from oriel.pipeline.sources.jvm_brokers import JvmBrokers, Message
from oriel.pipeline.sources.kafka import SMALL_BATCH_RECORDS, Kafka
from oriel.pipeline.sources.kafka_options import client_options
from oriel.pipeline.sources.kafka_readers import choose_reader
from oriel.pipeline.sources.log import Decoder, Log
from oriel.pipeline.sources.spark_decoding import SparkDecoder, spark_reject_ahead

__all__ = [
    "SMALL_BATCH_RECORDS",
    "BrokersUnavailable",
    "Decoder",
    "EventLog",
    "JvmBrokers",
    "Kafka",
    "Log",
    "Message",
    "MissingTopic",
    "SparkDecoder",
    "TopicLog",
    "UntranslatableOption",
    "choose_reader",
    "client_options",
    "kafka_settings",
    "producer_settings",
    "spark_reject_ahead",
]
