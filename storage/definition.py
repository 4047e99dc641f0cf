"""The definition of a store: window kind, aggregates and retention, as recorded in its table.

The table property ``oriel.store`` contains the definition as JSON. So every reader of the table
(tailer, service, a later run of the pipeline) knows its content.

Older formats can still be read:

- Format 1 only has sliding windows, whose rows are written at each update.

- Formats 1 and 2 do not have sources, steps and functions.

- Up to format 3, all keys are strings. A store with string keys is still written in format 3, so
  that its table and index do not change.

- Up to format 4, rows have no partial aggregates. A store without them is still written in format 3
  or 4.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

import orjson

from oriel.storage.errors import InvalidDefinition
from oriel.storage.key_types import TEXT, KeyType, key_type
from oriel.storage.layout import check_store_name

FORMAT = 5
_STRING_KEYS_FORMAT, _KEY_TYPES_FORMAT = 3, 4
STORE_PROPERTY = "oriel.store"


class StoreKind(StrEnum):
    """The kind of a store. Each value is the string in the table property.

        kind                 a row belongs to    last ms of a window    retention uses
        tumbling, hopping    key and window      window_end - 1         start
        sliding (KIP-450)    key and window      window_end             start
        session (KIP-94)     key and session     window_end             end
        none                 key                                        nothing expires
        versioned (KIP-889)  key and time        window_start           nothing expires

    See semantics.md#7 for retention. In a store of versions, a version that starts at ``t`` has the
    window ``[t, t + 1)``, and a tombstone the empty window ``[t, t)``. The pipeline removes the
    versions that are older than the history.
    """

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SLIDING = "sliding"
    SESSION = "session"
    NONE = "none"
    VERSIONED = "versioned"

    @classmethod
    def _missing_(cls, value: object) -> Self:
        """Reject any other string, for example ``StoreKind("hoping")``.

        Raises:
            InvalidDefinition: the kind is unknown.
        """
        message = f"window kind {value!r} is not known. Use one of {', '.join(cls)}"
        raise InvalidDefinition(message)

    @property
    def is_windowed(self) -> bool:
        """True if rows belong to windows. Otherwise, a key has one row, and nothing expires.

        In a store of versions, the row of a key is its newest version.
        """
        return self not in {StoreKind.NONE, StoreKind.VERSIONED}

    @property
    def has_window_columns(self) -> bool:
        """True if the rows of the table have a start and an end."""
        return self is not StoreKind.NONE

    @property
    def is_session(self) -> bool:
        """True if windows are sessions. Several sessions of a key can have one start."""
        return self is StoreKind.SESSION

    @property
    def has_inclusive_end(self) -> bool:
        """True if a record at ``window_end`` belongs to the window that ends there."""
        return self in {StoreKind.SLIDING, StoreKind.SESSION}

    @property
    def expires_by_start(self) -> bool:
        """True if retention uses the window start (semantics.md#7)."""
        return self.is_windowed and not self.is_session

    @property
    def expires_by_end(self) -> bool:
        """True if retention uses the window end: only for sessions (semantics.md#7)."""
        return self.is_session


#: When a window's row is written: at each change, or once when it is final.
WINDOW_UPDATE, WINDOW_CLOSE = "window-update", "window-close"

#: The columns of every store table in addition to its aggregates, with their names in the API. An
#: aggregate cannot have one of the names.
RESERVED_COLUMNS = frozenset({
    "key", "window_start", "window_end", "timestamp", "final", "deleted", "revision",
    "window_start_ms", "window_end_ms", "timestamp_ms",
})  # fmt: skip

#: The fields of a version in addition to those of its row. No column of such a store has the names.
VALIDITY_FIELDS = frozenset({"valid_from", "valid_to", "valid_from_ms", "valid_to_ms"})


@dataclass(frozen=True)
class WindowSpec:
    """The kind of a store and the parameters of its windows.

    Attributes:
        kind: The kind of the store.
        size_ms: The size of tumbling and hopping windows (end exclusive), the time difference of
            sliding windows (end inclusive, KIP-450), the inactivity gap of sessions (end inclusive,
            KIP-94), or 0 without windows.
        grace_ms: The grace period.
        advance_ms: The time between the starts of two hopping windows. None for other windows.
    """

    kind: StoreKind
    size_ms: int
    grace_ms: int
    advance_ms: int | None = None

    def __post_init__(self) -> None:
        """Accept the kind as a string, as in JSON, and check the parameters.

        Raises:
            InvalidDefinition: the kind is unknown, or does not match ``advance_ms``.
        """
        object.__setattr__(self, "kind", StoreKind(self.kind))
        if (self.advance_ms is None) == (self.kind is StoreKind.HOPPING):
            message = (
                f"advance_ms of {self.kind} windows is {self.advance_ms}. Hopping windows must "
                "have an advance, and other windows must not have one"
            )
            raise InvalidDefinition(message)

    def __str__(self) -> str:
        """Return the text for messages: ``hopping (10000 ms, advance 1000 ms, grace 0 ms)``."""
        advance = "" if self.advance_ms is None else f", advance {self.advance_ms} ms"
        sizes = f" ({self.size_ms} ms{advance}, grace {self.grace_ms} ms)"
        if self.kind is StoreKind.VERSIONED:
            return f"{self.kind} (history {self.grace_ms} ms)"
        return self.kind + (sizes if self.kind.is_windowed else "")

    @property
    def is_windowed(self) -> bool:
        """True if rows belong to windows."""
        return self.kind.is_windowed

    @property
    def has_window_columns(self) -> bool:
        """True if the rows of the table have a start and an end."""
        return self.kind.has_window_columns


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate column.

    Attributes:
        name: The name of the column.
        function: The aggregation, for display: ``avg(delay)``.
        type: Delta's name of the column type: ``long``, ``double``, ``string``, ``boolean``,
            ``array<double>`` ...
    """

    name: str
    function: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} = {self.function} {self.type}"


#: The column of a table with the partial aggregates of each window, which only merged reads use.
PARTIALS_COLUMN = "__partials"


@dataclass(frozen=True)
class PartialsSpec:
    """An aggregate whose partial aggregates the rows of a store keep.

    Attributes:
        name: The name of the aggregate column.
        aggregate: The name of the aggregate, for example ``avg``.
        column: The column of the records that it reads. None for ``count()``.
        type: Delta's name of the type of this column. None if the aggregate accepts any type.
        arguments: The further arguments of the aggregate, for example the probability.
        has_lineage: True if the partial aggregates have the lineage of records.
    """

    name: str
    aggregate: str
    column: str | None = None
    type: str | None = None
    arguments: tuple[float, ...] = ()
    has_lineage: bool = False

    def __str__(self) -> str:
        # In a cogroup, the column has a name of the pipeline, so it is left out.
        return f"{self.name} = {self.aggregate} of {self.type or 'records'}"


@dataclass(frozen=True)
class StoreDefinition:
    """The definition of a store, as its table records it.

    Attributes:
        name: The name of the store.
        topic: The topic, for display.
        grouped_by: The grouping, for display.
        window: The kind of the store and the parameters of its windows.
        aggregates: The aggregate columns.
        key_groups: The fixed number of groups into which the keys are divided.
        retention_ms: A window is visible while its start (for sessions, its end) is at least stream
            time - ``retention_ms`` + 1 (semantics.md#7). None: all windows stay.
        application: The id under which the pipeline commits.
        emit: When the row of a window is written.
        format: The format from which the definition was read.
        sources: The topics with their schemas. They are compared and displayed. None in an older
            format.
        steps: The row-wise steps and joins of each input, as for ``sources``.
        functions: The names of user-defined functions and their schemas, as for ``sources``.
        generation: How often the content or the state of the table was replaced as a whole. Each
            generation has its own state.
        key_type: The name of a ``KeyType``.
        partials: The aggregates whose partial aggregates are in the rows, in the order of their
            encoding. Empty for a store that is not mergeable.
    """

    name: str
    topic: str
    grouped_by: str
    window: WindowSpec
    aggregates: tuple[AggregateSpec, ...]
    key_groups: int
    retention_ms: int | None = None
    application: str = ""
    emit: str = WINDOW_UPDATE
    format: int = _STRING_KEYS_FORMAT
    sources: tuple[str, ...] | None = None
    steps: tuple[str, ...] | None = None
    functions: tuple[str, ...] | None = None
    generation: int = 0
    key_type: str = TEXT.name
    partials: tuple[PartialsSpec, ...] = ()

    def __post_init__(self) -> None:
        """Check the names and values.

        Raises:
            InvalidDefinition: a name is not valid for a store or a column, or another value is
                unknown.
        """
        check_store_name(self.name)
        if self.partials:
            object.__setattr__(self, "format", FORMAT)
        elif self.keys is not TEXT:
            object.__setattr__(self, "format", _KEY_TYPES_FORMAT)
        if self.emit not in {WINDOW_UPDATE, WINDOW_CLOSE}:
            message = (
                f"store {self.name!r}: emit is {self.emit!r}. It must be {WINDOW_UPDATE!r} or "
                f"{WINDOW_CLOSE!r}"
            )
            raise InvalidDefinition(message)
        names = [aggregate.name for aggregate in self.aggregates]
        reserved = sorted(RESERVED_COLUMNS.intersection(names))
        if reserved:
            message = (
                f"store {self.name!r}: aggregate names {reserved} are reserved. Choose other names"
            )
            raise InvalidDefinition(message)
        if len(set(names)) != len(names):
            message = f"store {self.name!r}: two aggregates have the same name: {names}"
            raise InvalidDefinition(message)

    @cached_property
    def keys(self) -> KeyType:
        """The type of the keys, which also defines their order."""
        return key_type(self.key_type)

    @property
    def state_name(self) -> str:
        """The name of this generation's state in a checkpoint. A store cannot have this name."""
        return f"{self.name}@{self.generation}" if self.generation else self.name

    def fields(self) -> dict[str, Any]:
        """Return the definition as JSON fields, in its format."""
        fields = asdict(self)
        if self.format < _KEY_TYPES_FORMAT:
            del fields["key_type"]
        if not self.partials:
            del fields["partials"]
        return fields

    def to_json(self) -> str:
        """Return the definition as the string of the table property, with sorted names."""
        return orjson.dumps(self.fields(), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "StoreDefinition":
        """Parse a definition from the string of the table property.

        Raises:
            InvalidDefinition: the string is not a definition, or it has a newer format.
        """
        try:
            fields: dict[str, Any] = orjson.loads(text)
            if fields["format"] > FORMAT:
                message = (
                    f"store {fields['name']!r} has format {fields['format']}, and this version "
                    f"reads formats up to {FORMAT}. Upgrade Oriel"
                )
                raise InvalidDefinition(message)
            fields["window"] = WindowSpec(**fields["window"])
            fields["aggregates"] = tuple(AggregateSpec(**a) for a in fields["aggregates"])
            fields["partials"] = tuple(
                PartialsSpec(**{**each, "arguments": tuple(each["arguments"])})
                for each in fields.get("partials", ())
            )
            for name in ("sources", "steps", "functions"):
                texts = fields.get(name)
                fields[name] = None if texts is None else tuple(texts)
            return cls(**fields)
        except (KeyError, TypeError, orjson.JSONDecodeError) as error:
            message = f"the store definition is not valid: {error}"
            raise InvalidDefinition(message) from error
