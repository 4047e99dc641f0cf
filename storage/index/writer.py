"""The only writer of an index: it applies table versions, or fills a new generation.

``IndexWriter.follow`` applies one version after the previous one, in one write transaction.
``IndexWriter.append`` fills an empty generation in key order (``oriel.storage.index.build``). For
both, ``oriel.storage.index.revisions`` defines which row of a window counts. The index keeps
revisions that the pipeline has not reached yet (``RevisionBounds``).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress, repeat
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import numpy as np
import numpy.typing as npt

from oriel.storage.errors import IndexDamaged
from oriel.storage.index.checksums import (
    check,
    checked_content,
    content,
    with_checksum,
    with_checksums,
)
from oriel.storage.index.directory import DATA_FILE, data_bytes
from oriel.storage.index.generation import (
    BUILD_MAP_BYTES,
    STATE_KEY,
    open_for_writing,
    storage_error,
)
from oriel.storage.index.lengths import length_key, length_keys
from oriel.storage.index.revisions import counting, revision_bytes, select_rows
from oriel.storage.index.rows import IndexRows
from oriel.storage.index.state import IndexState, RevisionBounds
from oriel.storage.index.trust import (
    free_dead_readers,
    mark_closed,
    mark_open,
    readers_of_file,
)
from oriel.storage.key_codec import after_key, prefix_of, window_times

#: Maximum number of deleted windows and visited keys in one transaction of a sweep.
_SWEEP_STEPS = 20_000

_Result = TypeVar("_Result")
#: A database with a record for each window, and the function from record key to the key in it.
_KeyIn = tuple[Any, Callable[[bytes], bytes]]
_BELOW_ALL, _ABOVE_ALL = -(2**63), 2**63


class IndexWriter:
    """Write access to one generation. Only one thread of one process can have it."""

    def __init__(self, generation: Path, *, sync: bool = True, has_partials: bool = False) -> None:
        """Open a generation. If it does not have files yet, create them.

        ``has_partials`` creates the database of partial aggregates.

        Raises:
            IndexDamaged: the file can't be an intact index.
            StoreNotReady: it can't be opened now. A retry can succeed.
        """
        self.generation = generation
        self._opened_at = mark_open(generation)
        readers = readers_of_file(generation)
        # Without syncs, the writer fills a new generation whose final size is unknown.
        map_bytes = None if sync else BUILD_MAP_BYTES
        self._opened = open_for_writing(
            generation, sync=sync, map_bytes=map_bytes, has_partials=has_partials
        )
        # A killed reader still has its slot, which pins all pages that it could see.
        free_dead_readers(self._opened.env, generation, readers)

    def state(self) -> IndexState:
        """Read the state of the last applied version.

        Raises:
            IndexDamaged: the state is missing or invalid, or it has another format.
        """
        try:
            with self._opened.env.begin(db=self._opened.meta) as txn:
                return IndexState.from_json(checked_content(STATE_KEY, txn.get(STATE_KEY)))
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def apply(self, batches: Sequence[IndexRows], state: IndexState) -> None:
        """Write rows and the state of a table version in one transaction.

        If a window is in several batches, the last batch counts.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: the file could not be written now (disk full).
        """

        def put(txn: "lmdb.Transaction[bytes]") -> None:
            for rows in batches:
                self._put(txn, rows, state)
            self._put_state(txn, state)

        self._write(put)

    def follow(
        self, batches: Sequence[IndexRows], before: RevisionBounds, state: IndexState
    ) -> None:
        """Apply the rows and the state of the next version in one transaction.

        Args:
            batches: The rows. Each revision must be greater than ``before.settled``. So a row has
                precedence over all other rows of its window, except rows in ``ahead``.
            before: The bounds of the previous version.
            state: The state of the new version.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: the file could not be written now (disk full).
        """
        lowest, highest = revision_range(batches)
        # A batch of the pipeline has each window once, and its revision becomes `settled`.
        is_batch = lowest == highest == state.revisions.settled
        is_above_all = lowest > before.highest

        def put(txn: "lmdb.Transaction[bytes]") -> None:
            if batches and is_above_all and txn.stat(self._opened.ahead)["entries"]:
                txn.drop(self._opened.ahead, delete=False)
            for rows in batches:
                if is_batch and is_above_all:
                    self._put(txn, rows, state)
                    continue
                counted = self._counting(txn, rows)
                self._put(txn, counted, state)
                if not is_batch:
                    _put_ahead(txn.cursor(self._opened.ahead), counted.keys, counted.revisions)
            self._put_state(txn, state)

        self._write(put)

    def append(self, rows: Any, state: IndexState) -> None:
        """Append encoded rows after all existing records.

        Rows with a revision above ``state.revisions.settled`` are also listed in ``ahead``.

        Args:
            rows: Encoded rows, each window once, in key order.
            state: The state of the index.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: the file could not be written now (disk full).
        """
        revisions = rows["revision"].to_numpy()
        is_ahead = revisions > state.revisions.settled
        windows = rows.filter(rows["stands"])
        keys = windows["record"].to_pylist()
        values = list(with_checksums(keys, windows["json"].to_pylist()))
        partials = windows["partials"].to_pylist() if state.definition.partials else None

        def put(txn: "lmdb.Transaction[bytes]") -> None:
            cursor = txn.cursor(self._opened.windows)
            cursor.putmulti(zip(keys, values, strict=True), append=True)
            self._put_lengths(txn, keys, state)
            if partials is not None:
                self._put_partials(txn, keys, partials)
            if is_ahead.any():
                ahead = rows["record"].filter(is_ahead).to_pylist()
                _put_ahead(txn.cursor(self._opened.ahead), ahead, revisions[is_ahead])

        self._write(put)

    def sweep(self, resume: bytes) -> bytes | None:
        """Delete a bounded number of expired windows.

        Results do not change, because every read filters expired windows.

        Args:
            resume: The record key at which to start.

        Returns:
            The record key at which to resume, or None at the end.
        """
        state = self.state()
        expires_by_end = state.definition.window.kind.expires_by_end
        # The databases that have a record for each window.
        other: list[_KeyIn] = []
        if state.definition.window.kind.is_session:
            other.append((self._opened.lengths, length_key))
        if self._opened.partials is not None:
            other.append((self._opened.partials, bytes))

        def sweep(txn: "lmdb.Transaction[bytes]") -> bytes | None:
            cursor = txn.cursor(self._opened.windows)
            return _sweep(txn, cursor, resume, state.earliest_ms, other, by_end=expires_by_end)

        return self._write(sweep)

    def forget_dead_readers(self) -> int:
        """Free the slots of readers whose process died, so that they do not pin pages.

        Returns:
            The number of freed slots.
        """
        return free_dead_readers(self._opened.env, self.generation)

    def check_size(self) -> None:
        """Check that the file is not smaller than LMDB requires.

        Raises:
            IndexDamaged: the file was cut off or deleted.
        """
        try:
            size = (self.generation / DATA_FILE).stat().st_size
        except FileNotFoundError as error:
            message = f"index {self.generation.parent.name!r} was deleted. The service rebuilds it"
            raise IndexDamaged(message) from error
        if size < self._opened.required_bytes():
            message = f"index {self.generation.parent.name!r} was cut off. The service rebuilds it"
            raise IndexDamaged(message)

    def sync(self) -> None:
        """Force all commits to disk. It is only needed for a generation without ``sync``."""
        self._opened.env.sync(force=True)

    def close(self) -> None:
        """Close the files and record the digest. Do not use the writer afterwards."""
        self._opened.env.close()
        mark_closed(self.generation, self._opened_at)

    def _write(self, write_records: Callable[["lmdb.Transaction[bytes]"], _Result]) -> _Result:
        """Run a function in one write transaction. If the map is full, enlarge it and try again."""
        was_whole = data_bytes(self.generation) >= self._opened.required_bytes()
        while True:
            try:
                with self._opened.env.begin(write=True) as txn:
                    result = write_records(txn)
                break
            except lmdb.MapFullError:
                self._opened.env.set_mapsize(2 * self._opened.env.info()["map_size"])
            except lmdb.Error as error:
                raise storage_error(error, self.generation) from error
        # To extend a file that was cut off would hide the damage.
        if was_whole:
            self._opened.extend(self.generation)
        return result

    def _counting(self, txn: "lmdb.Transaction[bytes]", rows: IndexRows) -> IndexRows:
        """Return the rows that count, compared with the revisions in ``ahead``."""
        records = txn.cursor(self._opened.ahead).getmulti(rows.keys)
        check(records)
        known = {key: content(value) for key, value in records}
        return select_rows(rows, counting(rows, known, partial(self._find_window, txn)))

    def _find_window(self, txn: "lmdb.Transaction[bytes]", key: bytes) -> bytes | None:
        return checked_content(key, txn.get(key, db=self._opened.windows))

    def _put_state(self, txn: "lmdb.Transaction[bytes]", state: IndexState) -> None:
        # The state is written in the transaction of the rows, so readers see both of one version.
        value = with_checksum(STATE_KEY, state.to_json())
        txn.put(STATE_KEY, value, db=self._opened.meta)

    def _put(self, txn: "lmdb.Transaction[bytes]", rows: IndexRows, state: IndexState) -> None:
        keys, contents, partials = rows.keys, rows.values, rows.partials
        if rows.deleted.any():
            is_put = ~rows.deleted
            keys, contents = list(compress(keys, is_put)), list(compress(contents, is_put))
            partials = None if partials is None else list(compress(partials, is_put))
            removed = list(compress(rows.keys, rows.deleted))
            for key in removed:
                txn.delete(key, db=self._opened.windows)
                if self._opened.partials is not None:
                    txn.delete(key, db=self._opened.partials)
            if state.definition.window.kind.is_session:
                for key in length_keys(removed):
                    txn.delete(key, db=self._opened.lengths)
        values = with_checksums(keys, contents)
        txn.cursor(self._opened.windows).putmulti(zip(keys, values, strict=True))
        self._put_lengths(txn, keys, state)
        if partials is not None:
            self._put_partials(txn, keys, partials)

    def _put_partials(
        self, txn: "lmdb.Transaction[bytes]", keys: list[bytes], partials: list[bytes]
    ) -> None:
        # The database exists since the index was built.
        cursor = txn.cursor(self._opened.partials)
        cursor.putmulti(zip(keys, with_checksums(keys, partials), strict=True))

    def _put_lengths(
        self, txn: "lmdb.Transaction[bytes]", keys: list[bytes], state: IndexState
    ) -> None:
        if keys and state.definition.window.kind.is_session:
            by_length = sorted(length_keys(keys))
            values = with_checksums(by_length, list(repeat(b"", len(by_length))))
            cursor = txn.cursor(self._opened.lengths)
            cursor.putmulti(zip(by_length, values, strict=True))


def revision_range(batches: Sequence[IndexRows]) -> tuple[int, int]:
    """Return the lowest and the highest revision of rows.

    Without rows, the lowest is greater than the highest of any rows.
    """
    lowest = min((int(rows.revisions.min()) for rows in batches), default=_ABOVE_ALL)
    return lowest, max((int(rows.revisions.max()) for rows in batches), default=_BELOW_ALL)


def _put_ahead(
    cursor: "lmdb.Cursor[bytes]", keys: Sequence[bytes], revisions: npt.NDArray[np.int64]
) -> None:
    """Write the revisions of rows to ``ahead``. They replace lower ones."""
    values = with_checksums(keys, revision_bytes(revisions))
    cursor.putmulti(zip(keys, values, strict=True))


def _sweep(
    txn: "lmdb.Transaction[bytes]",
    cursor: "lmdb.Cursor[bytes]",
    resume: bytes,
    earliest_ms: int,
    other: "Sequence[_KeyIn]",
    *,
    by_end: bool,
) -> bytes | None:
    """For each key, delete the windows that start (sessions: end) before ``earliest_ms``."""
    is_at_record = cursor.set_range(resume)
    for _ in range(_SWEEP_STEPS):
        if not is_at_record:
            return None
        encoded = cursor.key()
        check([cursor.item()])
        start_ms, end_ms = window_times(encoded)
        if start_ms >= earliest_ms:
            # A window that starts in time also ends in time, so the rest of this key stays.
            is_at_record = cursor.set_range(after_key(prefix_of(encoded)))
        elif by_end and end_ms >= earliest_ms:
            # After a long session that is still visible, a short one can have expired.
            is_at_record = cursor.next()
        else:
            for database, key_in in other:
                txn.delete(key_in(encoded), db=database)
            # A deletion moves the cursor to the next record, if one exists.
            cursor.delete()
            is_at_record = bool(cursor.key())
    return cursor.key() if is_at_record else None
