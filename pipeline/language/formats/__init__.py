"""In what bytes records are: schemas of values, serdes of keys and values, what a record's time is.

In come a user's texts and classes, such as ``"page STRING"`` and ``Serdes.long()``; out go checked
definitions for the topology. What decodes by them is ``oriel.pipeline.decoding``.
"""

from oriel.pipeline.language.formats.consumed import (
    JSON_RECORDS,
    SINGLE_VALUES,
    Consumed,
    FieldTimestamp,
    Timestamp,
    checked_consumed,
)
from oriel.pipeline.language.formats.schemas import arrow_schema
from oriel.pipeline.language.formats.serdes import (
    AvroSerde,
    ProtobufSerde,
    Serde,
    Serdes,
    StoreKeySerde,
    ValueSerde,
)

__all__ = [
    "JSON_RECORDS",
    "SINGLE_VALUES",
    "AvroSerde",
    "Consumed",
    "FieldTimestamp",
    "ProtobufSerde",
    "Serde",
    "Serdes",
    "StoreKeySerde",
    "Timestamp",
    "ValueSerde",
    "arrow_schema",
    "checked_consumed",
]
