"""Decoding without Spark: Arrow batches of a source's raw rows become records.

In comes a batch with the columns of ``EventLog.raw_schema`` or ``Kafka.raw_schema``. Out goes a
table of ``hops.decoded_schema``: each record with key, time and value, or with the reason why it is
bad. Nothing here imports Spark, so Python tasks, the driver process and the test driver share it.
"""

from oriel.pipeline.decoding.blocks import BlockDecoder, event_log_decoder, kafka_decoder
from oriel.pipeline.decoding.formats import SchemaRegistry
from oriel.pipeline.decoding.times import refuse_ahead

__all__ = ["BlockDecoder", "SchemaRegistry", "event_log_decoder", "kafka_decoder", "refuse_ahead"]
