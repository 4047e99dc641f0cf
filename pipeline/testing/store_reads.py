"""Reads that the read-only stores of the test driver share (semantics.md#8-1)."""

import logging
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

from oriel.pipeline.testing.kafka_hints import DriverHints
from oriel.pipeline.testing.rows import StoreRows, WindowedValue
from oriel.pipeline.windows import IllegalArgument, IllegalArgumentType
from oriel.storage import KeyTypeMismatch

logger = logging.getLogger(__name__)

_TIME_MIN, _TIME_MAX = -(2**63), 2**63 - 1


class DriverStore(DriverHints):
    """The base of the three stores: their rows and reads of a range of keys."""

    def __init__(self, rows: StoreRows) -> None:
        """Read the rows that ``rows`` has at the time of each call."""
        self._rows = rows

    def _keys(self, key_from: str | None, key_to: str | None) -> list[str]:
        """Return the keys between the bounds. None: no bound."""
        for name, bound in (("key_from", key_from), ("key_to", key_to)):
            if bound is not None and not isinstance(bound, str):
                message = f"{name} must be a string or None (no bound), not {bound!r}"
                raise IllegalArgumentType(message)
        ordered = self._ordered
        least = b"" if key_from is None else ordered(key_from)
        greatest = None if key_to is None else ordered(key_to)
        if greatest is not None and least > greatest:
            logger.warning(
                "the range of keys from %r to %r is empty: strings are compared by their UTF-8 "
                "bytes, numbers by value, and the first key is after the last key",
                key_from,
                key_to,
            )
            return []
        return [
            key
            for key in self._rows.sorted_keys()
            if least <= ordered(key) and (greatest is None or ordered(key) <= greatest)
        ]

    def _checked_key(self, key: object) -> str:
        """Return ``key`` if the store can have it.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        text = checked_string(key)
        self._ordered(text)
        return text

    def _ordered(self, key: str) -> bytes:
        """Return the bytes that define the order of keys."""
        try:
            return self._rows.key_type.escaped(key)
        except KeyTypeMismatch as error:
            raise IllegalArgument(str(error)) from error


class WindowedStore(DriverStore):
    """The base of window and session stores: reads by key and by a condition on the window."""

    @abstractmethod
    def _visible(self, key: str) -> list[WindowedValue]:
        """Return the windows of ``key`` that have not expired, in the order of the store."""

    def _read(
        self, keys: list[str], matches: Callable[[WindowedValue], bool]
    ) -> list[WindowedValue]:
        """Return copies of the windows that match, ordered by key."""
        return [_copied(row) for key in keys for row in self._visible(key) if matches(row)]

    def all(self) -> list[WindowedValue]:
        """Read the windows of all keys.

        Returns:
            The windows, ordered by key and then as in ``fetch``.
        """
        return self._read(self._keys(None, None), any_window)

    def backward_all(self) -> list[WindowedValue]:
        """Read the windows of all keys in the reverse order of ``all``.

        Returns:
            The windows, from the last key to the first.
        """
        return self.all()[::-1]


def any_window(_row: WindowedValue) -> bool:
    """Match each window."""
    return True


def starts_in(from_ms: object, to_ms: object) -> Callable[[WindowedValue], bool]:
    """Match windows that start between two times.

    Raises:
        IllegalArgument: a time is not an integer or does not fit 64 bits.
    """
    first_ms, last_ms = checked_time("from_ms", from_ms), checked_time("to_ms", to_ms)
    return lambda row: first_ms <= row.window_start_ms <= last_ms


def overlaps(earliest_end_ms: object, latest_start_ms: object) -> Callable[[WindowedValue], bool]:
    """Match sessions that overlap a span of time.

    Raises:
        IllegalArgument: a time is not an integer or does not fit 64 bits.
    """
    end_ms = checked_time("earliest_end_ms", earliest_end_ms)
    start_ms = checked_time("latest_start_ms", latest_start_ms)
    return lambda row: row.window_end_ms >= end_ms and row.window_start_ms <= start_ms


def _copied(row: WindowedValue) -> WindowedValue:
    return replace(row, value=deepcopy(row.value))


def checked_string(key: object, what: str = "key") -> str:
    """Return ``key`` if it is a string.

    Raises:
        IllegalArgumentType: it is not a string.
    """
    if not isinstance(key, str):
        message = (
            f"the {what} must be a string, not {key!r}. Only the bounds of a range of keys can "
            "be None"
        )
        raise IllegalArgumentType(message)
    return key


def checked_time(what: str, time_ms: object) -> int:
    """Return ``time_ms`` if it is a number of milliseconds.

    Raises:
        IllegalArgument: it is not an integer or does not fit 64 bits.
    """
    if isinstance(time_ms, bool) or not isinstance(time_ms, int):
        message = f"{what} must be an integer number of ms, not {time_ms!r}"
        raise IllegalArgument(message)
    if not _TIME_MIN <= time_ms <= _TIME_MAX:
        message = f"{what} must be a signed 64-bit number of ms, not {time_ms}"
        raise IllegalArgument(message)
    return time_ms
