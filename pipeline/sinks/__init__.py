"""Output topics of Kafka: messages of rows and records, and a producer that writes them once.

``row_messages`` and ``record_messages`` build messages from a prepared batch, column by column.
``TopicProducer`` writes the messages of a batch in transactions, with a marker of the batch.
"""

from oriel.pipeline.sinks.identity import batch_identity
from oriel.pipeline.sinks.messages import Messages, record_messages, row_messages
from oriel.pipeline.sinks.topic_producer import Marker, TopicProducer

__all__ = [
    "Marker",
    "Messages",
    "TopicProducer",
    "batch_identity",
    "record_messages",
    "row_messages",
]
