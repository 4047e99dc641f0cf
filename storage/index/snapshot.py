"""One version of a store, read from its index in one LMDB read transaction."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from types import TracebackType
from typing import Self

import lmdb
import orjson

from oriel.storage.contracts import KeyPage, SessionRange, WindowId, WindowPage, WindowRange
from oriel.storage.index.generation import OpenGeneration
from oriel.storage.index.state import IndexState
from oriel.storage.key_codec import (
    after_key,
    decode_prefix,
    is_long,
    key_prefix,
    lower_bound,
    prefix_of,
    record_key,
    scan_start,
    upper_bound,
    window_times,
)

#: Records read ahead of the check that they are still in range.
CHUNK = 128

#: Keys looked at for one page of keys, visible or not.
_KEYS_SCANNED_MAX = 20_000

Item = tuple[bytes, bytes]


class IndexSnapshot:
    """One version of a store, as a ``ReadOnlyWindowStore``; use it in a ``with`` statement.

    ``IndexReader`` begins them, and knows which class reads which kind of store.
    """

    __slots__ = ("_cursor", "_generation", "_txn", "earliest_ms", "state")

    def __init__(
        self, opened: OpenGeneration, txn: "lmdb.Transaction[bytes]", state: IndexState
    ) -> None:
        """Read an open generation in a read transaction that sees this state."""
        self._generation = opened
        self._txn = txn
        self._cursor = txn.cursor(opened.environment.windows)
        self.state = state
        self.earliest_ms = state.earliest_ms

    def __enter__(self) -> Self:
        """Give the snapshot itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the read transaction; an LMDB error inside becomes ``IndexDamaged``."""
        self._txn.abort()
        if isinstance(error, lmdb.Error):
            raise self._generation.failed(error) from error

    def window_count(self) -> int:
        """Number of records, expired ones that are not deleted yet included."""
        return self._txn.stat(self._generation.environment.windows)["entries"]

    def fetch_window(self, key: str, window_start_ms: int) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        page = self.fetch(WindowRange(key, window_start_ms, window_start_ms, 1))
        return page.windows[0] if page.windows and window_start_ms >= 0 else None

    def fetch(self, wanted: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(wanted.key)
        low = lower_bound(prefix, max(wanted.from_ms, self.earliest_ms))
        if wanted.after is not None:
            low = max(low, record_key(wanted.key, *wanted.after) + b"\x00")
        high = upper_bound(prefix, wanted.to_ms)
        if not self._cursor.set_range(low):
            return NO_WINDOWS
        found = _take(self._cursor.iternext(), low, high, wanted.limit + 1)
        return page_of(found, wanted, prefix)

    def backward_fetch(self, wanted: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(wanted.key)
        low = lower_bound(prefix, max(wanted.from_ms, self.earliest_ms))
        high = upper_bound(prefix, wanted.to_ms)
        if wanted.after is not None:
            high = min(high, record_key(wanted.key, *wanted.after))
        if not self._last_before(high):
            return NO_WINDOWS
        found = _take(self._cursor.iterprev(), low, high, wanted.limit + 1)
        return page_of(found, wanted, prefix)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        if not self._last_before(after_key(prefix)):
            return None
        encoded, value = self._cursor.item()
        if encoded < lower_bound(prefix, self.earliest_ms):
            return None
        return value if is_of_key(value, key, prefix) else None

    def keys(self, prefix: str, limit: int, after: str | None = None) -> KeyPage:
        """See ``ReadOnlyWindowStore``. Skips from key to key, whatever their windows number."""
        scan = scan_start(prefix)
        position = scan if after is None else after_key(key_prefix(after))
        found: list[str] = []
        key = None
        for _ in range(_KEYS_SCANNED_MAX):
            if not self._cursor.set_range(position) or not self._cursor.key().startswith(scan):
                return KeyPage(found, None)
            if len(found) == limit:
                break
            encoded_prefix = prefix_of(self._cursor.key())
            key = self._key_at_cursor(encoded_prefix)
            if key.startswith(prefix) and self._is_visible(encoded_prefix):
                found.append(key)
            position = after_key(encoded_prefix)
        return KeyPage(found, key)

    def _exactly(self, key: str, window_start_ms: int, window_end_ms: int) -> bytes | None:
        """The record of exactly this window, expired or not."""
        encoded = record_key(key, window_start_ms, window_end_ms)
        value = self._txn.get(encoded, db=self._generation.environment.windows)
        if value is None or not is_of_key(value, key, prefix_of(encoded)):
            return None
        return value

    def _last_before(self, bound: bytes) -> bool:
        """Place the cursor on the last record below ``bound``; False when there is none."""
        if self._cursor.set_range(bound):
            return self._cursor.prev()
        return self._cursor.last()

    def _key_at_cursor(self, encoded_prefix: bytes) -> str:
        key = decode_prefix(encoded_prefix)
        return str(orjson.loads(self._cursor.value())["key"]) if key is None else key

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        if self.earliest_ms == 0:
            return True
        found = self._cursor.set_range(lower_bound(encoded_prefix, self.earliest_ms))
        return found and self._cursor.key().startswith(encoded_prefix)


class KeyValueSnapshot(IndexSnapshot):
    """One version of a store without windows, as a ``ReadOnlyKeyValueStore``."""

    __slots__ = ()

    def get(self, key: str) -> bytes | None:
        """See ``ReadOnlyKeyValueStore``."""
        # The one row of a key is written as if it were of a window [0, 0].
        return self._exactly(key, 0, 0)


NO_WINDOWS = WindowPage([], None)


def _take(items: Iterator[Item], low: bytes, high: bytes, count: int) -> list[Item]:
    """The first ``count`` records with ``low <= key < high`` of a scan in either direction."""
    found: list[Item] = []
    while len(found) < count:
        chunk = list(islice(items, min(CHUNK, count - len(found))))
        if not chunk:
            break
        if not low <= chunk[-1][0] < high:
            # Once a scan has left the range it doesn't come back: bisect finds where.
            left_at = bisect_left(chunk, x=True, key=lambda item: not low <= item[0] < high)
            return found + chunk[:left_at]
        found += chunk
    return found


def page_of(found: list[Item], wanted: WindowRange | SessionRange, prefix: bytes) -> WindowPage:
    """The page of a scan that looked for one record more than the page may have."""
    if not found or not is_of_key(found[0][1], wanted.key, prefix):
        return NO_WINDOWS
    if len(found) <= wanted.limit:
        return WindowPage([value for _, value in found], None)
    found.pop()
    return WindowPage([value for _, value in found], WindowId(*window_times(found[-1][0])))


def is_of_key(value: bytes, key: str, prefix: bytes) -> bool:
    """Guard against two long keys with one digest; short keys are in the record key whole."""
    return not is_long(prefix) or value.startswith(b'{"key":%b,' % orjson.dumps(key))
