"""Kafka Streams' read-only session store in memory. The rules are in ``stores``."""

from oriel.pipeline.testing.rows import WindowedValue
from oriel.pipeline.testing.store_reads import WindowedStore, any_window, checked_time, overlaps


class DriverSessionStore(WindowedStore):
    """Reads the sessions of a store, ordered by end and then start.

    Get it from ``TopologyTestDriver.session_store``. Keys are strings and bounds are inclusive.
    Results are copies.

    Example:
        >>> gap = SessionWindows.of_inactivity_gap_and_grace(30_000, 0)
        >>> _ = flights.group_by_key().windowed_by(gap).count().materialize("visits")
        >>> driver = TopologyTestDriver(builder.build())
        >>> times = (0, 20_000, 90_000)
        >>> driver.pipe_input("flights", [Record("EWR", {"delay": 7}, ms) for ms in times])
        >>> store = driver.session_store("visits")
        >>> [(one.window_start_ms, one.window_end_ms) for one in store.fetch("EWR")]
        [(0, 20000), (90000, 90000)]
        >>> [one.value for one in store.find_sessions("EWR", 30_000, 100_000)]
        [{'count': 1}]
    """

    def fetch(self, key: str) -> list[WindowedValue]:
        """Read all sessions of a key, oldest first.

        Args:
            key: The key as a string.

        Returns:
            The sessions, ordered by end and start.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        return self._read([self._checked_key(key)], any_window)

    def backward_fetch(self, key: str) -> list[WindowedValue]:
        """Read all sessions of a key, newest first.

        Args:
            key: The key as a string.

        Returns:
            The sessions in the reverse order.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys.
        """
        return self.fetch(key)[::-1]

    def fetch_range(self, key_from: str | None, key_to: str | None) -> list[WindowedValue]:
        """Read all sessions of a range of keys.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.

        Returns:
            The sessions, ordered by key, end and start.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return self._read(self._keys(key_from, key_to), any_window)

    def backward_fetch_range(self, key_from: str | None, key_to: str | None) -> list[WindowedValue]:
        """Read all sessions of a range of keys in the reverse order of ``fetch_range``.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.

        Returns:
            The sessions in the reverse order.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
        """
        return self.fetch_range(key_from, key_to)[::-1]

    def find_sessions(
        self, key: str, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the sessions of a key that overlap a span of time.

        ``earliest_end_ms`` can be greater than ``latest_start_ms``. The result then has the
        sessions that cover the whole time between. A negative ``latest_start_ms`` finds no session,
        as in Kafka's in-memory store.

        Args:
            key: The key as a string.
            earliest_end_ms: Sessions end at this time or later.
            latest_start_ms: Sessions start at this time or earlier.

        Returns:
            The sessions, ordered by end and start.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys, or a time is not an
                integer or does not fit 64 bits.
        """
        return self._read([self._checked_key(key)], overlaps(earliest_end_ms, latest_start_ms))

    def backward_find_sessions(
        self, key: str, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the sessions of a key in the reverse order of ``find_sessions``.

        Args:
            key: The key as a string.
            earliest_end_ms: Sessions end at this time or later.
            latest_start_ms: Sessions start at this time or earlier.

        Returns:
            The sessions in the reverse order.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys, or a time is not an
                integer or does not fit 64 bits.
        """
        return self.find_sessions(key, earliest_end_ms, latest_start_ms)[::-1]

    def find_sessions_range(
        self, key_from: str | None, key_to: str | None, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the sessions of a range of keys that overlap a span of time.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.
            earliest_end_ms: Sessions end at this time or later.
            latest_start_ms: Sessions start at this time or earlier.

        Returns:
            The sessions, ordered by key, end and start.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self._read(self._keys(key_from, key_to), overlaps(earliest_end_ms, latest_start_ms))

    def backward_find_sessions_range(
        self, key_from: str | None, key_to: str | None, earliest_end_ms: int, latest_start_ms: int
    ) -> list[WindowedValue]:
        """Read the sessions of keys in the reverse order of ``find_sessions_range``.

        Args:
            key_from: The first key, inclusive. None: no bound.
            key_to: The last key, inclusive. None: no bound.
            earliest_end_ms: Sessions end at this time or later.
            latest_start_ms: Sessions start at this time or earlier.

        Returns:
            The sessions in the reverse order.

        Raises:
            IllegalArgumentType: a key is neither a string nor None.
            IllegalArgument: a time is not an integer or does not fit 64 bits.
        """
        return self.find_sessions_range(key_from, key_to, earliest_end_ms, latest_start_ms)[::-1]

    def fetch_session(self, key: str, start_ms: int, end_ms: int) -> WindowedValue | None:
        """Read the session with exactly this start and end.

        Args:
            key: The key as a string.
            start_ms: The start of the session.
            end_ms: The end of the session.

        Returns:
            The session, or None if it does not exist.

        Raises:
            IllegalArgumentType: the key is not a string.
            IllegalArgument: the key does not fit the type of the store's keys, or a time is not an
                integer or does not fit 64 bits.
        """
        bounds = checked_time("start_ms", start_ms), checked_time("end_ms", end_ms)
        sessions = self._read(
            [self._checked_key(key)], lambda row: (row.window_start_ms, row.window_end_ms) == bounds
        )
        return sessions[0] if sessions else None

    def _visible(self, key: str) -> list[WindowedValue]:
        earliest_ms = self._rows.earliest_ms
        visible = [row for row in self._rows.of_key(key) if row.window_end_ms >= earliest_ms]
        return sorted(visible, key=lambda row: (row.window_end_ms, row.window_start_ms))
