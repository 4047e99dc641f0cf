"""Reading an index: consistent snapshots in many processes while the tailer writes.

A snapshot is one LMDB read transaction: it neither waits for the writer nor hinders it, and
costs a few microseconds. Snapshots are short: open, read one page, close.
"""

import os
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import lmdb
import orjson

from storage.contracts import KeyPage, WindowId, WindowPage, WindowRange
from storage.errors import IndexDamaged, StoreNotReady
from storage.index.environment import (
    STATE_KEY,
    Environment,
    open_for_reading,
    storage_error,
)
from storage.index.folder import IndexFolder, PointerStamp, damage, mark_damaged
from storage.index.state import IndexState
from storage.key_codec import (
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

#: Seconds for which the pointer to the current generation is taken as unchanged.
_POINTER_SECONDS = 0.01

#: Records read ahead of the check that they are still in range.
_CHUNK = 128

#: Keys looked at for one page of keys, visible or not.
_KEYS_SCANNED_MAX = 20_000

_Item = tuple[bytes, bytes]


class IndexSnapshot:
    """One version of a store, as a ``ReadOnlyWindowStore``; use it in a ``with`` statement."""

    __slots__ = ("_cursor", "_generation", "_txn", "earliest_start_ms", "state")

    def __init__(self, opened: "_Generation") -> None:
        """Begin a read transaction on an open generation."""
        self._generation = opened
        self._txn = opened.begin()
        try:
            self.state = opened.state(self._txn)
            self._cursor = self._txn.cursor(opened.environment.windows)
        except BaseException:
            self._txn.abort()
            raise
        self.earliest_start_ms = self.state.earliest_start_ms

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
        low = lower_bound(prefix, max(wanted.from_ms, self.earliest_start_ms))
        if wanted.after is not None:
            low = max(low, record_key(wanted.key, *wanted.after) + b"\x00")
        high = upper_bound(prefix, wanted.to_ms)
        if not self._cursor.set_range(low):
            return _NO_WINDOWS
        found = _take(self._cursor.iternext(), low, high, wanted.limit + 1)
        return _page(found, wanted, prefix)

    def backward_fetch(self, wanted: WindowRange) -> WindowPage:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(wanted.key)
        low = lower_bound(prefix, max(wanted.from_ms, self.earliest_start_ms))
        high = upper_bound(prefix, wanted.to_ms)
        if wanted.after is not None:
            high = min(high, record_key(wanted.key, *wanted.after))
        if not self._last_before(high):
            return _NO_WINDOWS
        found = _take(self._cursor.iterprev(), low, high, wanted.limit + 1)
        return _page(found, wanted, prefix)

    def latest(self, key: str) -> bytes | None:
        """See ``ReadOnlyWindowStore``."""
        prefix = key_prefix(key)
        if not self._last_before(after_key(prefix)):
            return None
        encoded, value = self._cursor.item()
        if encoded < lower_bound(prefix, self.earliest_start_ms):
            return None
        return value if _is_of_key(value, key, prefix) else None

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

    def _last_before(self, bound: bytes) -> bool:
        """Place the cursor on the last record below ``bound``; False when there is none."""
        if self._cursor.set_range(bound):
            return self._cursor.prev()
        return self._cursor.last()

    def _key_at_cursor(self, encoded_prefix: bytes) -> str:
        key = decode_prefix(encoded_prefix)
        return str(orjson.loads(self._cursor.value())["key"]) if key is None else key

    def _is_visible(self, encoded_prefix: bytes) -> bool:
        if self.earliest_start_ms == 0:
            return True
        found = self._cursor.set_range(lower_bound(encoded_prefix, self.earliest_start_ms))
        return found and self._cursor.key().startswith(encoded_prefix)


class IndexReader:
    """One process's read access to one store's index; follows it from generation to generation.

    Not for several threads: the API reads on its event loop only.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """Read the index in ``folder``; nothing is opened before the first snapshot."""
        self.folder = folder
        self._generation: _Generation | None = None
        self._pointer: PointerStamp | None = None
        self._pointer_seen_at = 0.0

    def snapshot(self) -> IndexSnapshot:
        """Begin reading the newest version.

        Raises:
            StoreNotReady: there is no index yet.
            IndexDamaged: it can't be read; the tailer has been told.
        """
        now = time.monotonic()
        if now - self._pointer_seen_at > _POINTER_SECONDS:
            self._follow_pointer()
            self._pointer_seen_at = now
        if self._generation is None:
            message = f"the index of store {self.folder.path.name!r} is being built; retry"
            raise StoreNotReady(message)
        return IndexSnapshot(self._generation)

    def close(self) -> None:
        """Close the files; the next snapshot opens them again."""
        if self._generation is not None:
            self._generation.close()
        self._generation = None
        self._pointer = None

    def _follow_pointer(self) -> None:
        stamp = self.folder.pointer_stamp()
        # A deleted index keeps answering from what is mapped until its successor is there.
        if stamp is None or stamp == self._pointer:
            return
        current = self.folder.current()
        if current is None:
            return
        self.close()
        self._generation = _Generation(current)
        self._pointer = stamp


class _Generation:
    """An open generation and its state, read again only when a transaction changed it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        reason = damage(path)
        if reason is not None:
            message = f"index {path.parent.name!r} is damaged ({reason}); it is being rebuilt"
            raise IndexDamaged(message)
        try:
            self.environment: Environment = open_for_reading(path)
        except IndexDamaged as error:
            mark_damaged(path, str(error))
            raise
        self._file = os.open(path / "data.mdb", os.O_RDONLY)
        self._promised_bytes = 0
        self._state_txn_id = -1
        self._state: IndexState | None = None

    def begin(self) -> "lmdb.Transaction[bytes]":
        if os.fstat(self._file).st_size < self._promised_bytes:
            message = f"index {self.path.parent.name!r} was cut off; it is being rebuilt"
            mark_damaged(self.path, message)
            raise IndexDamaged(message)
        try:
            return self.environment.env.begin()
        except lmdb.Error as error:
            raise self.failed(error) from error

    def state(self, txn: "lmdb.Transaction[bytes]") -> IndexState:
        transaction_id = txn.id()
        if self._state is None or transaction_id != self._state_txn_id:
            self._state = self._read_state(txn)
            self._state_txn_id = transaction_id
            self._promised_bytes = self.environment.promised_bytes()
        return self._state

    def failed(self, error: lmdb.Error) -> StoreNotReady:
        """Translate an LMDB error, and tell the tailer when it means damage."""
        translated = storage_error(error, self.path)
        if isinstance(translated, IndexDamaged):
            mark_damaged(self.path, str(error))
        return translated

    def close(self) -> None:
        self.environment.env.close()
        os.close(self._file)

    def _read_state(self, txn: "lmdb.Transaction[bytes]") -> IndexState:
        try:
            return IndexState.from_json(txn.get(STATE_KEY, db=self.environment.meta))
        except lmdb.Error as error:
            raise self.failed(error) from error
        except IndexDamaged as error:
            mark_damaged(self.path, str(error))
            raise


_NO_WINDOWS = WindowPage([], None)


def _take(items: Iterator[_Item], low: bytes, high: bytes, count: int) -> list[_Item]:
    """The first ``count`` records with ``low <= key < high`` of a scan in either direction."""
    found: list[_Item] = []
    while len(found) < count:
        chunk = list(islice(items, min(_CHUNK, count - len(found))))
        if not chunk:
            break
        if not low <= chunk[-1][0] < high:
            # Once a scan has left the range it doesn't come back: bisect finds where.
            left_at = bisect_left(chunk, x=True, key=lambda item: not low <= item[0] < high)
            return found + chunk[:left_at]
        found += chunk
    return found


def _page(found: list[_Item], wanted: WindowRange, prefix: bytes) -> WindowPage:
    if not found or not _is_of_key(found[0][1], wanted.key, prefix):
        return _NO_WINDOWS
    if len(found) <= wanted.limit:
        return WindowPage([value for _, value in found], None)
    found.pop()
    return WindowPage([value for _, value in found], WindowId(*window_times(found[-1][0])))


def _is_of_key(value: bytes, key: str, prefix: bytes) -> bool:
    """Guard against two long keys with one digest; short keys are in the record key whole."""
    return not is_long(prefix) or value.startswith(b'{"key":%b,' % orjson.dumps(key))
