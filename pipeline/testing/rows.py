"""The content of one store of the test driver: the newest row of each window, by key."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from oriel.pipeline.windows import NOTHING_OBSERVED_MS, STATUS_COLUMNS, WINDOW_COLUMNS
from oriel.storage import TEXT, KeyType

#: A changed row of the engine: ``FIXED_COLUMNS`` and the aggregates by name.
Row = Mapping[str, Any]

FIXED_COLUMNS = frozenset((*WINDOW_COLUMNS, *STATUS_COLUMNS))


@dataclass(frozen=True, slots=True)
class WindowedValue:
    """One window of a window store, or one session.

    Attributes:
        key: The key as a string.
        window_start_ms: The start of the window, inclusive.
        window_end_ms: The end of the window, as in the HTTP API.
        value: The aggregates by name.
        timestamp_ms: The greatest time of the records in the window.
        final: True if no record can change the window any more.

    Example:
        >>> window = WindowedValue("EWR", 0, 60_000, {"count": 2}, timestamp_ms=7, final=False)
        >>> window.value["count"]
        2
    """

    key: str
    window_start_ms: int
    window_end_ms: int
    value: dict[str, Any]
    timestamp_ms: int
    final: bool


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One entry of a key-value store.

    Attributes:
        key: The key as a string.
        value: The aggregates, or the columns of a table, by name.
        timestamp_ms: The time of the entry.

    Example:
        >>> entry = KeyValue("EWR", {"count": 2}, timestamp_ms=7)
        >>> entry.value["count"]
        2
    """

    key: str
    value: dict[str, Any]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class VersionedValue:
    """One version of an entry of a store with versions.

    Attributes:
        key: The key as a string.
        value: The columns of the table by name.
        timestamp_ms: The time of the version.
        valid_from_ms: The time from which the version is valid, inclusive. It is its own time.
        valid_to_ms: The time of the next version or deletion, exclusive. None for the newest
            version.

    Example:
        >>> version = VersionedValue("UA", {"fee": 1.5}, 10, valid_from_ms=10, valid_to_ms=None)
        >>> version.value["fee"]
        1.5
    """

    key: str
    value: dict[str, Any]
    timestamp_ms: int
    valid_from_ms: int
    valid_to_ms: int | None


class StoreRows:
    """The current rows of a store. The test driver changes them, and read-only stores read them.

    With ``retention_ms``, a window is visible if ``start >= observed - retention + 1``.
    ``observed`` is the greatest start of all windows of the store. Sessions use their ends instead
    of their starts (semantics.md#7).
    """

    def __init__(self, retention_ms: int | None = None, key_type: KeyType = TEXT) -> None:
        """Create an empty store. Without ``retention_ms``, all windows stay visible."""
        self._retention_ms = retention_ms
        self.key_type = key_type
        self._rows: dict[str, dict[tuple[int, int], WindowedValue]] = {}
        #: The greatest start of all windows that were put, or the greatest end of all sessions.
        self.observed_ms = NOTHING_OBSERVED_MS

    def apply(self, rows: Iterable[Row]) -> list[Row]:
        """Apply changed rows in their order. Return the rows that change something.

        A row with ``deleted`` removes its window. The engine also emits such a row for a window
        that it may never have written, so the store can lack this window.
        """
        changing = []
        for row in rows:
            key, bounds = row["key"], (row["window_start_ms"], row["window_end_ms"])
            if not row["deleted"]:
                value = {name: item for name, item in row.items() if name not in FIXED_COLUMNS}
                self._rows.setdefault(key, {})[bounds] = WindowedValue(
                    key=key,
                    window_start_ms=row["window_start_ms"],
                    window_end_ms=row["window_end_ms"],
                    # The engine can change the lists of the row later.
                    value=deepcopy(value),
                    timestamp_ms=row["timestamp_ms"],
                    final=row["final"],
                )
            else:
                windows = self._rows.get(key, {})
                if windows.pop(bounds, None) is None:
                    continue
                if not windows:
                    del self._rows[key]
            changing.append(row)
        return changing

    @property
    def earliest_ms(self) -> int:
        """The least window start, or the least session end, that retention keeps visible."""
        if self._retention_ms is None:
            return 0
        return max(0, self.observed_ms - self._retention_ms + 1)

    def sorted_keys(self) -> list[str]:
        """Return the keys in the order of their type."""
        return sorted(self._rows, key=self.key_type.escaped)

    def of_key(self, key: str) -> list[WindowedValue]:
        """Return the rows of ``key`` without an order and with expired rows. Do not change them."""
        return list(self._rows.get(key, {}).values())
