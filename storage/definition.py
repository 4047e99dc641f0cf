"""What a store is: its window kind, aggregates and retention, as recorded in its table.

The definition travels in the table property ``oriel.store`` as JSON, so that whoever
opens the table (tailer, API, a later run of the pipeline) knows what it holds.
"""

from dataclasses import asdict, dataclass
from typing import Any

import orjson

from storage.errors import InvalidDefinition
from storage.layout import check_store_name

FORMAT = 1
STORE_PROPERTY = "oriel.store"

#: Columns every store table has beside its aggregates; no aggregate may take these names,
#: nor the names that the same columns have in the API.
RESERVED_COLUMNS = frozenset({
    "key", "window_start", "window_end", "timestamp", "final", "deleted", "revision",
    "window_start_ms", "window_end_ms", "timestamp_ms",
})  # fmt: skip


@dataclass(frozen=True)
class WindowSpec:
    """The window kind and its parameters, all in ms.

    ``kind`` is ``sliding`` (``size_ms`` = time difference, both ends inclusive, KIP-450).
    """

    kind: str
    size_ms: int
    grace_ms: int


@dataclass(frozen=True)
class AggregateSpec:
    """One aggregate column: its name, the call that makes it and its Delta type.

    ``function`` is for people (``avg(delay)``); ``type`` is Delta's name of the column
    type (``long``, ``double``, ``string``, ``boolean``, ``array<double>`` ...).
    """

    name: str
    function: str
    type: str


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
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse names that would collide with the columns every table has."""
        check_store_name(self.name)
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
