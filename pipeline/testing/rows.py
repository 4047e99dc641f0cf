"""The content of one store of the test driver: the newest row of each window, by key."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from oriel.pipeline.windows import NOTHING_OBSERVED_MS, STATUS_COLUMNS, WINDOW_COLUMNS
from oriel.storage import TEXT, KeyType

#: A changed row as the engine gives it: ``FIXED_COLUMNS`` and the aggregates by name.
Row = Mapping[str, Any]

FIXED_COLUMNS = frozenset((*WINDOW_COLUMNS, *STATUS_COLUMNS))


@dataclass(frozen=True, slots=True)
class WindowedValue:
    """One window of a window store or one session: ``value`` has the aggregates by name.

    ``timestamp_ms`` is the greatest time of its records, ``final`` whether it can't change.
    """

    key: str
    window_start_ms: int
    window_end_ms: int
    value: dict[str, Any]
    timestamp_ms: int
    final: bool


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One entry of a key-value store: ``value`` has the aggregates by name."""

    key: str
    value: dict[str, Any]
    timestamp_ms: int


class StoreRows:
    """What a store holds now; the read-only stores read it, the test driver changes it.

    With ``retention_ms`` old windows go out of sight as newer ones come: visible are those
    with ``start >= observed - retention + 1``, where observed is the greatest start of any
    window that was put; for sessions the same with their ends (semantics.md#7).
    """

    def __init__(self, retention_ms: int | None = None, key_type: KeyType = TEXT) -> None:
        """Hold nothing; without ``retention_ms`` every window stays visible."""
        self._retention_ms = retention_ms
        self.key_type = key_type
        self._rows: dict[str, dict[tuple[int, int], WindowedValue]] = {}
        #: The store's clock: the greatest start of any window that was put, of a session the end.
        self.observed_ms = NOTHING_OBSERVED_MS

    def apply(self, rows: Iterable[Row]) -> list[Row]:
        """Take changed rows in their order; return them without those that change nothing.

        A deleted one removes its window. An engine that does not know whether a window was ever
        written deletes it all the same.
        """
        changing = []
        for row in rows:
            start_ms, end_ms = row["window_start_ms"], row["window_end_ms"]
            if not row["deleted"]:
                self._rows.setdefault(row["key"], {})[start_ms, end_ms] = _stored(row)
            elif not self._removed(row["key"], start_ms, end_ms):
                continue
            changing.append(row)
        return changing

    @property
    def earliest_ms(self) -> int:
        """The least window start, of sessions the least end, that retention leaves visible."""
        if self._retention_ms is None:
            return 0
        return max(0, self.observed_ms - self._retention_ms + 1)

    def sorted_keys(self) -> list[str]:
        """The keys in the order of their type."""
        return sorted(self._rows, key=self.key_type.escaped)

    def of_key(self, key: str) -> list[WindowedValue]:
        """The rows of ``key`` in no order, expired ones too; to be copied for users."""
        return list(self._rows.get(key, {}).values())

    def _removed(self, key: str, start_ms: int, end_ms: int) -> bool:
        """Remove a window; whether it was there."""
        windows = self._rows.get(key, {})
        was_there = windows.pop((start_ms, end_ms), None) is not None
        if not windows:
            self._rows.pop(key, None)
        return was_there


def _stored(row: Row) -> WindowedValue:
    value = {name: item for name, item in row.items() if name not in FIXED_COLUMNS}
    return WindowedValue(
        key=row["key"],
        window_start_ms=row["window_start_ms"],
        window_end_ms=row["window_end_ms"],
        # Whoever made the row may go on to change its lists.
        value=deepcopy(value),
        timestamp_ms=row["timestamp_ms"],
        final=row["final"],
    )
