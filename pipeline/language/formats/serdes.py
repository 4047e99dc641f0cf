"""Serdes: in which bytes a topic's keys and values are, in Kafka's word for it.

A serde is plain data. What reads the bytes is the room ``oriel.pipeline.decoding``.
"""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.other_words import OtherWords

#: How an Avro value begins: with its data, with the id that a schema registry gave to its schema
#: (Confluent's header), or with its schema's fingerprint (Avro's single-object encoding).
AvroHeader = Literal["none", "registry", "single-object"]
#: The same for Protobuf, which has no fingerprint of its own.
ProtobufHeader = Literal["none", "registry"]


@dataclass(frozen=True)
class Serde:
    """One of Kafka's own serdes, or JSON, by its name."""

    name: Literal["json", "string", "long", "integer", "short", "double", "float"]

    def __str__(self) -> str:
        """The serde in one word."""
        return self.name


@dataclass(frozen=True)
class AvroSerde:
    """Avro, written with ``schema`` (JSON text), or with the one that the registry names."""

    schema: str | None
    header: AvroHeader

    def __str__(self) -> str:
        """The serde in a line; of the schema a digest, as it may be long."""
        return f"avro({_digest(self.schema)}, {self.header})" if self.schema else "avro(registry)"


@dataclass(frozen=True)
class ProtobufSerde:
    """Protobuf: ``message`` of ``descriptors``, a serialized ``FileDescriptorSet``."""

    descriptors: bytes = field(repr=False)
    message: str
    header: ProtobufHeader

    def __str__(self) -> str:
        """The serde in a line; of the descriptors a digest."""
        return f"protobuf({self.message}, {_digest(self.descriptors)}, {self.header})"


#: What values can be in, and keys.
ValueSerde = Serde | AvroSerde | ProtobufSerde
#: What says the keys of a store: one serde, or one for each component of composite keys.
StoreKeySerde = Serde | tuple[Serde, ...]
#: The serdes of keys: each gives a text.
KEY_SERDES = ("string", "long", "integer", "short", "json")


class Serdes(OtherWords):
    """Makes serdes, by Kafka's names for them."""

    @staticmethod
    def json() -> Serde:
        """A JSON object with the columns of the schema; of a key any JSON, in one spelling."""
        return Serde("json")

    @staticmethod
    def string() -> Serde:
        """UTF-8 text, the one column of the schema."""
        return Serde("string")

    @staticmethod
    def long() -> Serde:
        """Kafka's ``LongSerializer``: 8 bytes, big-endian; a BIGINT."""
        return Serde("long")

    @staticmethod
    def integer() -> Serde:
        """Kafka's ``IntegerSerializer``: 4 bytes, big-endian; an INT."""
        return Serde("integer")

    @staticmethod
    def short() -> Serde:
        """Kafka's ``ShortSerializer``: 2 bytes, big-endian; a SMALLINT."""
        return Serde("short")

    @staticmethod
    def double() -> Serde:
        """Kafka's ``DoubleSerializer``: 8 bytes, big-endian; a DOUBLE."""
        return Serde("double")

    @staticmethod
    def float() -> Serde:
        """Kafka's ``FloatSerializer``: 4 bytes, big-endian; a FLOAT."""
        return Serde("float")

    @staticmethod
    def avro(schema: str | Path | None = None, header: AvroHeader | None = None) -> AvroSerde:
        """Avro records whose fields are found by the names of the schema's columns.

        ``schema`` is what they are written with: JSON text, or the ``Path`` of a file. Without one,
        each value names its schema by Confluent's header, and the schema registry is asked.
        ``header`` is ``"none"`` where a schema is given, if it isn't told.

        Raises:
            InvalidTopology: the file can't be read, or the arguments don't fit together.
        """
        kind = header or ("registry" if schema is None else "none")
        if kind not in {"none", "registry", "single-object"}:
            message = f"Serdes.avro: header must be none, registry or single-object, not {header!r}"
            raise InvalidTopology(message)
        if (schema is None) is not (kind == "registry"):
            message = (
                f"Serdes.avro: header {kind!r} does not fit: with the header of a registry values "
                "name their schema, with any other it has to be given"
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
        """Protobuf messages whose fields are found by the names of the schema's columns.

        ``descriptors`` is what ``protoc --include_imports --descriptor_set_out=FILE`` writes, as
        bytes or as the file's ``Path``; ``message`` is the full name, like ``shop.Order``.
        With ``header="registry"`` values begin with Confluent's header. Fields are known by
        their numbers, so the registry isn't asked.

        Raises:
            InvalidTopology: the file can't be read, or the header is none of the two.
        """
        if header not in {"none", "registry"}:
            fault = f"Serdes.protobuf: header must be none or registry, not {header!r}"
            raise InvalidTopology(fault)
        if not isinstance(descriptors, bytes | Path):
            fault = (
                "Serdes.protobuf: descriptors are bytes, or the Path of a file, as "
                f"Path('file.desc'), not {descriptors!r}"
            )
            raise InvalidTopology(fault)
        if isinstance(descriptors, Path):
            descriptors = _content("Serdes.protobuf", descriptors)
        return ProtobufSerde(descriptors, message, header)


def _check_json(step: str, text: Any) -> None:
    """Refuse a schema that is no JSON text, such as a file's name.

    Raises:
        InvalidTopology: it is none.
    """
    try:
        json.loads(text)
    except (TypeError, ValueError) as error:
        message = (
            f"{step}: a schema is JSON text, or the Path of a file, as Path('file.avsc'), not "
            f"{text!r}: {type(error).__name__}: {error}"
        )
        raise InvalidTopology(message) from error


def _content(step: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{step}: {path} can't be read: {error.strerror}"
        raise InvalidTopology(message) from error


def _digest(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return sha256(data).hexdigest()[:16]
