"""The one writer of an index: a table version at a time, each in one write transaction."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import lmdb

from oriel.storage.definition import SESSION
from oriel.storage.errors import IndexDamaged
from oriel.storage.index.environment import STATE_KEY, open_for_writing, storage_error
from oriel.storage.index.rows import IndexRows
from oriel.storage.index.state import IndexState
from oriel.storage.key_codec import after_key, prefix_of, window_times

#: Windows deleted, and keys looked at, in one transaction of a sweep.
_SWEEP_STEPS = 20_000


class IndexWriter:
    """Write access to one generation; only one thread of one process may have it."""

    def __init__(self, generation: Path, *, sync: bool = True) -> None:
        """Open a generation, made new if it has no files yet.

        Raises:
            IndexDamaged: its file can't be an intact index.
        """
        self.generation = generation
        self._opened = open_for_writing(generation, sync=sync)

    def state(self) -> IndexState:
        """Read the state of the last applied version.

        Raises:
            IndexDamaged: there is none, or it is of another format.
        """
        try:
            with self._opened.env.begin(db=self._opened.meta) as txn:
                return IndexState.from_json(txn.get(STATE_KEY))
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def apply(self, batches: Iterable[IndexRows], state: IndexState) -> None:
        """Put a table version's rows and its state, all or nothing.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: it could not be written now (disk full).
        """
        try:
            with self._opened.env.begin(write=True) as txn:
                for rows in batches:
                    self._put(txn, rows)
                txn.put(STATE_KEY, state.to_json(), db=self._opened.meta)
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def sweep(self, resume: bytes) -> bytes | None:
        """Delete a bounded number of expired windows, from the record key ``resume`` on.

        Returns:
            Where to go on, or None when the end was reached. Changes no answer: expired
            windows are filtered from every read anyway.
        """
        state = self.state()
        by_end = state.definition.window.kind == SESSION
        try:
            with self._opened.env.begin(db=self._opened.windows, write=True) as txn:
                return _sweep(txn.cursor(), resume, state.earliest_ms, by_end=by_end)
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def forget_dead_readers(self) -> int:
        """Free the slots of readers whose process died, so that they pin no pages."""
        return self._opened.env.reader_check()

    def check_size(self) -> None:
        """Compare the file's size with what it must have.

        Raises:
            IndexDamaged: the file was cut off or is gone.
        """
        try:
            size = (self.generation / "data.mdb").stat().st_size
        except FileNotFoundError as error:
            message = f"index {self.generation.parent.name!r} was deleted; it is being rebuilt"
            raise IndexDamaged(message) from error
        if size < self._opened.promised_bytes():
            message = f"index {self.generation.parent.name!r} was cut off; it is being rebuilt"
            raise IndexDamaged(message)

    def sync(self) -> None:
        """Force everything to disk (for a generation written without ``sync``)."""
        self._opened.env.sync(force=True)

    def close(self) -> None:
        """Close the files; the writer can't be used any more."""
        self._opened.env.close()

    def _put(self, txn: "lmdb.Transaction[bytes]", rows: IndexRows) -> None:
        cursor = txn.cursor(self._opened.windows)
        if not rows.deleted.any():
            cursor.putmulti(zip(rows.keys, rows.values, strict=True))
            return
        kept = ~rows.deleted
        cursor.putmulti(zip(_where(rows.keys, kept), _where(rows.values, kept), strict=True))
        for key in _where(rows.keys, rows.deleted):
            txn.delete(key, db=self._opened.windows)


def _where(items: Sequence[bytes], mask: Iterable[bool]) -> list[bytes]:
    return [item for item, chosen in zip(items, mask, strict=True) if chosen]


def _sweep(
    cursor: "lmdb.Cursor[bytes]", resume: bytes, earliest_ms: int, *, by_end: bool
) -> bytes | None:
    """Skip from key to key; of each, delete what starts (sessions: ends) before ``earliest_ms``."""
    found = cursor.set_range(resume)
    for _ in range(_SWEEP_STEPS):
        if not found:
            return None
        encoded = cursor.key()
        start_ms, end_ms = window_times(encoded)
        if start_ms >= earliest_ms:
            # What starts in time ends in time: the rest of this key stays.
            found = cursor.set_range(after_key(prefix_of(encoded)))
        elif by_end and end_ms >= earliest_ms:
            # Behind a long session that is still visible there may be a short one that isn't.
            found = cursor.next()
        else:
            # Deleting moves the cursor to the next record, if there is one.
            cursor.delete()
            found = bool(cursor.key())
    return cursor.key() if found else None
