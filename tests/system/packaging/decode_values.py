"""Read an Avro and a Protobuf value with the packages of the current environment."""

import io
import json
import sys

import fastavro
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from oriel.pipeline.language import Consumed, Serdes
from tests.pipeline.decoding.messages import values_of

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def main() -> None:
    """Print both values as JSON."""
    avro = io.BytesIO()
    fastavro.schemaless_writer(avro, SCHEMA, {"id": 7})
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Order").field.add(
        name="id", number=1, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL
    )
    descriptors = FileDescriptorSet(file=[file]).SerializeToString()
    pool = DescriptorPool()
    pool.Add(file)
    message = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(id=8)
    values = [
        *values_of(
            [avro.getvalue()], "id BIGINT", Consumed(value_serde=Serdes.avro(json.dumps(SCHEMA)))
        ),
        *values_of(
            [message.SerializeToString()], "id BIGINT",
            Consumed(value_serde=Serdes.protobuf(descriptors, "shop.Order")),
        ),
    ]  # fmt: skip
    sys.stdout.write(json.dumps(values))


if __name__ == "__main__":
    main()
