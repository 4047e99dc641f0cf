"""Kafka Streams' read-only stores, in memory, for users' tests (semantics.md#8-1).

Rules of all three stores:

- Bounds are inclusive at both ends. Times are integer ms; one below 0 is read as 0.
- An unknown key, a range of times that ends before it begins and a range of keys that does
  so (this one with a logged warning) give an empty answer or None, never an error.
- ``None`` as the key of a method that reads one key raises IllegalArgumentType, as Kafka's
  null-pointer error; as a bound of a range of keys it means "no bound".
- A time that is no integer or does not fit 64 bits raises IllegalArgument.
- Keys come in the order of their type, texts by UTF-8 bytes, a key's windows by start, its
  sessions by end and then start. A backward method gives exactly the reverse. (Kafka promises an
  order within one key only.)
- A key is its text, ``"7"`` of a 64-bit integer; what is no key of the store's type raises
  IllegalArgument, and so does a prefix of which the keys don't lie together
  (docs/reference/keys.md).
- A window that retention has expired is in no answer.
- Each answer is a list of copies, taken at the time of the call: later records don't change it.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import overload

from oriel.pipeline.testing.other_words import DriverWords
from oriel.pipeline.testing.rows import KeyValue, StoreRows, WindowedValue
from oriel.pipeline.windows import IllegalArgument, IllegalArgumentType
from oriel.storage import UnfitKey

logger = logging.getLogger(__name__)

#: Stands for a time that was not given: None is a wrong time, not a missing one.
_NOT_GIVEN = object()

_TIME_MIN, _TIME_MAX = -(2**63), 2**63 - 1


class _ReadOnlyStore(DriverWords):
    """What the three stores share: the rows, and the reading of a range of keys."""

    def __init__(self, rows: StoreRows) -> None:
        """Read ``rows`` as they are at each call."""
        self._rows = rows

    def _keys(self, key_from: str | None, key_to: str | None) -> list[str]:
        """The keys between the bounds, None for no bound."""
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
        """Return ``key``, which names one key of the store.

        Raises:
            IllegalArgumentType: it is None or no string.
            IllegalArgument: it is no key of the store's type.
        """
        text = _checked_text(key)
        self._ordered(text)
        return text

    def _ordered(self, key: str) -> bytes:
        """The bytes that keys are in order of."""
        try:
            return self._rows.key_type.escaped(key)
        except UnfitKey as error:
            raise IllegalArgument(str(error)) from error


class _WindowedStore(_ReadOnlyStore):
    """What window and session stores share: reading by key and by a condition on the window."""

    @abstractmethod
    def _visible(self, key: str) -> list[WindowedValue]:
        """The windows of ``key`` that have not expired, in the order of the store."""

    def _read(
        self, keys: list[str], matches: Callable[[WindowedValue], bool]
    ) -> list[WindowedValue]:
        """Copies of the windows that match, key by key."""
        return [_copied(row) for key in keys for row in self._visible(key) if matches(row)]

    def all(self) -> list[WindowedValue]:
        """Read everything that is visible, in order of keys."""
        return self._read(self._keys(None, None), _any)

    def backward_all(self) -> list[WindowedValue]:
        """Read the reverse of ``all``."""
        return self.all()[::-1]


class ReadOnlyWindowStore(_WindowedStore):
    """The tumbling, hopping or sliding windows of a store; times are window starts."""

    @overload
    def fetch(self, key: str, start_ms: int, /) -> WindowedValue | None: ...

    @overload
    def fetch(self, key: str, from_ms: int, to_ms: int) -> list[WindowedValue]: ...

    def fetch(
        self, key: str, from_ms: int, to_ms: object = _NOT_GIVEN
    ) -> WindowedValue | list[WindowedValue] | None:
        """Read the window that starts at one time, or those that start between two times.

        Returns:
            With one time the window or None; with two a list, oldest first.

        Raises:
            IllegalArgumentType: the key is None or no string.
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        if to_ms is _NOT_GIVEN:
            start_ms = _checked_time("start_ms", from_ms)
            windows = self._read(
                [self._checked_key(key)], lambda row: row.window_start_ms == start_ms
            )
            return windows[0] if windows else None
        return self._read([self._checked_key(key)], _starts_in(from_ms, to_ms))

    def backward_fetch(self, key: str, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the reverse of ``fetch`` with two times: newest first (KIP-617)."""
        return self.fetch(key, from_ms, to_ms)[::-1]

    def fetch_range(
        self, key_from: str | None, key_to: str | None, from_ms: int, to_ms: int
    ) -> list[WindowedValue]:
        """Read the windows of a range of keys; None as a key leaves that end open (KIP-763).

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        return self._read(self._keys(key_from, key_to), _starts_in(from_ms, to_ms))

    def backward_fetch_range(
        self, key_from: str | None, key_to: str | None, from_ms: int, to_ms: int
    ) -> list[WindowedValue]:
        """Read the reverse of ``fetch_range``."""
        return self.fetch_range(key_from, key_to, from_ms, to_ms)[::-1]

    def fetch_all(self, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the windows of all keys that start from ``from_ms`` to ``to_ms``.

        Raises:
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        return self.fetch_range(None, None, from_ms, to_ms)

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the reverse of ``fetch_all``."""
        return self.fetch_all(from_ms, to_ms)[::-1]

    def _visible(self, key: str) -> list[WindowedValue]:
        earliest_ms = self._rows.earliest_ms
        visible = [row for row in self._rows.of_key(key) if row.window_start_ms >= earliest_ms]
        return sorted(visible, key=lambda row: (row.window_start_ms, row.window_end_ms))


class ReadOnlySessionStore(_WindowedStore):
    """The sessions of a store, by end and then start, oldest first."""

    def fetch(self, key: str) -> list[WindowedValue]:
        """Read all sessions of ``key``, oldest first.

        Raises:
            IllegalArgumentType: the key is None or no string.
        """
        return self._read([self._checked_key(key)], _any)

    def backward_fetch(self, key: str) -> list[WindowedValue]:
        """Read all sessions of ``key``, newest first."""
        return self.fetch(key)[::-1]

    def fetch_range(self, key_from: str | None, key_to: str | None) -> list[WindowedValue]:
        """Read all sessions of a range of keys; None leaves that end open.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return self._read(self._keys(key_from, key_to), _any)

    def backward_fetch_range(self, key_from: str | None, key_to: str | None) -> list[WindowedValue]:
        """Read the reverse of ``fetch_range``."""
        return self.fetch_range(key_from, key_to)[::-1]

    def find_sessions(
        self, key: str, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the sessions with ``end >= earliest_end_ms`` and ``start <= latest_start_ms``.

        The earliest end may be greater than the latest start: that asks for sessions which
        cover the time between. A latest start below 0 finds nothing (Kafka's in-memory
        store; its RocksDB store refuses it).

        Raises:
            IllegalArgumentType: the key is None or no string.
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        return self._read([self._checked_key(key)], _lies_in(earliest_end_ms, latest_start_ms))

    def backward_find_sessions(
        self, key: str, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the reverse of ``find_sessions``."""
        return self.find_sessions(key, earliest_end_ms, latest_start_ms)[::-1]

    def find_sessions_range(
        self,
        key_from: str | None,
        key_to: str | None,
        earliest_end_ms: int,
        latest_start_ms: int,
    ) -> list[WindowedValue]:
        """Do what ``find_sessions`` does for a range of keys; None leaves that end open.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        return self._read(self._keys(key_from, key_to), _lies_in(earliest_end_ms, latest_start_ms))

    def backward_find_sessions_range(
        self,
        key_from: str | None,
        key_to: str | None,
        earliest_end_ms: int,
        latest_start_ms: int,
    ) -> list[WindowedValue]:
        """Read the reverse of ``find_sessions_range``."""
        return self.find_sessions_range(key_from, key_to, earliest_end_ms, latest_start_ms)[::-1]

    def fetch_session(self, key: str, start_ms: int, end_ms: int) -> WindowedValue | None:
        """Read the session with exactly this start and end, None when there is none.

        Raises:
            IllegalArgumentType: the key is None or no string.
            IllegalArgument: a time is no integer or does not fit 64 bits.
        """
        bounds = _checked_time("start_ms", start_ms), _checked_time("end_ms", end_ms)
        sessions = self._read(
            [self._checked_key(key)], lambda row: (row.window_start_ms, row.window_end_ms) == bounds
        )
        return sessions[0] if sessions else None

    def _visible(self, key: str) -> list[WindowedValue]:
        earliest_ms = self._rows.earliest_ms
        visible = [row for row in self._rows.of_key(key) if row.window_end_ms >= earliest_ms]
        return sorted(visible, key=lambda row: (row.window_end_ms, row.window_start_ms))


class ReadOnlyKeyValueStore(_ReadOnlyStore):
    """The newest value of each key, of a grouping without windows."""

    def get(self, key: str) -> KeyValue | None:
        """Read the entry of ``key``, None when there is none.

        Raises:
            IllegalArgumentType: the key is None or no string.
        """
        return next(self._entries([self._checked_key(key)]), None)

    def range(self, key_from: str | None, key_to: str | None) -> list[KeyValue]:
        """Read the entries of a range of keys; None leaves that end open.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return list(self._entries(self._keys(key_from, key_to)))

    def reverse_range(self, key_from: str | None, key_to: str | None) -> list[KeyValue]:
        """Read the reverse of ``range``."""
        return self.range(key_from, key_to)[::-1]

    def all(self) -> list[KeyValue]:
        """Read every entry, in order of keys."""
        return self.range(None, None)

    def reverse_all(self) -> list[KeyValue]:
        """Read the reverse of ``all``."""
        return self.all()[::-1]

    def prefix_scan(self, prefix: str) -> list[KeyValue]:
        """Read the entries whose keys begin with ``prefix``, in order of keys.

        Raises:
            IllegalArgumentType: the prefix is None or no string.
        """
        text = _checked_text(prefix, "prefix")
        try:
            self._rows.key_type.escaped_prefix(text)
        except UnfitKey as error:
            raise IllegalArgument(str(error)) from error
        return list(self._entries(k for k in self._keys(None, None) if k.startswith(text)))

    def approximate_num_entries(self) -> int:
        """Count the entries; here the number is exact (Kafka's RocksDB store estimates it)."""
        return len(self._keys(None, None))

    def _entries(self, keys: Iterable[str]) -> Iterator[KeyValue]:
        """Copies of the entries of ``keys``; the window around them is not shown."""
        for key in keys:
            for row in self._rows.of_key(key):
                yield KeyValue(row.key, deepcopy(row.value), row.timestamp_ms)


def _any(_row: WindowedValue) -> bool:
    return True


def _starts_in(from_ms: object, to_ms: object) -> Callable[[WindowedValue], bool]:
    """Whether a window starts between two times; no start is below 0, so -1 is as good as 0."""
    first_ms, last_ms = _checked_time("from_ms", from_ms), _checked_time("to_ms", to_ms)
    return lambda row: first_ms <= row.window_start_ms <= last_ms


def _lies_in(earliest_end_ms: object, latest_start_ms: object) -> Callable[[WindowedValue], bool]:
    """Whether a session ends late enough and starts early enough."""
    end_ms = _checked_time("earliest_end_ms", earliest_end_ms)
    start_ms = _checked_time("latest_start_ms", latest_start_ms)
    return lambda row: row.window_end_ms >= end_ms and row.window_start_ms <= start_ms


def _copied(row: WindowedValue) -> WindowedValue:
    return replace(row, value=deepcopy(row.value))


def _checked_text(key: object, what: str = "key") -> str:
    if not isinstance(key, str):
        message = (
            f"the {what} must be a string, not {key!r}. Only the bounds of a range of keys can "
            "be None"
        )
        raise IllegalArgumentType(message)
    return key


def _checked_time(what: str, time_ms: object) -> int:
    if isinstance(time_ms, bool) or not isinstance(time_ms, int):
        message = f"{what} must be an integer number of ms, not {time_ms!r}"
        raise IllegalArgument(message)
    if not _TIME_MIN <= time_ms <= _TIME_MAX:
        message = f"{what} must fit a signed 64-bit number of ms, {time_ms} does not"
        raise IllegalArgument(message)
    return time_ms
