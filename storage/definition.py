"""What a store is: its window kind, aggregates and retention, as recorded in its table.

The definition travels in the table property ``oriel.store`` as JSON, so that whoever
opens the table (tailer, API, a later run of the pipeline) knows what it holds.

Format 1 knew sliding windows only, written at each update; formats 1 and 2 say neither sources,
steps nor functions; up to format 3 all keys are texts. Their texts are still read. A store of text
keys is written in format 3 as ever, so that its table and index stay as they are.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

import orjson

from oriel.storage.errors import InvalidDefinition
from oriel.storage.key_types import TEXT, KeyType, key_type
from oriel.storage.layout import check_store_name

FORMAT = 4
_FORMAT_OF_TEXT_KEYS = 3
STORE_PROPERTY = "oriel.store"


class StoreKind(StrEnum):
    """What the rows of a store are of; each member is the text that the table property has.

    | kind | a row is of | last ms of a window | retention counts by |
    |---|---|---|---|
    | tumbling, hopping | key and window | ``window_end`` - 1 | start |
    | sliding (KIP-450) | key and window | ``window_end`` | start |
    | session (KIP-94) | key and session | ``window_end`` | end |
    | none | key | | nothing expires |
    """

    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SLIDING = "sliding"
    SESSION = "session"
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> Self:
        """Refuse any other text: ``StoreKind("hoping")`` is an ``InvalidDefinition``."""
        message = f"window kind {value!r} is not known. Use one of {', '.join(cls)}"
        raise InvalidDefinition(message)

    @property
    def is_windowed(self) -> bool:
        """Whether rows are of windows; else a key has one row, and nothing expires."""
        return self is not StoreKind.NONE

    @property
    def is_session(self) -> bool:
        """Whether windows are sessions: a start may have several ends, and each is a window."""
        return self is StoreKind.SESSION

    @property
    def has_inclusive_end(self) -> bool:
        """Whether a record at ``window_end`` belongs to the window that ends there."""
        return self in {StoreKind.SLIDING, StoreKind.SESSION}

    @property
    def expires_by_start(self) -> bool:
        """Whether retention counts by window start (semantics.md#7)."""
        return self.is_windowed and not self.is_session

    @property
    def expires_by_end(self) -> bool:
        """Whether retention counts by window end: sessions only (semantics.md#7)."""
        return self.is_session


#: When a window's row is written: at each change, or once when it is final.
WINDOW_UPDATE, WINDOW_CLOSE = "window-update", "window-close"

#: Columns every store table has beside its aggregates; no aggregate may take these names,
#: nor the names that the same columns have in the API.
RESERVED_COLUMNS = frozenset({
    "key", "window_start", "window_end", "timestamp", "final", "deleted", "revision",
    "window_start_ms", "window_end_ms", "timestamp_ms",
})  # fmt: skip


@dataclass(frozen=True)
class WindowSpec:
    """The store's kind and the parameters of its windows, in ms.

    ``size_ms`` is the size of ``tumbling`` and ``hopping`` windows (end exclusive), the time
    difference of ``sliding`` ones (end inclusive, KIP-450), the inactivity gap of ``session``
    windows (end inclusive, KIP-94), 0 for ``none``. ``advance_ms`` is for hopping windows
    only: how far each one starts after the one before.
    """

    kind: StoreKind
    size_ms: int
    grace_ms: int
    advance_ms: int | None = None

    def __post_init__(self) -> None:
        """Take the kind as its text too, as JSON has it, and refuse what has no meaning.

        Raises:
            InvalidDefinition: the kind is unknown, or does not go with ``advance_ms``.
        """
        object.__setattr__(self, "kind", StoreKind(self.kind))
        if (self.advance_ms is None) == (self.kind is StoreKind.HOPPING):
            message = (
                f"advance_ms of {self.kind} windows is {self.advance_ms}. Hopping windows must "
                "have an advance, and other windows must not have one"
            )
            raise InvalidDefinition(message)

    def __str__(self) -> str:
        """For messages: ``hopping (10000 ms, advance 1000 ms, grace 0 ms)``."""
        advance = "" if self.advance_ms is None else f", advance {self.advance_ms} ms"
        sizes = f" ({self.size_ms} ms{advance}, grace {self.grace_ms} ms)"
        return self.kind + (sizes if self.kind.is_windowed else "")

    @property
    def is_windowed(self) -> bool:
        """Whether rows are of windows at all, as the kind says."""
        return self.kind.is_windowed


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate column: its name, the call that makes it and its Delta type.

    ``function`` is for people (``avg(delay)``); ``type`` is Delta's name of the column
    type (``long``, ``double``, ``string``, ``boolean``, ``array<double>`` ...).
    """

    name: str
    function: str
    type: str

    def __str__(self) -> str:
        return f"{self.name} = {self.function} {self.type}"


@dataclass(frozen=True)
class StoreDefinition:
    """A store as its table records it.

    ``topic`` and ``grouped_by`` are texts for people. ``key_groups`` is the fixed number of
    shares into which the keys are divided. ``retention_ms`` None keeps all windows; else a
    window is visible while its start (a session while its end) is at least the store clock
    - ``retention_ms`` + 1 (semantics.md#7). ``application`` is the id under which the pipeline
    commits. ``format`` is that of the text it was read from.

    ``sources`` are the topics with their schemas, ``steps`` each input's row-wise steps and joins,
    ``functions`` the names of the user's functions and their schema: texts that are compared and
    shown. None is of an older format, which does not say them. ``generation`` counts how often
    the table's content or its state were replaced as a whole; each has a state of its own.
    ``key_type`` is the name of a ``KeyType``.
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
    format: int = _FORMAT_OF_TEXT_KEYS
    sources: tuple[str, ...] | None = None
    steps: tuple[str, ...] | None = None
    functions: tuple[str, ...] | None = None
    generation: int = 0
    key_type: str = TEXT.name

    def __post_init__(self) -> None:
        """Refuse names that can't be a store's or a column's.

        Raises:
            InvalidDefinition: the message names the store and what is wrong with it.
        """
        check_store_name(self.name)
        if self.keys is not TEXT:
            object.__setattr__(self, "format", FORMAT)
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
        """What the keys are, and in which order they come."""
        return key_type(self.key_type)

    @property
    def state_name(self) -> str:
        """What the state of this generation is called in a checkpoint; no store has this name."""
        return f"{self.name}@{self.generation}" if self.generation else self.name

    def fields(self) -> dict[str, Any]:
        """The definition as JSON has it, in its format."""
        fields = asdict(self)
        if self.format < FORMAT:
            del fields["key_type"]
        return fields

    def to_json(self) -> str:
        """The definition as the table property's text, with sorted names."""
        return orjson.dumps(self.fields(), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "StoreDefinition":
        """Read a definition from the table property's text.

        Raises:
            InvalidDefinition: the text is no definition, or of a newer format.
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
            for name in ("sources", "steps", "functions"):
                texts = fields.get(name)
                fields[name] = None if texts is None else tuple(texts)
            return cls(**fields)
        except (KeyError, TypeError, orjson.JSONDecodeError) as error:
            message = f"the store definition is not valid: {error}"
            raise InvalidDefinition(message) from error
