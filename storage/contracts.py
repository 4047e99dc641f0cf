"""Protocols of the stores: the read-only stores of Kafka Streams in Python.

    ReadOnlyWindowStore       tumbling, hopping, sliding windows
    ReadOnlySessionStore      sessions: all reads of a window store, and reads by overlap
    ReadOnlyKeyValueStore     no windows, one row per key
    ReadOnlyVersionedStore    the same for the newest versions, and reads of earlier versions

The contracts type the reads of the service (``oriel.app.reads``). Each implementation (the index,
the table, the models in memory) passes the conformance suite of its kind in ``oriel.testing``. The
stores of the test driver and of the client have the methods of Kafka. In tests, adapters implement
the contracts with these methods, so these stores pass the same suites.

Bounds apply to the window *start* and are inclusive at both ends::

    windows of a key, by start:     10    20    30    40    50
    fetch(20, 40)                          20 -> 30 -> 40            oldest first
    backward_fetch(20, 40)                 40 -> 30 -> 20            newest first
    latest()                                                  50
    fetch_window(30)                             30

``scan`` and ``backward_scan`` read many keys. With the bounds of their ``ScanRange``, they are
Kafka's ``fetch(keyFrom, keyTo, from, to)``, ``fetchAll(from, to)`` and ``all()`` of window stores,
``findSessions(keyFrom, keyTo, ...)`` of session stores, and ``range``, ``prefixScan`` and ``all()``
of key-value stores. Kafka does not define an order of keys. Here the order is total: by key, start
and end, or exactly the reverse. Keys are compared by their type (``oriel.storage.key_types``), for
example strings by UTF-8 bytes. Keys of more than 459 bytes are ordered by their first 459 bytes. If
these are equal, their order is fixed but not defined.

A key is a string, also if its type is a number. Every read raises ``KeyTypeMismatch`` if the key
does not fit the type of the store, or if keys with the prefix are not next to each other.

No result has a window that retention has expired, even if the store still has its bytes. Visible
windows have ``window_start_ms >= earliest_ms`` (semantics.md#7).

Sessions of one key can overlap, and several can start or end at the same ms (docs/decisions/0009).
They are ordered by start, then end. Retention uses their *end*: visible sessions have
``window_end_ms >= earliest_ms``.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

#: The greatest window start, because window starts have 64 bits with a sign.
LATEST_MS = 2**63 - 1

#: No bound on a page.
UNBOUNDED = 2**63 - 1

#: The maximum number of UTF-8 bytes of a key, so that it fits percent-encoded in a URL.
KEY_BYTES_MAX = 8192


def fits_request(key: str) -> bool:
    """Return True if a request can have this key. Most keys are not encoded for the check."""
    return len(key) <= KEY_BYTES_MAX // 4 or len(key.encode()) <= KEY_BYTES_MAX


class WindowId(NamedTuple):
    """Start and end of a window or session in ms. With the key, they identify it."""

    start_ms: int
    end_ms: int


class WindowRange(NamedTuple):
    """A range of windows of one key.

    Attributes:
        key: The key.
        from_ms: The inclusive lower bound of the window start. A value below 0 counts as 0.
        to_ms: The inclusive upper bound of the window start. If ``to_ms < from_ms``, the range is
            empty, as in Kafka Streams.
        limit: The maximum number of windows of the page.
        after: The last window of the previous page (exclusive).
        final: Select windows that are final (True) or not final (False).
        bytes_max: The page ends with the window that reaches this number of bytes of JSON.
        records_max: The page ends after this number of windows. Skipped windows count.
        with_partials: True to also read the partial aggregates, whose bytes count. The store must
            keep them.
    """

    key: str
    from_ms: int = 0
    to_ms: int = LATEST_MS
    limit: int = 100
    after: WindowId | None = None
    final: bool | None = None
    bytes_max: int = UNBOUNDED
    records_max: int = UNBOUNDED
    with_partials: bool = False


class SessionRange(NamedTuple):
    """The sessions of one key that overlap a span of time.

    The range has the sessions with ``end >= earliest_end_ms`` and ``start <= latest_start_ms``. If
    ``latest_start_ms < 0``, it is empty. The other fields are as in a ``WindowRange``.
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
    """A range of windows, or rows, of many keys.

    Attributes:
        key_from: The inclusive lower bound of the keys. None: without a bound.
        key_to: The inclusive upper bound of the keys. If ``key_from > key_to``, the range is empty.
        prefix: A prefix of the keys.
        from_ms: The inclusive lower bound of the window start.
        to_ms: The inclusive upper bound of the window start.
        earliest_end_ms: The inclusive lower bound of the window end.
        limit: See ``WindowRange``.
        after: The ``next_after`` of the previous page (exclusive).
        final: See ``WindowRange``.
        bytes_max: See ``WindowRange``.
        records_max: See ``WindowRange``.
        with_partials: See ``WindowRange``.
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
    with_partials: bool = False


class WindowPage(NamedTuple):
    """A page of windows as JSON.

    A page can be empty although more pages follow, because ``records_max`` can end it.

    Attributes:
        windows: The windows.
        next_after: The ``after`` of the next page. None on the last page.
        partials: The partial aggregates of each window, if the range requested them.
    """

    windows: list[bytes]
    next_after: WindowId | None
    partials: Sequence[bytes] = ()


class ScanPage(NamedTuple):
    """A page of windows or rows of many keys as JSON.

    ``next_after`` and ``partials`` are as in a ``WindowPage``. Only the store can read the bytes of
    ``next_after``.
    """

    entries: list[bytes]
    next_after: bytes | None
    partials: Sequence[bytes] = ()


class KeyPage(NamedTuple):
    """A page of keys that have a visible window or a row, in the order of their type.

    ``next_after`` is the last key if more keys can follow, otherwise None.
    """

    keys: list[str]
    next_after: str | None


class ReadOnlyStore(Protocol):
    """Reads that stores of every kind have."""

    def keys(
        self, prefix: str, limit: int, after: str | None = None, records_max: int = UNBOUNDED
    ) -> KeyPage:
        """List the keys that begin with a prefix, in the order of their type.

        Keys that are longer than ``KEY_BYTES_MAX`` are not listed, because no request can have
        them.

        Args:
            prefix: The prefix. ``""`` lists all keys.
            limit: The maximum number of keys of the page.
            after: The ``next_after`` of the previous page. None: the first page.
            records_max: The maximum number of keys that the store reads for the page.

        Returns:
            The page.

        Raises:
            KeyTypeMismatch: keys with this prefix are not next to each other.
        """

    def scan(self, scan_range: ScanRange) -> ScanPage:
        """Read windows or rows of many keys, ordered by key, start and end.

        Args:
            scan_range: The keys and times to read.

        Returns:
            The page.
        """

    def backward_scan(self, scan_range: ScanRange) -> ScanPage:
        """Read windows or rows of many keys in the reverse order of ``scan``.

        Args:
            scan_range: The keys and times to read.

        Returns:
            The page.
        """


class ReadOnlyWindowStore(ReadOnlyStore, Protocol):
    """A consistent view of a window store. All results are from the same table version."""

    @property
    def earliest_ms(self) -> int:
        """The least window start, or the least session end, that retention keeps visible."""

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """Read the window of a key with exactly this start.

        If several sessions have this start, read the session that ends first.

        Args:
            key: The key.
            window_start_ms: The start of the window. It can be negative or unknown.

        Returns:
            The window as JSON, or None if it does not exist.
        """

    def fetch(self, window_range: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, oldest first.

        Args:
            window_range: The key and the times to read.

        Returns:
            The page. It is empty if the key is unknown.
        """

    def backward_fetch(self, window_range: WindowRange) -> WindowPage:
        """Read windows of one key, by window start, newest first (KIP-617).

        Args:
            window_range: The key and the times to read.

        Returns:
            The page. It is empty if the key is unknown.
        """

    def latest(self, key: str) -> bytes | None:
        """Read the window of a key with the greatest start.

        If several sessions have this start, read the session that ends last.

        Args:
            key: The key.

        Returns:
            The window as JSON, or None if the key has no window.
        """

    def current(self, key: str) -> bytes | None:
        """Read the window of a key that ends at its newest record.

        - Tumbling windows: the window that has this record.
        - Hopping windows: the window with this record that started first.
        - Sliding windows: the window that ends at the time of the record. If that window was closed
          when the record arrived, the window with this record that ends first.
        - Sessions: the session that ends last. If several do, the session that started last.

        Args:
            key: The key.

        Returns:
            The window as JSON, or None if the key has no window.
        """

    def latest_all(self, scan_range: ScanRange) -> ScanPage:
        """Read ``latest`` of each key in a range of keys.

        Args:
            scan_range: The keys to read. Its times and ``final`` have no effect.

        Returns:
            The page.
        """

    def current_all(self, scan_range: ScanRange) -> ScanPage:
        """Read ``current`` of each key in a range of keys.

        Args:
            scan_range: The keys to read. Its times and ``final`` have no effect.

        Returns:
            The page.
        """


