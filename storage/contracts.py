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

``scan`` and ``backward_scan`` read many keys. By the bounds of their ``ScanRange`` they are Kafka's
``fetch(keyFrom, keyTo, from, to)``, ``fetchAll(from, to)`` and ``all()`` of window stores,
``findSessions(keyFrom, keyTo, ...)`` of session stores, ``range``, ``prefixScan`` and ``all()`` of
key-value stores. Kafka leaves the order across keys open; here it is total: by key, start and end,
and backwards exactly the reverse. Keys are compared by their type (``oriel.storage.key_types``):
texts by UTF-8 bytes. Keys of more than 459 bytes stand by their first 459 bytes, and in an order of
their own where these are equal.

A key is its text, whatever its type. Every read raises ``UnfitKey`` for what is no key of the
store's type, and for a prefix of which the keys don't lie together.

A window expired by retention is in no answer, whether or not its bytes are still there:
visible are those with ``window_start_ms >= earliest_ms`` (semantics.md#7).

Sessions of one key may overlap, and several may start or end at the same ms
(docs/decisions/0009). They are ordered by start, then end. Retention counts by their *end*:
visible are those with ``window_end_ms >= earliest_ms``.
"""

from typing import NamedTuple, Protocol

#: Window starts are signed 64 bit; this is later than every window.
LATEST_MS = 2**63 - 1

#: No bound on a page.
UNBOUNDED = 2**63 - 1

#: Most UTF-8 bytes of a key: what a URL carries percent-encoded, and every read can be asked for.
KEY_BYTES_MAX = 8192


def is_short_enough(key: str) -> bool:
    """Whether one can ask for a key; most keys needn't be encoded to tell."""
    return len(key) <= KEY_BYTES_MAX // 4 or len(key.encode()) <= KEY_BYTES_MAX


class WindowId(NamedTuple):
    """Start and end of a window, in ms; with the key it names one window, sessions too."""

    start_ms: int
    end_ms: int


class WindowRange(NamedTuple):
    """Which windows of one key to read.

    ``from_ms`` and ``to_ms`` are window starts, both inclusive: ``from_ms`` below 0 is read
    as 0, ``to_ms < from_ms`` is empty, as in Kafka Streams. ``limit`` is the most windows of
    the page. ``after`` (exclusive) is where the page before ended, in reading order. ``final`` asks
    for windows that no record can change any more (True), or that one still can (False).

    A page ends with the window that brings it to ``bytes_max`` bytes of JSON, and after a look at
    ``records_max`` windows, those included that it does not give.
    """

    key: str
    from_ms: int = 0
    to_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None
    final: bool | None = None
    bytes_max: int = UNBOUNDED
    records_max: int = UNBOUNDED


class SessionRange(NamedTuple):
    """Which sessions of one key to find: those that reach into a span of time.

    Found are sessions with ``end >= earliest_end_ms`` and ``start <= latest_start_ms``, both
    inclusive; ``latest_start_ms < 0`` finds none. The others are as in a ``WindowRange``.
    """

    key: str
    earliest_end_ms: int = 0
    latest_start_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None
    final: bool | None = None
    bytes_max: int = UNBOUNDED
    records_max: int = UNBOUNDED


class ScanRange(NamedTuple):
    """Which windows, or rows, of many keys to read.

    ``key_from`` and ``key_to`` are inclusive, None is no bound; ``key_from > key_to`` is empty.
    ``prefix`` is what the keys begin with. Of windows ``from_ms`` and ``to_ms`` bound the start and
    ``earliest_end_ms`` the end, inclusive. ``after`` (exclusive) is the ``next_after`` of the page
    before. The others are as in a ``WindowRange``.
    """

    key_from: str | None = None
    key_to: str | None = None
    prefix: str = ""
    from_ms: int = 0
    to_ms: int = LATEST_MS
    earliest_end_ms: int = 0
    limit: int = 100
    after: bytes | None = None
    final: bool | None = None
    bytes_max: int = UNBOUNDED
    records_max: int = UNBOUNDED


class WindowPage(NamedTuple):
    """Windows as finished JSON, in reading order.

    ``next_after`` is where the next page goes on, None when there is none. A page that one of its
    bounds ended may have no windows, and so may the page behind it.
    """

    windows: list[bytes]
    next_after: WindowId | None


class ScanPage(NamedTuple):
    """Windows or rows of many keys as finished JSON, in reading order.

    ``next_after`` is as in a ``WindowPage``, in bytes that only the store can read.
    """

    entries: list[bytes]
    next_after: bytes | None


class KeyPage(NamedTuple):
    """Keys that have a visible window (or a row), in their order.

    ``next_after`` is the last key when there may be more, else None.
    """

    keys: list[str]
    next_after: str | None


class ReadOnlyStore(Protocol):
    """What stores of every kind answer."""

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """List keys that begin with ``prefix``, in their order.

        ``after`` (exclusive) is the ``next_after`` of the page before. Keys that are longer than
        ``KEY_BYTES_MAX`` are not listed: nobody could ask for them. A page ends after a look at
        ``records_max`` keys.
        """

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """Read windows or rows of many keys by key, start and end."""

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """Read what ``scan`` reads, in exactly the reverse order."""


class ReadOnlyWindowStore(ReadOnlyStore, Protocol):
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

    def current(self, key: str) -> bytes | None:
        """Read the window of ``key`` that ends at its newest record, None when the key has none.

        Tumbling: the window that holds this record. Hopping: of those that hold it the one that
        started first, which has the most of the records before. Sliding: the one that ends at its
        time. (If it came when that was closed already: of those that hold it the one that ends
        first.) Sessions: the one that ends last, of several the one that started last.
        """

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """Read ``latest`` of every key in a range of keys; times and ``final`` have no say."""

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """Read ``current`` of every key in a range of keys; times and ``final`` have no say."""


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


class ReadOnlyKeyValueStore(ReadOnlyStore, Protocol):
    """One consistent view of a store without windows: one row a key."""

    def get(self, key: str) -> bytes | None:
        """Read the row of ``key`` as JSON, None when the key has none."""

    def approximate_num_entries(self) -> int:
        """Count the rows."""
