"""How a topic's records are read: serdes, record time and headers, in Kafka's word ``Consumed``."""

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
from oriel.pipeline.language.other_words import OtherWords

_UNITS = ("s", "ms", "us", "iso")

#: Serdes of a single value -> the type of the schema's one column.
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
    """A record's time is a column of its value.

    ``unit`` is ``"s"``, ``"ms"`` or ``"us"`` since 1970 for a column of whole numbers, ``"iso"``
    for text like ``2026-03-01T12:00:00.25Z``, which has to say its zone.
    """

    column: str
    unit: Literal["s", "ms", "us", "iso"] = "ms"

    def __str__(self) -> str:
        """The column and its unit."""
        return f"{self.column} in {self.unit}"


#: Whose clock says a record's time: its message's; a column's; or this pipeline's, when it plans
#: the batch.
Timestamp = Literal["message", "ingestion"] | FieldTimestamp


class Consumed(OtherWords):
    """How a topic is read: its serdes, what a record's time is, and headers as columns.

    Plain values, compared by content. ``headers`` names a nullable STRING column for each header
    that is wanted; of a header that is repeated the last one counts.
    """

    _TAKES: ClassVar[Mapping[str, str]] = {
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
        """Say what differs from Kafka's default of this language: text keys and JSON values.

        Raises:
            InvalidTopology: an argument is none of those that there are.
        """
        if not isinstance(key_serde, Serde) or key_serde.name not in KEY_SERDES:
            message = f"Consumed: key_serde is one of {_listed(KEY_SERDES)}, not {key_serde}"
            if isinstance(key_serde, str) and key_serde in KEY_SERDES:
                message = f"Consumed: write key_serde=Serdes.{key_serde}(), not {key_serde!r}"
            raise InvalidTopology(message)
        if not isinstance(value_serde, Serde | AvroSerde | ProtobufSerde):
            message = f"Consumed: value_serde must be one of Serdes, not {value_serde!r}"
            raise InvalidTopology(message)
        is_field = isinstance(timestamp, FieldTimestamp) and timestamp.unit in _UNITS
        if not is_field and timestamp not in {"message", "ingestion"}:
            message = (
                "Consumed: timestamp is 'message', 'ingestion' or FieldTimestamp(column, unit) "
                f"with a unit of {_listed(_UNITS)}, not {timestamp!r}"
            )
            raise InvalidTopology(message)
        is_dict = isinstance(headers, Mapping) and all(
            isinstance(name, str) for pair in headers.items() for name in pair
        )
        if headers is not None and not is_dict:
            message = (
                "Consumed: headers is a dict of headers to the columns that they become, like "
                f'{{"trace": "trace_id"}}, not {headers!r}'
            )
            raise InvalidTopology(message)
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.timestamp: Timestamp = timestamp
        #: Header -> column, in the order of the columns.
        self.headers = dict(headers or {})

    def __eq__(self, other: object) -> bool:
        """Whether both say the same."""
        return isinstance(other, Consumed) and self._content == other._content

    def __hash__(self) -> int:
        """By content."""
        return hash(self._content)

    def __str__(self) -> str:
        """What is not the default, in one line; empty if everything is.

        A store's definition keeps this text, to tell that a topic is read in another way.
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
        """The line of ``str``."""
        return f"Consumed({self})"

    @property
    def is_json(self) -> bool:
        """Whether keys are text and values JSON, the only form that an event log has."""
        return self.key_serde == Serde("string") and self.value_serde == Serde("json")

    @property
    def _content(self) -> tuple[object, ...]:
        return self.key_serde, self.value_serde, self.timestamp, tuple(self.headers.items())


#: Text keys, JSON values, the message's time, no headers.
JSON_RECORDS = Consumed()


def checked_consumed(step: str, schema: str, consumed: Consumed) -> Consumed:
    """Return ``consumed``, which ``step`` was given beside ``schema``.

    Raises:
        InvalidTopology: the two don't fit together; the message begins with ``step``.
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
                f"{step}: a value of the serde {serde} is one column, {name}, not {schema!r}. "
                f'Use the schema "value {name}"'
            )
            raise InvalidTopology(message)
    if isinstance(consumed.timestamp, FieldTimestamp):
        _check_field(step, columns, consumed.timestamp)
    names = [name.lower() for name in (*columns.names, *consumed.headers.values())]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"{step}: two columns have the name {twice[0]!r}: name the header's another"
        raise InvalidTopology(message)
    return consumed


def _check_field(step: str, columns: pa.Schema, timestamp: FieldTimestamp) -> None:
    if timestamp.column not in columns.names:
        message = f"{step}: the time's column {timestamp.column!r} is not one of {columns.names}"
        raise InvalidTopology(message)
    column_type = columns.field(timestamp.column).type
    is_text = timestamp.unit == "iso"
    fits = pa.types.is_string(column_type) if is_text else pa.types.is_integer(column_type)
    if not fits:
        wanted = "STRING" if is_text else "BIGINT"
        message = (
            f"{step}: a time in {timestamp.unit!r} is a {wanted}, and the column "
            f"{timestamp.column!r} has another type"
        )
        raise InvalidTopology(message)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names)