class ReadOnlySessionStore(ReadOnlyWindowStore, Protocol):
    """A consistent view of a session store. Reads of windows use the start of the session."""

    def fetch_session(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """Read the session of a key with exactly this start and end.

        Args:
            key: The key.
            window_start_ms: The start of the session. It can be negative or unknown.
            window_end_ms: The end of the session. It can be negative or unknown.

        Returns:
            The session as JSON, or None if it does not exist.
        """

    def find_sessions(self, session_range: SessionRange) -> WindowPage:
        """Read the sessions of a key that overlap a span of time, oldest start first.

        Args:
            session_range: The key and the span of time.

        Returns:
            The page. It is empty if the key is unknown.
        """

    def backward_find_sessions(self, session_range: SessionRange) -> WindowPage:
        """Read the sessions of a key that overlap a span of time, newest start first (KIP-617).

        Args:
            session_range: The key and the span of time.

        Returns:
            The page. It is empty if the key is unknown.
        """


class ReadOnlyKeyValueStore(ReadOnlyStore, Protocol):
    """A consistent view of a store without windows, with one row per key."""

    def get(self, key: str) -> bytes | None:
        """Read the row of a key.

        Args:
            key: The key.

        Returns:
            The row as JSON, or None if the key has no row.
        """

    def approximate_num_entries(self) -> int:
        """Count the rows.

        Returns:
            The number of rows.
        """


class ReadOnlyVersionedStore(ReadOnlyKeyValueStore, Protocol):
    """A consistent view of a store with the versions of rows (KIP-889).

    The row of a key is its newest version. A version is valid from its own time until the time of
    the next version of its key. A tombstone is a version without a row. The JSON of a version has
    the fields of the row, ``valid_from_ms``, and ``valid_to_ms``, which is null for the newest
    version.
    """

    def get_as_of(self, key: str, time_ms: int) -> bytes | None:
        """Read the version of a key that was valid at a time (KIP-960).

        Args:
            key: The key.
            time_ms: The time.

        Returns:
            The version as JSON, or None if none was valid, or if it is older than the history.
        """

    def versions(self, version_range: WindowRange) -> WindowPage:
        """Read the versions of a key that were valid in a range of time, oldest first (KIP-968).

        Args:
            version_range: The key and the times, both inclusive. ``final`` has no effect.

        Returns:
            The page. It is empty if the key is unknown.
        """

    def backward_versions(self, version_range: WindowRange) -> WindowPage:
        """Read the versions of a key that were valid in a range of time, newest first (KIP-968).

        Args:
            version_range: The key and the times, both inclusive. ``final`` has no effect.

        Returns:
            The page. It is empty if the key is unknown.
        """


def version_json(row: bytes, from_ms: int, to_ms: int | None) -> bytes:
    """Return the JSON of a version from the JSON of its row.

    ``to_ms`` is the start of the next version, None for the newest version.
    """
    to = b"null" if to_ms is None else b"%d" % to_ms
    return b'%b,"valid_from_ms":%d,"valid_to_ms":%b}' % (row[:-1], from_ms, to)
