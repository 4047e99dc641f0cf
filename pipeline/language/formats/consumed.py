"""``Consumed``: the serdes, the time and the headers of a topic's records."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.formats.schemas import arrow_schema
from oriel.pipeline.language.formats.serdes import (
    KEY_SERDES,
    AvroSerde,
    ProtobufSerde,
    Serde,
    ValueSerde,
)
from oriel.pipeline.language.kafka_hints import CallHints

_UNITS = ("s", "ms", "us", "iso")

#: Serdes of a single value -> the type of the only column of the schema, in DDL and in Arrow.
SINGLE_VALUES = {
    "string": ("STRING", pa.string()),
    "long": ("BIGINT", pa.int64()),
    "integer": ("INT", pa.int32()),
    "short": ("SMALLINT", pa.int16()),
    "double": ("DOUBLE", pa.float64()),
    "float": ("FLOAT", pa.float32()),
}


@dataclass(frozen=True)
class FieldTimestamp:
    """Use a column of the value as the time of a record.

    It replaces a ``TimestampExtractor`` of Kafka Streams. A record with a null value has the time
    of its message. If the time is missing or invalid, the record becomes a dead letter.

    Args:
        column: The name of a column of the schema.
        unit: ``"s"``, ``"ms"`` or ``"us"`` since 1970 for a column of integers, or ``"iso"`` for a
            STRING column. An ISO time must have a zone, for example ``2026-03-01T12:00:00.25Z``.

    Example:
        >>> by_start = Consumed(timestamp=FieldTimestamp("started", "ms"))
        >>> trips = builder.stream("trips", "started BIGINT, distance DOUBLE", by_start)
    """

    column: str
    unit: Literal["s", "ms", "us", "iso"] = "ms"

    def __str__(self) -> str:
        """Return the column and its unit, for ``describe`` and messages."""
        return f"{self.column} in {self.unit}"


#: The time of a record: the time of its message, the wall-clock time at which the pipeline plans
#: the batch, or a column.
Timestamp = Literal["message", "ingestion"] | FieldTimestamp


class Consumed(CallHints):
    """Describe how a topic is read: its serdes, the time of a record, and headers as columns.

    It corresponds to ``Consumed`` of Kafka Streams. All arguments are keyword arguments. An invalid
    argument raises ``InvalidTopology``. Two objects with the same content are equal.

    Args:
        key_serde: The serde of keys: ``Serdes.string()``, ``long()``, ``integer()``, ``short()`` or
            ``json()``. Default: ``Serdes.string()``.
        value_serde: The serde of values: any serde of ``Serdes``. Default: ``Serdes.json()``.
        timestamp: The time of a record: ``"message"`` (the time of the Kafka message),
            ``"ingestion"`` (the wall-clock time of the batch) or a ``FieldTimestamp``. Default:
            ``"message"``.
        headers: A dict from the names of headers to the names of their columns. A column is a
            STRING. It is null if the header is missing. If a header is repeated, its last value
            counts. Default: no columns.

    Example:
        >>> consumed = Consumed(key_serde=Serdes.long(), headers={"x-trace": "trace_id"})
        >>> trips = builder.stream("trips", "distance DOUBLE", consumed)
        >>> longest = trips.group_by_key().aggregate(longest=max("distance"), trace=max("trace_id"))
    """

    _ARGUMENT_HINTS: ClassVar[Mapping[str, str]] = {
        "__init__": "write Consumed(key_serde=Serdes.long(), value_serde=Serdes.json())"
    }

    def __init__(
        self,
        *,
        key_serde: Serde = Serde("string"),  # noqa: B008 - frozen
        value_serde: ValueSerde = Serde("json"),  # noqa: B008 - frozen
        timestamp: Timestamp = "message",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Check the arguments.

        Raises:
            InvalidTopology: An argument has an undocumented value.
        """
        if not isinstance(key_serde, Serde) or key_serde.name not in KEY_SERDES:
            names = _comma_separated(KEY_SERDES)
            message = f"Consumed: key_serde must be one of {names}, not {key_serde}"
            if isinstance(key_serde, str) and key_serde in KEY_SERDES:
                message = f"Consumed: write key_serde=Serdes.{key_serde}(), not {key_serde!r}"
            raise InvalidTopology(message)
        if not isinstance(value_serde, Serde | AvroSerde | ProtobufSerde):
            message = (
                "Consumed: value_serde must be a serde of Serdes, for example Serdes.json(), not "
                f"{value_serde!r}"
            )
            raise InvalidTopology(message)
        is_field = isinstance(timestamp, FieldTimestamp) and timestamp.unit in _UNITS
        if not is_field and timestamp not in {"message", "ingestion"}:
            message = (
                "Consumed: timestamp must be 'message', 'ingestion' or FieldTimestamp(column, "
                f"unit) with a unit of {_comma_separated(_UNITS)}, not {timestamp!r}"
            )
            raise InvalidTopology(message)
        is_dict = isinstance(headers, Mapping) and all(
            isinstance(name, str) for pair in headers.items() for name in pair
        )
        if headers is not None and not is_dict:
            message = (
                "Consumed: headers must be a dict from names of headers to names of columns, for "
                f'example {{"trace": "trace_id"}}, not {headers!r}'
            )
            raise InvalidTopology(message)
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.timestamp: Timestamp = timestamp
        #: Name of a header -> name of its column, in the order of the columns.
        self.headers = dict(headers or {})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Consumed) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    def __str__(self) -> str:
        """Return the arguments that differ from the defaults, in one line.

        The definition of a store contains this text, so the next start detects another format.
        """
        return ", ".join(
            f"{name} {text}"
            for name, text, default in (
                ("key", str(self.key_serde), "string"),
                ("value", str(self.value_serde), "json"),
                ("time", str(self.timestamp), "message"),
                ("headers", ", ".join(f"{h!r} as {c}" for h, c in self.headers.items()), ""),
            )
            if text != default
        )

    def __repr__(self) -> str:
        """Return the arguments that differ from the defaults."""
        return f"Consumed({self})"

    @property
    def is_json(self) -> bool:
        """Whether keys are strings and values JSON, the only formats of an event log."""
        return self.key_serde == Serde("string") and self.value_serde == Serde("json")

    @property
    def _content(self) -> tuple[object, ...]:
        return self.key_serde, self.value_serde, self.timestamp, tuple(self.headers.items())


