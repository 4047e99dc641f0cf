"""Kafka Streams' read-only stores in memory, for the tests of users (semantics.md#8-1).

Rules of all three stores:

- Bounds are inclusive at both ends. Times are whole milliseconds. A time below 0 counts as 0.
- If a key is unknown, or a range of times ends before it begins, the result is empty or None. An
  empty range of keys also logs a warning.
- ``None`` as a key raises IllegalArgumentType, like the null pointer error of Kafka. ``None`` as a
  bound of a range of keys means "no bound".
- A time that is not an integer or does not fit 64 bits raises IllegalArgument.
- Keys are in the order of their type: strings by UTF-8 bytes, numbers by value. The windows of a
  key are ordered by start, sessions by end and start. A backward method returns the reverse order.
- A key is a string, for example ``"7"`` for a 64-bit integer. A key or prefix that does not fit the
  type of the store raises IllegalArgument (docs/reference/keys.md).
- Windows that retention has expired are not in any result.
- Results are copies, so later records do not change them.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import overload

from oriel.pipeline.testing.rows import KeyValue, WindowedValue
from oriel.pipeline.testing.store_reads import (
    DriverStore,
    WindowedStore,
    checked_string,
    checked_time,
    starts_in,
)
from oriel.pipeline.windows import IllegalArgument
from oriel.storage import KeyTypeMismatch

#: The default of a time, because users must not pass None.
_MISSING = object()


class DriverWindowStore(WindowedStore):
    """Reads the tumbling, hopping or sliding windows of a store. Times are window starts.

    Get it from ``TopologyTestDriver.window_store``. Keys are strings and bounds are inclusive.
    Results are copies, ordered by key and start.

    Example:
        >>> minutes = TimeWindows.of_size_and_grace(60_000, 0)
        >>> _ = flights.group_by_key().windowed_by(minutes).count().materialize("per_minute")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("flights", Record("EWR", {"delay": 7}, timestamp_ms=61_000))
        >>> store = driver.window_store("per_minute")
        >>> store.fetch("EWR", 60_000).value
        {'count': 1}
        >>> [window.window_start_ms for window in store.fetch("EWR", 0, 120_000)]
        [60000]
        >>> store.fetch("EWR", 0) is None
        True
    """

    @overload
    def fetch(self, key: str, start_ms: int, /) -> WindowedValue | None: ...

    @overload
    def fetch(self, key: str, from_ms: int, to_ms: int) -> list[WindowedValue]: ...

    def fetch(
        self, key: str, from_ms: int, to_ms: object = _MISSING
    ) -> WindowedValue | list[WindowedValue] | None:
        """Read the window that starts at a time, or the windows that start between two times.

        Args:
            key: The key as a string.
            from_ms: The start of the window. With ``to_ms``, the earliest start, inclusive.
            to_ms: The latest start, inclusive. Default: read one window.

        Returns:
            With one time, the window or None. With two times, a list, oldest first.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys, or a time is not an
                integer or does not fit 64 bits.
        """
        if to_ms is _MISSING:
            start_ms = checked_time("start_ms", from_ms)
            windows = self._read(
                [self._checked_key(key)], lambda row: row.window_start_ms == start_ms
            )
            return windows[0] if windows else None
        return self._read([self._checked_key(key)], starts_in(from_ms, to_ms))

    def backward_fetch(self, key: str, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the windows that start between two times, newest first (KIP-617).

        Args:
            key: The key as a string.
            from_ms: The earliest window start, inclusive.
            to_ms: The latest window start, inclusive.

        Returns:
            The windows, newest first.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys, or a time is not an
                integer or does not fit 64 bits.
        """
        return self.fetch(key, from_ms, to_ms)[::-1]

    def fetch_range(
        self, key_from: str | None, key_to: str | None, from_ms: int, to_ms: int
    ) -> list[WindowedValue]:
        """Read the windows of a range of keys that start between two times (KIP-763).

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.
            from_ms: The earliest window start, inclusive.
            to_ms: The latest window start, inclusive.

        Returns:
            The windows, ordered by key and start.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self._read(self._keys(key_from, key_to), starts_in(from_ms, to_ms))

    def backward_fetch_range(
        self, key_from: str | None, key_to: str | None, from_ms: int, to_ms: int
    ) -> list[WindowedValue]:
        """Read the windows of a range of keys in the reverse order of ``fetch_range``.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.
            from_ms: The earliest window start, inclusive.
            to_ms: The latest window start, inclusive.

        Returns:
            The windows, from the last key and start to the first.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self.fetch_range(key_from, key_to, from_ms, to_ms)[::-1]

    def fetch_all(self, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the windows of all keys that start between two times.

        Args:
            from_ms: The earliest window start, inclusive.
            to_ms: The latest window start, inclusive.

        Returns:
            The windows, ordered by key and start.

        Raises:
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self.fetch_range(None, None, from_ms, to_ms)

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> list[WindowedValue]:
        """Read the windows of all keys in the reverse order of ``fetch_all``.

        Args:
            from_ms: The earliest window start, inclusive.
            to_ms: The latest window start, inclusive.

        Returns:
            The windows, from the last key and start to the first.

        Raises:
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self.fetch_all(from_ms, to_ms)[::-1]

    def _visible(self, key: str) -> list[WindowedValue]:
        earliest_ms = self._rows.earliest_ms
        visible = [row for row in self._rows.of_key(key) if row.window_start_ms >= earliest_ms]
        return sorted(visible, key=lambda row: (row.window_start_ms, row.window_end_ms))


class DriverKeyValueStore(DriverStore):
    """Reads a table or an aggregation without windows: the newest value of each key.

    Get it from ``TopologyTestDriver.key_value_store``. Keys are strings and bounds are inclusive.
    Results are copies, ordered by key.

    Example:
        >>> _ = flights.group_by_key().count().materialize("flights_by_airport")
        >>> driver = TopologyTestDriver(builder.build())
        >>> keys = ("EWR", "JFK", "LGA")
        >>> driver.pipe_input("flights", [Record(key, {"delay": 7}, 0) for key in keys])
        >>> store = driver.key_value_store("flights_by_airport")
        >>> store.get("EWR").value
        {'count': 1}
        >>> [entry.key for entry in store.range("F", None)]
        ['JFK', 'LGA']
        >>> store.approximate_num_entries()
        3
    """

    def get(self, key: str) -> KeyValue | None:
        """Read the entry of a key.

        Args:
            key: The key as a string.

        Returns:
            The entry, or None if the store does not have the key.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        return next(self._entries([self._checked_key(key)]), None)

    def range(self, key_from: str | None, key_to: str | None) -> list[KeyValue]:
        """Read the entries of a range of keys.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.

        Returns:
            The entries, ordered by key.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return list(self._entries(self._keys(key_from, key_to)))

    def reverse_range(self, key_from: str | None, key_to: str | None) -> list[KeyValue]:
        """Read the entries of a range of keys in the reverse order of ``range``.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.

        Returns:
            The entries, from the last key to the first.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return self.range(key_from, key_to)[::-1]

    def all(self) -> list[KeyValue]:
        """Read all entries.

        Returns:
            The entries, ordered by key.
        """
        return self.range(None, None)

    def reverse_all(self) -> list[KeyValue]:
        """Read all entries in the reverse order of ``all``.

        Returns:
            The entries, from the last key to the first.
        """
        return self.all()[::-1]

    def prefix_scan(self, prefix: str) -> list[KeyValue]:
        """Read the entries whose keys start with a prefix.

        Args:
            prefix: The prefix as a string.

        Returns:
            The entries, ordered by key.

        Raises:
            IllegalArgumentType: the prefix is not a string.
            IllegalArgument: keys of the store's type with this prefix are not next to each other.
        """
        text = checked_string(prefix, "prefix")
        try:
            self._rows.key_type.escaped_prefix(text)
        except KeyTypeMismatch as error:
            raise IllegalArgument(str(error)) from error
        return list(self._entries(k for k in self._keys(None, None) if k.startswith(text)))

    def approximate_num_entries(self) -> int:
        """Count the entries.

        Returns:
            The exact number. Kafka's RocksDB store estimates it.
        """
        return len(self._keys(None, None))

    def _entries(self, keys: Iterable[str]) -> Iterator[KeyValue]:
        """Yield copies of the entries of ``keys``, without their window."""
        for key in keys:
            for row in self._rows.of_key(key):
                yield KeyValue(row.key, deepcopy(row.value), row.timestamp_ms)
