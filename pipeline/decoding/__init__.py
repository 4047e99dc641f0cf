"""Decode the raw rows of a source to records without Spark.

The input is an Arrow batch with the columns of ``EventLog.raw_schema`` or ``Kafka.raw_schema``.
The output is a table with the schema ``stage_columns.decoded_schema``: each record with its key,
time and value, or with the reason why it is invalid. No module here imports Spark, so Python tasks,
the driver process and the test driver share this package.
"""

from oriel.pipeline.decoding.blocks import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.decoding.formats import SchemaRegistry
from oriel.pipeline.decoding.times import reject_ahead

__all__ = ["BlockDecoder", "SchemaRegistry", "event_log_decoder", "kafka_decoder", "reject_ahead"]
