"""Serdes: the formats of the keys and values of a topic.

A serde is plain data. ``oriel.pipeline.decoding`` decodes the bytes.
"""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.other_words import OtherWords

#: The header of an Avro value: no header, the id of its schema in a schema registry (Confluent's
#: header), or the fingerprint of its schema (Avro's single-object encoding).
AvroHeader = Literal["none", "registry", "single-object"]
#: The header of a Protobuf value. Protobuf has no fingerprints.
ProtobufHeader = Literal["none", "registry"]


@dataclass(frozen=True)
class Serde:
    """A serde of Kafka, or JSON: the result of a method of ``Serdes`` such as ``long``.

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

    ``schema`` is JSON, or None if each value names its schema in a registry.

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

    ``descriptors`` is a serialized ``FileDescriptorSet``, and ``message`` is the full name of one
    of its messages.

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


class Serdes(OtherWords):
    """Create serdes, with the names of Kafka Streams.

    Example:
        >>> consumed = Consumed(key_serde=Serdes.long(), value_serde=Serdes.string())
        >>> lines = builder.stream("lines", schema="line STRING", consumed=consumed)
    """

    @staticmethod
    def json() -> Serde:
        """Decode JSON: an object with the columns of the schema, or any JSON as a key.

        A key is a string in one spelling: names are sorted, and blanks are removed. A JSON string
        loses its quotes.

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
            The serde, for keys and values. As a value, it is the one STRING column of the schema.
            It is the default for keys.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.string())
        """
        return Serde("string")

    @staticmethod
    def long() -> Serde:
        """Decode what Kafka's ``LongSerializer`` writes: 8 bytes, big-endian.

        Returns:
            The serde, for keys and values. As a value, it is the one BIGINT column of the
            schema.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.long())
        """
        return Serde("long")

    @staticmethod
    def integer() -> Serde:
        """Decode what Kafka's ``IntegerSerializer`` writes: 4 bytes, big-endian.

        Returns:
            The serde, for keys and values. As a value, it is the one INT column of the
            schema.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.integer())
        """
        return Serde("integer")

    @staticmethod
    def short() -> Serde:
        """Decode what Kafka's ``ShortSerializer`` writes: 2 bytes, big-endian.

        Returns:
            The serde, for keys and values. As a value, it is the one SMALLINT column of the
            schema.

        Example:
            >>> consumed = Consumed(key_serde=Serdes.short())
        """
        return Serde("short")

    @staticmethod
    def double() -> Serde:
        """Decode what Kafka's ``DoubleSerializer`` writes: 8 bytes, big-endian.

        Returns:
            The serde, for values. As a value, it is the one DOUBLE column of the
            schema.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.double())
        """
        return Serde("double")

    @staticmethod
    def float() -> Serde:
        """Decode what Kafka's ``FloatSerializer`` writes: 4 bytes, big-endian.

        Returns:
            The serde, for values. As a value, it is the one FLOAT column of the
            schema.

        Example:
            >>> consumed = Consumed(value_serde=Serdes.float())
        """
        return Serde("float")

    @staticmethod
    def avro(schema: str | Path | None = None, header: AvroHeader | None = None) -> AvroSerde:
        """Decode Avro records. Each column has the value of the field with its name.

        Args:
            schema: The schema that the values were written with: a JSON string, or the ``Path`` of
                a file. Without one, each value starts with the id of its schema in a schema
                registry (Confluent's header), which ``oriel run --schema-registry URL`` names.
            header: ``"registry"`` without a schema. With a schema, ``"none"`` or
                ``"single-object"``, for values that start with the fingerprint of the schema.
                Default: ``"registry"`` without a schema, ``"none"`` with one.

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
                Oriel sends no request to the registry, because fields have numbers.

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
            fault = f"Serdes.protobuf: header must be none or registry, not {header!r}"
            raise InvalidTopology(fault)
        if not isinstance(descriptors, bytes | Path):
            fault = (
                "Serdes.protobuf: descriptors must be bytes or the Path of a file, for example "
                f"Path('file.desc'), not {descriptors!r}"
            )
            raise InvalidTopology(fault)
        if isinstance(descriptors, Path):
            descriptors = _content("Serdes.protobuf", descriptors)
        return ProtobufSerde(descriptors, message, header)


def _check_json(step: str, text: Any) -> None:
    """Reject a schema that is not JSON, for example the name of a file.

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