#: String keys, JSON values, the time of the message, no headers.
JSON_RECORDS = Consumed()


def checked_consumed(step: str, schema: str, consumed: Consumed) -> Consumed:
    """Return ``consumed`` if it fits the schema of the same step.

    Raises:
        InvalidTopology: ``consumed`` is not a ``Consumed``, its serde of single values needs
            another schema, the time column is missing or has another type, or two columns have the
            same name. The message starts with ``step``.
    """
    if not isinstance(consumed, Consumed):
        message = f"{step}: consumed must be Consumed(...), not {consumed!r}"
        raise InvalidTopology(message)
    if consumed == JSON_RECORDS:
        return consumed
    columns = arrow_schema(schema, step)
    serde = consumed.value_serde
    if isinstance(serde, Serde) and serde.name in SINGLE_VALUES:
        name, column_type = SINGLE_VALUES[serde.name]
        if columns.types != [column_type]:
            message = (
                f"{step}: the serde {serde} needs a schema with one {name} column, not {schema!r}. "
                f'Use the schema "value {name}"'
            )
            raise InvalidTopology(message)
    if isinstance(serde, AvroSerde | ProtobufSerde):
        _check_types(step, pa.struct(list(columns)), serde)
    if isinstance(consumed.timestamp, FieldTimestamp):
        _check_field(step, columns, consumed.timestamp)
    names = [name.lower() for name in (*columns.names, *consumed.headers.values())]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"{step}: two columns have the name {twice[0]!r}. Rename the column of the header"
        raise InvalidTopology(message)
    return consumed


def _check_types(step: str, column_type: pa.DataType, serde: AvroSerde | ProtobufSerde) -> None:
    types = pa.types
    if types.is_date(column_type) or types.is_decimal(column_type) or types.is_binary(column_type):
        message = (
            f"{step}: only JSON values can have DATE, DECIMAL and BINARY columns, not values of "
            f"the serde {serde}. Use an integer column for a date"
        )
        raise InvalidTopology(message)
    for index in range(column_type.num_fields):
        _check_types(step, column_type.field(index).type, serde)


def _check_field(step: str, columns: pa.Schema, timestamp: FieldTimestamp) -> None:
    if timestamp.column not in columns.names:
        message = f"{step}: the time column {timestamp.column!r} is not one of {columns.names}"
        raise InvalidTopology(message)
    column_type = columns.field(timestamp.column).type
    is_text = timestamp.unit == "iso"
    fits = pa.types.is_string(column_type) if is_text else pa.types.is_integer(column_type)
    if not fits:
        wanted = "STRING" if is_text else "BIGINT"
        message = (
            f"{step}: the time column {timestamp.column!r} must be {wanted} for the unit "
            f"{timestamp.unit!r}"
        )
        raise InvalidTopology(message)


def _comma_separated(names: tuple[str, ...]) -> str:
    return ", ".join(names)
