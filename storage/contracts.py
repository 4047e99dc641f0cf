"""What stores answer: Kafka Streams' read-only stores in Python.

    ReadOnlyWindowStore       tumbling, hopping, sliding windows
    ReadOnlySessionStore      sessions: all that a window store answers, and searches by overlap
    ReadOnlyKeyValueStore     no windows, one row a key

Every implementation (the index, the table itself, the models in memory) passes one conformance
suite per kind, those of ``oriel.testing``. The words here are those of the API document.

Bounds are on the window *start* and inclusive at both ends::

    windows of a key, by start:     10    20    30    40    50
    fetch(20, 40)                          20 -> 30 -> 40            oldest first
    backward_fetch(20, 40)                 40 -> 30 -> 20            newest first
    latest()                                                  50
    fetch_window(30)                             30

A window expired by retention is in no answer, whether or not its bytes are still there:
visible are those with ``window_start_ms >= earliest_ms`` (semantics 7).

Sessions of one key may overlap, and several may start or end at the same ms
(docs/decisions/0009). They are ordered by start, then end. Retention counts by their *end*:
visible are those with ``window_end_ms >= earliest_ms``.
"""

from typing import NamedTuple, Protocol

#: Window starts are signed 64 bit; this is later than every window.
LATEST_MS = 2**63 - 1


class WindowId(NamedTuple):
    """Start and end of a window, in ms; with the key it names one window, sessions too."""

    start_ms: int
    end_ms: int


class WindowRange(NamedTuple):
    """Which windows of one key to read.

    ``from_ms`` and ``to_ms`` are window starts, both inclusive: ``from_ms`` below 0 is read
    as 0, ``to_ms < from_ms`` is empty, as in Kafka Streams. ``limit`` is the most windows of
    the page. ``after`` (exclusive) is the last window of the page before, in reading order.
    """

    key: str
    from_ms: int = 0
    to_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None


class SessionRange(NamedTuple):
    """Which sessions of one key to find: those that reach into a span of time.

    Found are sessions with ``end >= earliest_end_ms`` and ``start <= latest_start_ms``, both
    inclusive; ``latest_start_ms < 0`` finds none. ``limit`` and ``after`` are as in a
    ``WindowRange``.
    """

    key: str
    earliest_end_ms: int = 0
    latest_start_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None


class WindowPage(NamedTuple):
    """Windows as finished JSON, in reading order.

    ``next_after`` is where the next page goes on, None when there is none.
    """

    windows: list[bytes]
    next_after: WindowId | None


class KeyPage(NamedTuple):
    """Keys that have a visible window (or a row), in order of their UTF-8 bytes.

    ``next_after`` is the last key when there may be more, else None.
    """

    keys: list[str]
    next_after: str | None


class ReadOnlyWindowStore(Protocol):
    """One consistent view of a window store: all answers are from the same table version."""

    @property
    def earliest_ms(self) -> int:
        """The least window start (of sessions the least end) that retention leaves visible."""

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """Read the window of ``key`` that starts exactly then.

        Of several sessions that do it is the one that ends first.

        Returns:
            The window as JSON, or None when there is none (negative and unknown starts too).
        """

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, oldest first.

        Returns:
            The page; empty for an unknown key.
        """

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, newest first (KIP-617).

        Returns:
            The page; empty for an unknown key.
        """

    def latest(self, key: str) -> bytes | None:
        """Read the window of ``key`` with the greatest start, None when the key has none.

        Of several sessions with that start it is the one that ends last.
        """

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """List keys that begin with ``prefix``, in order of their UTF-8 bytes.

        ``after`` (exclusive) is the last key of the page before. Keys of more than 459 bytes
        are ordered by their first 459 bytes only.
        """


class ReadOnlySessionStore(ReadOnlyWindowStore, Protocol):
    """One consistent view of a session store; its window reads go by the sessions' start."""

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """Read the session of ``key`` that has exactly this start and end.

        Returns:
            The session as JSON, or None when there is none (negative times too).
        """

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """Find sessions of one key that reach into a span of time, oldest start first.

        Returns:
            The page; empty for an unknown key.
        """

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """Find sessions of one key that reach into a span of time, newest start first (KIP-617).

        Returns:
            The page; empty for an unknown key.
        """


class ReadOnlyKeyValueStore(Protocol):
    """One consistent view of a store without windows: one row a key."""

    def get(self, key: str) -> bytes | None:
        """Read the row of ``key`` as JSON, None when the key has none."""

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """List keys that begin with ``prefix``, as ``ReadOnlyWindowStore.keys`` does."""
