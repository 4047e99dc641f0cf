"""Values that are not JSON: Avro and Protobuf, with the registry that has their schemas.

In comes the serde of a topic; out goes the reader of its values (``value_reader``).
"""

from oriel.pipeline.decoding.formats.choice import value_reader
from oriel.pipeline.decoding.formats.registry import SchemaRegistry

__all__ = ["SchemaRegistry", "value_reader"]
