"""The one writer of an index: a table version at a time, or all of a version from nothing.

``IndexWriter.follow`` puts one version on top of the one before, in one write transaction.
``build_generation`` fills an empty generation with a whole table version, whatever order its
files are in. Which row of a window counts, ``oriel.storage.index.revisions`` says for both. Files
are read one after the other in bounded batches, so memory does not grow with the table; the
highest revision seen of each window is kept in a second, temporary LMDB environment beside the
new generation, and stays for those that are ahead of the pipeline (``RevisionBounds``).

Building measured on 2 cores: a million windows in 4.2 s. It takes up to twice the index's size on
disk; readers are answered from the old generation meanwhile.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from pathlib import Path

import lmdb

from oriel.storage.delta import TableSnapshot
from oriel.storage.errors import IndexDamaged, MissingDataFile
from oriel.storage.files import current_files
from oriel.storage.index.folder import DATA_FILE
from oriel.storage.index.generation import (
    MAP_BYTES,
    STATE_KEY,
    open_for_writing,
    storage_error,
)
from oriel.storage.index.revisions import Standing, counting, only, revision_bytes
from oriel.storage.index.rows import IndexRows, file_extent, file_rows
from oriel.storage.index.state import Extent, IndexState, RevisionBounds
from oriel.storage.key_codec import after_key, prefix_of, window_times

#: Windows deleted, and keys looked at, in one transaction of a sweep.
_SWEEP_STEPS = 20_000

_REVISIONS = "revisions"
_BELOW_ALL, _ABOVE_ALL = -(2**63), 2**63


class IndexWriter:
    """Write access to one generation; only one thread of one process may have it."""

    def __init__(self, generation: Path, *, sync: bool = True) -> None:
        """Open a generation, made new if it has no files yet.

        Raises:
            IndexDamaged: its file can't be an intact index.
            StoreNotReady: it can't be opened now; a retry may do.
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

        Each window must be in ``batches`` once, or the later batch wins.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: it could not be written now (disk full).
        """
        try:
            with self._opened.env.begin(write=True) as txn:
                for rows in batches:
                    self._put(txn, rows)
                # In the transaction of the rows: so a reader's state and rows are of one version.
                txn.put(STATE_KEY, state.to_json(), db=self._opened.meta)
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def follow(
        self, batches: Sequence[IndexRows], before: RevisionBounds, state: IndexState
    ) -> None:
        """Put the rows of a version on top of the one before, and its state, all or nothing.

        ``before`` are the bounds of the version before; each row must be of a higher revision than
        these settle. Then it wins over everything but what is ahead.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: it could not be written now (disk full).
        """
        lowest, highest = revision_range(batches)
        # A batch of the pipeline: it has each window once, of the revision that it settles.
        is_batch = lowest == highest == state.revisions.settled
        is_over_all = lowest > before.highest
        try:
            with self._opened.env.begin(write=True) as txn:
                if batches and is_over_all and txn.stat(self._opened.ahead)["entries"]:
                    txn.drop(self._opened.ahead, delete=False)
                for rows in batches:
                    if is_batch and is_over_all:
                        self._put(txn, rows)
                        continue
                    counted = self._counting(txn, rows)
                    self._put(txn, counted)
                    if not is_batch:
                        _remember(txn.cursor(self._opened.ahead), counted)
                txn.put(STATE_KEY, state.to_json(), db=self._opened.meta)
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def build(self, rows: IndexRows, scratch: lmdb.Environment, state: IndexState) -> int:
        """Put rows of a generation that is being filled, in any order.

        ``scratch`` keeps the highest revision seen of each window. What is of a higher revision
        than ``state`` settles is kept as ahead.

        Returns the highest revision of these rows.

        Raises:
            IndexDamaged: the file is damaged.
            StoreNotReady: it could not be written now (disk full).
        """
        try:
            with self._opened.env.begin(write=True) as txn, scratch.begin(write=True) as seen:
                known = dict(seen.cursor().getmulti(rows.keys))
                counted = only(rows, counting(rows, known, self._standing(txn)))
                _remember(seen.cursor(), counted)
                self._put(txn, counted)
                is_ahead = counted.revisions > state.revisions.settled
                _remember(txn.cursor(self._opened.ahead), only(counted, is_ahead))
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error
        return int(rows.revisions.max())

    def sweep(self, resume: bytes) -> bytes | None:
        """Delete a bounded number of expired windows, from the record key ``resume`` on.

        Returns:
            Where to go on, or None when the end was reached. Changes no answer: expired
            windows are filtered from every read anyway.
        """
        state = self.state()
        expires_by_end = state.definition.window.kind.expires_by_end
        try:
            with self._opened.env.begin(db=self._opened.windows, write=True) as txn:
                return _sweep(txn.cursor(), resume, state.earliest_ms, by_end=expires_by_end)
        except lmdb.Error as error:
            raise storage_error(error, self.generation) from error

    def forget_dead_readers(self) -> int:
        """Free the slots of readers whose process died, so that they pin no pages.

        Returns how many there were.
        """
        return self._opened.env.reader_check()

    def check_size(self) -> None:
        """Compare the file's size with what it must have.

        Raises:
            IndexDamaged: the file was cut off or is gone.
        """
        try:
            size = (self.generation / DATA_FILE).stat().st_size
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

    def _counting(self, txn: "lmdb.Transaction[bytes]", rows: IndexRows) -> IndexRows:
        """The rows that count against what is ahead."""
        known = dict(txn.cursor(self._opened.ahead).getmulti(rows.keys))
        return only(rows, counting(rows, known, self._standing(txn)))

    def _standing(self, txn: "lmdb.Transaction[bytes]") -> Standing:
        return partial(txn.get, db=self._opened.windows)

    def _put(self, txn: "lmdb.Transaction[bytes]", rows: IndexRows) -> None:
        cursor = txn.cursor(self._opened.windows)
        if not rows.deleted.any():
            cursor.putmulti(zip(rows.keys, rows.values, strict=True))
            return
        is_put = ~rows.deleted
        cursor.putmulti(
            zip(compress(rows.keys, is_put), compress(rows.values, is_put), strict=True)
        )
        for key in compress(rows.keys, rows.deleted):
            txn.delete(key, db=self._opened.windows)


def revision_range(batches: Sequence[IndexRows]) -> tuple[int, int]:
    """Lowest and highest revision of rows; of no rows a lowest that no highest reaches."""
    lowest = min((int(rows.revisions.min()) for rows in batches), default=_ABOVE_ALL)
    return lowest, max((int(rows.revisions.max()) for rows in batches), default=_BELOW_ALL)


def _remember(cursor: "lmdb.Cursor[bytes]", rows: IndexRows) -> None:
    """Keep the revisions of rows, which are higher than those kept."""
    cursor.putmulti(zip(rows.keys, revision_bytes(rows.revisions), strict=True))


def _sweep(
    cursor: "lmdb.Cursor[bytes]", resume: bytes, earliest_ms: int, *, by_end: bool
) -> bytes | None:
    """Skip from key to key; of each, delete what starts (sessions: ends) before ``earliest_ms``."""
    is_at_record = cursor.set_range(resume)
    for _ in range(_SWEEP_STEPS):
        if not is_at_record:
            return None
        encoded = cursor.key()
        start_ms, end_ms = window_times(encoded)
        if start_ms >= earliest_ms:
            # What starts in time ends in time: the rest of this key stays.
            is_at_record = cursor.set_range(after_key(prefix_of(encoded)))
        elif by_end and end_ms >= earliest_ms:
            # Behind a long session that is still visible there may be a short one that isn't.
            is_at_record = cursor.next()
        else:
            # Deleting moves the cursor to the next record, if there is one.
            cursor.delete()
            is_at_record = bool(cursor.key())
    return cursor.key() if is_at_record else None


def build_generation(table: Path, snapshot: TableSnapshot, generation: Path) -> IndexState:
    """Fill an empty generation with all windows of a table version, synced to disk.

    Raises:
        MissingDataFile: a file of the version is not there; a newer version may not need it.
        CorruptLog: a file of it can't be read.
        StoreNotReady: it could not be written (disk full).
    """
    files = {name: table / name for name in snapshot.files}
    # Before anything is read: what is gone is told at no cost.
    for path in files.values():
        if not current_files().exists(path):
            message = f"the data file {path} is not there"
            raise MissingDataFile(message)
    extents = [
        file_extent(path, snapshot.definition, snapshot.kept.get(name))
        for name, path in files.items()
    ]
    state = IndexState(
        table_id=snapshot.table_id,
        version=snapshot.version,
        digest=snapshot.digest,
        definition=snapshot.definition,
        record=snapshot.record,
        extent=Extent().joined(extents),
        revisions=RevisionBounds(snapshot.batch, snapshot.batch),
    )
    # One sync at the end: nobody reads the generation before it is published.
    writer = IndexWriter(generation, sync=False)
    try:
        highest = _fill(writer, files, snapshot, state)
        state = replace(state, revisions=RevisionBounds(snapshot.batch, highest))
        writer.apply([], state)
        writer.sync()
    finally:
        writer.close()
    return state


def _fill(
    writer: IndexWriter, files: Mapping[str, Path], snapshot: TableSnapshot, state: IndexState
) -> int:
    """Put the rows of all files; returns the highest revision among them and the batches."""
    folder = writer.generation / _REVISIONS
    folder.mkdir()
    scratch = lmdb.open(os.fspath(folder), map_size=MAP_BYTES, sync=False, lock=False)
    highest = state.revisions.highest
    try:
        for name, path in files.items():
            kept = snapshot.kept.get(name)
            for rows in file_rows(path, state.definition, state.earliest_ms, kept):
                highest = max(highest, writer.build(rows, scratch, state))
    finally:
        scratch.close()
        shutil.rmtree(folder)
    return highest
