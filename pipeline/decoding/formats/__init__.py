"""Readers of values that are not JSON, such as Avro and Protobuf, and the schema registry.

``value_reader`` returns the reader for the serde of a topic.
"""

from oriel.pipeline.decoding.formats.choice import value_reader
from oriel.pipeline.decoding.formats.registry import SchemaRegistry

__all__ = ["SchemaRegistry", "value_reader"]
