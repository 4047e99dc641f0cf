"""Formats of records: schemas of values, serdes of keys and values, and the time of a record.

A user writes formats as arguments, for example ``"page STRING"`` and ``Serdes.long()``. This
package checks them. ``oriel.pipeline.decoding`` decodes records with the checked definitions.
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
