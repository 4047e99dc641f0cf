"""Serdes: the formats of the keys and values of a topic.

A serde is only a description. ``oriel.pipeline.decoding`` decodes the bytes.
"""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.kafka_hints import CallHints

#: The header of an Avro value: no header, Confluent's header with the id of the schema in a schema
#: registry, or the fingerprint of the schema (single-object encoding of Avro).
AvroHeader = Literal["none", "registry", "single-object"]
#: The header of a Protobuf value: no header, or Confluent's header.
ProtobufHeader = Literal["none", "registry"]


@dataclass(frozen=True)
class Serde:
    """A serde without a schema: the result of a method of ``Serdes`` such as ``long``.

    Attributes:
        name: The name of the method.

    Example:
        >>> Serdes.long()
        Serde(name='long')
    """

    name: Literal["json", "string", "long", "integer", "short", "double", "float"]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class AvroSerde:
    """A serde of Avro values: the result of ``Serdes.avro``.

    Attributes:
        schema: The schema as JSON, or None if each value has the id of its schema in a registry.
        header: The header of each value: ``"none"``, ``"registry"`` or ``"single-object"``.

    Example:
        >>> Serdes.avro()
        AvroSerde(schema=None, header='registry')
    """

    schema: str | None
    header: AvroHeader

    def __str__(self) -> str:
        """Return the serde in one line, with a digest of its schema."""
        return f"avro({_digest(self.schema)}, {self.header})" if self.schema else "avro(registry)"


@dataclass(frozen=True)
class ProtobufSerde:
    """A serde of Protobuf values: the result of ``Serdes.protobuf``.

    Attributes:
        descriptors: A serialized ``FileDescriptorSet``.
        message: The full name of a message of the set.
        header: The header of each value: ``"none"`` or ``"registry"``.

    Example:
        >>> from google.protobuf.descriptor_pb2 import FileDescriptorSet
        >>> Serdes.protobuf(FileDescriptorSet().SerializeToString(), "shop.Order")
        ProtobufSerde(message='shop.Order', header='none')
    """

    descriptors: bytes = field(repr=False)
    message: str
    header: ProtobufHeader

    def __str__(self) -> str:
        """Return the serde in one line, with a digest of its descriptors."""
        return f"protobuf({self.message}, {_digest(self.descriptors)}, {self.header})"


#: The serdes of values.
ValueSerde = Serde | AvroSerde | ProtobufSerde
#: The serdes of the keys of a store: one, or one for each component of composite keys.
StoreKeySerde = Serde | tuple[Serde, ...]
#: The serdes of keys. Each decodes a key to a string.
KEY_SERDES = ("string", "long", "integer", "short", "json")


