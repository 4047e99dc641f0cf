"""Choose the reader for the values of a serde.

The readers of Avro and Protobuf import libraries that only they need. So they are imported only if
a topic has values in this format.
"""

import pyarrow as pa

from oriel.pipeline.decoding.formats.registry import SchemaRegistry
from oriel.pipeline.decoding.values import SingleValueReader, ValueReader
from oriel.pipeline.language import AvroSerde, ProtobufSerde, ValueSerde


def value_reader(
    serde: ValueSerde, row_type: pa.StructType, registry: SchemaRegistry | None
) -> ValueReader | None:
    """Return the reader of the values of ``serde`` as rows of ``row_type``.

    Returns:
        None for JSON, which the block decoder reads itself.

    Raises:
        InvalidTopology: The columns do not fit the schema of the serde, or it cannot be read.
    """
    if isinstance(serde, AvroSerde):
        from oriel.pipeline.decoding.formats.avro import AvroReader  # noqa: PLC0415 - see above

        return AvroReader(serde, row_type, registry)
    if isinstance(serde, ProtobufSerde):
        from oriel.pipeline.decoding.formats.protobuf import ProtobufReader  # noqa: PLC0415

        return ProtobufReader(serde, row_type)
    return None if serde.name == "json" else SingleValueReader(serde.name, row_type)
