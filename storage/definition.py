"""What a store is: its window kind, aggregates and retention, as recorded in its table.

The definition travels in the table property ``oriel.store`` as JSON, so that whoever
opens the table (tailer, API, a later run of the pipeline) knows what it holds.

Format 1 knew sliding windows only, written at each update; its texts are still read.
"""

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from oriel.storage.errors import InvalidDefinition
from oriel.storage.layout import check_store_name

FORMAT = 2
STORE_PROPERTY = "oriel.store"

#: Every kind of store; those of kind ``none`` have no windows, one row a key.
TUMBLING, HOPPING, SLIDING, SESSION, NONE = "tumbling", "hopping", "sliding", "session", "none"
KINDS = (TUMBLING, HOPPING, SLIDING, SESSION, NONE)

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
    """The window kind and its parameters, all in ms.

    ``size_ms`` is the size of ``tumbling`` and ``hopping`` windows (end exclusive), the time
    difference of ``sliding`` ones (end inclusive, KIP-450), the inactivity gap of ``session``
    windows (end inclusive, KIP-94), 0 for ``none``. ``advance_ms`` is for hopping windows
    only: how far each one starts after the one before.
    """

    kind: str
    size_ms: int
    grace_ms: int
    advance_ms: int | None = None

    def __post_init__(self) -> None:
        """Refuse a kind that there is not, and an advance where there is none."""
        if self.kind not in KINDS:
            message = f"window kind {self.kind!r} is unknown; the kinds are {', '.join(KINDS)}"
            raise InvalidDefinition(message)
        if (self.advance_ms is None) == (self.kind == HOPPING):
            message = (
                f"{self.kind} windows with advance_ms {self.advance_ms}: hopping windows have an "
                "advance, no other kind does"
            )
            raise InvalidDefinition(message)

    def __str__(self) -> str:
        """For messages: ``hopping (10000 ms, advance 1000 ms, grace 0 ms)``."""
        advance = "" if self.advance_ms is None else f", advance {self.advance_ms} ms"
        sizes = f" ({self.size_ms} ms{advance}, grace {self.grace_ms} ms)"
        return self.kind + (sizes if self.is_windowed else "")

    @property
    def is_windowed(self) -> bool:
        """Whether rows are of windows at all."""
        return self.kind != NONE


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
        """For messages: ``mean = avg(delay) double``."""
        return f"{self.name} = {self.function} {self.type}"


@dataclass(frozen=True)
class StoreDefinition:
    """A store as its table records it."""

    name: str
    topic: str
    grouped_by: str
    window: WindowSpec
    aggregates: tuple[AggregateSpec, ...]
    key_groups: int
    retention_ms: int | None = None
    application: str = ""
    emit: str = WINDOW_UPDATE
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse names that would collide with the columns every table has."""
        check_store_name(self.name)
        if self.emit not in {WINDOW_UPDATE, WINDOW_CLOSE}:
            message = (
                f"store {self.name!r}: emit is {self.emit!r}, it must be {WINDOW_UPDATE!r} or "
                f"{WINDOW_CLOSE!r}"
            )
            raise InvalidDefinition(message)
        names = [aggregate.name for aggregate in self.aggregates]
        taken = sorted(RESERVED_COLUMNS.intersection(names))
        if taken:
            message = f"store {self.name!r}: aggregate names {taken} are reserved; choose others"
            raise InvalidDefinition(message)
        if len(set(names)) != len(names):
            message = f"store {self.name!r}: two aggregates have the same name: {names}"
            raise InvalidDefinition(message)

    def to_json(self) -> str:
        """The definition as the table property's text."""
        return orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS).decode()

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
                    f"store {fields['name']!r} was written in format {fields['format']}, this "
                    f"version reads up to {FORMAT}: upgrade Oriel"
                )
                raise InvalidDefinition(message)
            fields["window"] = WindowSpec(**fields["window"])
            fields["aggregates"] = tuple(AggregateSpec(**a) for a in fields["aggregates"])
            return cls(**fields)
        except (KeyError, TypeError, orjson.JSONDecodeError) as error:
            message = f"not a store definition: {error}"
            raise InvalidDefinition(message) from error