class Serdes(CallHints):
    """Create serdes, with the names of ``Serdes`` of Kafka.

    Pass a serde to ``Consumed``. A record that cannot be decoded becomes a dead letter.

    Example:
        >>> consumed = Consumed(key_serde=Serdes.long(), value_serde=Serdes.string())
        >>> lines = builder.stream("lines", schema="line STRING", consumed=consumed)
    """

    @staticmethod
    def json() -> Serde:
        """Decode JSON: an object with the columns of the schema, or any JSON as a key.

        A key becomes a string with sorted names and without blanks, so equal JSON is one key. If a
        key is a JSON string, the quotes are removed.

        Returns:
            The serde, for keys and values. It is the default for values.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.json())
        """
        return Serde("json")

    @staticmethod
    def string() -> Serde:
        """Decode a UTF-8 string.

        Returns:
            The serde, for keys and values. It is the default for keys. For values, the schema has
            one STRING column.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.string())
        """
        return Serde("string")

    @staticmethod
    def long() -> Serde:
        """Decode the 8 big-endian bytes of Kafka's ``LongSerializer``.

        Returns:
            The serde, for keys and values. A key becomes a decimal string, for example ``-7``. For
            values, the schema has one BIGINT column.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.long())
        """
        return Serde("long")

    @staticmethod
    def integer() -> Serde:
        """Decode the 4 big-endian bytes of Kafka's ``IntegerSerializer``.

        Returns:
            The serde, for keys and values. A key becomes a decimal string, for example ``-7``. For
            values, the schema has one INT column.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.integer())
        """
        return Serde("integer")

    @staticmethod
    def short() -> Serde:
        """Decode the 2 big-endian bytes of Kafka's ``ShortSerializer``.

        Returns:
            The serde, for keys and values. A key becomes a decimal string, for example ``-7``. For
            values, the schema has one SMALLINT column.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.short())
        """
        return Serde("short")

    @staticmethod
    def double() -> Serde:
        """Decode the 8 big-endian bytes of Kafka's ``DoubleSerializer``.

        Returns:
            The serde, for values. The schema has one DOUBLE column.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.double())
        """
        return Serde("double")

    @staticmethod
    def float() -> Serde:
        """Decode the 4 big-endian bytes of Kafka's ``FloatSerializer``.

        Returns:
            The serde, for values. The schema has one FLOAT column.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.float())
        """
        return Serde("float")

    @staticmethod
    def avro(schema: str | Path | None = None, header: AvroHeader | None = None) -> AvroSerde:
        """Decode Avro records. Each column has the value of the field with its name.

        Args:
            schema: The schema that the values were written with: a JSON string, or the ``Path`` of
                a file. Default: each value starts with Confluent's header, which has the id of its
                schema in a schema registry. Pass the address of the registry to
                ``oriel run --schema-registry URL``.
            header: Without a schema, ``"registry"``. With a schema, ``"none"``, or
                ``"single-object"`` if values start with the fingerprint of the schema. Default:
                ``"registry"`` without a schema, ``"none"`` with a schema.

        Returns:
            The serde, for values.

        Raises:
            InvalidTopology: The file cannot be read, the schema is not JSON, or ``header`` does not
                fit ``schema``.

        Example:
            >>> schema = '{"type": "record", "name": "Trip", "fields": []}'
            >>> Serdes.avro(schema).header
            'none'
        """
        kind = header or ("registry" if schema is None else "none")
        if kind not in {"none", "registry", "single-object"}:
            message = f"Serdes.avro: header must be none, registry or single-object, not {header!r}"
            raise InvalidTopology(message)
        if (schema is None) is not (kind == "registry"):
            message = (
                f"Serdes.avro: header {kind!r} does not fit the schema. With 'registry', "
                "each value has the id of its schema, so omit schema. With any other header, "
                "schema is required"
            )
            raise InvalidTopology(message)
        text = _content("Serdes.avro", schema).decode() if isinstance(schema, Path) else schema
        if text is not None:
            _check_json("Serdes.avro", text)
        return AvroSerde(text, kind)

    @staticmethod
    def protobuf(
        descriptors: bytes | Path, message: str, header: ProtobufHeader = "none"
    ) -> ProtobufSerde:
        """Decode Protobuf messages. Each column has the value of the field with its name.

        Args:
            descriptors: The output of ``protoc --include_imports --descriptor_set_out=FILE``, as
                bytes or as the ``Path`` of the file.
            message: The full name of the message, for example ``shop.Order``.
            header: ``"registry"`` if values start with Confluent's header, otherwise ``"none"``.
                Oriel sends no request to the registry, because fields have numbers. Default:
                ``"none"``.

        Returns:
            The serde, for values.

        Raises:
            InvalidTopology: The file cannot be read, or ``descriptors`` or ``header`` is invalid.

        Example:
            >>> from google.protobuf.descriptor_pb2 import FileDescriptorSet
            >>> descriptors = FileDescriptorSet().SerializeToString()
            >>> serde = Serdes.protobuf(descriptors, "shop.Order", header="registry")
        """
        if header not in {"none", "registry"}:
            text = f"Serdes.protobuf: header must be none or registry, not {header!r}"
            raise InvalidTopology(text)
        if not isinstance(descriptors, bytes | Path):
            text = (
                "Serdes.protobuf: descriptors must be bytes or the Path of a file, for example "
                f"Path('file.desc'), not {descriptors!r}"
            )
            raise InvalidTopology(text)
        if isinstance(descriptors, Path):
            descriptors = _content("Serdes.protobuf", descriptors)
        return ProtobufSerde(descriptors, message, header)


def _check_json(step: str, text: Any) -> None:
    """Reject an Avro schema that is not JSON, for example the name of a file.

    Raises:
        InvalidTopology: The schema is not JSON.
    """
    try:
        json.loads(text)
    except (TypeError, ValueError) as error:
        message = (
            f"{step}: schema must be a JSON string or the Path of a file, for example "
            f"Path('file.avsc'), not {text!r}: {type(error).__name__}: {error}"
        )
        raise InvalidTopology(message) from error


def _content(step: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{step}: {path} cannot be read: {error.strerror}"
        raise InvalidTopology(message) from error


def _digest(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return sha256(data).hexdigest()[:16]
