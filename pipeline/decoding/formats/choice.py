"""Which reader reads the values of a serde; JSON has none, as the block decoder reads it itself.

The readers of Avro and Protobuf bring libraries that only they need, so they are imported here,
when a topic is in one of them.
"""

import pyarrow as pa

from oriel.pipeline.decoding.formats.registry import SchemaRegistry
from oriel.pipeline.decoding.values import SingleValueReader, ValueReader
from oriel.pipeline.language import AvroSerde, ProtobufSerde, ValueSerde


def value_reader(
    serde: ValueSerde, row_type: pa.StructType, registry: SchemaRegistry | None
) -> ValueReader | None:
    """The reader of values of ``serde`` as rows of ``row_type``; None for JSON.

    Raises:
        InvalidTopology: the columns don't fit the serde's schema, or it can't be read.
    """
    if isinstance(serde, AvroSerde):
        from oriel.pipeline.decoding.formats.avro import AvroReader  # noqa: PLC0415 - see above

        return AvroReader(serde, row_type, registry)
    if isinstance(serde, ProtobufSerde):
        from oriel.pipeline.decoding.formats.protobuf import ProtobufReader  # noqa: PLC0415

        return ProtobufReader(serde, row_type)
    return None if serde.name == "json" else SingleValueReader(serde.name, row_type)
