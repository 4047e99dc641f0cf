"""Reading an index: consistent snapshots in many processes while the tailer writes.

A snapshot is one LMDB read transaction: it neither waits for the writer nor hinders it, and
costs a few microseconds. Snapshots are short: open, read one page, close.
"""

import resource
import time
from collections.abc import Mapping
from functools import cache
from operator import attrgetter

from oriel.storage.definition import StoreKind
from oriel.storage.errors import StoreNotReady
from oriel.storage.index.folder import IndexFolder, PointerStamp
from oriel.storage.index.generation import OpenGeneration, not_usable
from oriel.storage.index.reading.sessions import SessionSnapshot
from oriel.storage.index.reading.snapshot import IndexSnapshot, KeyValueSnapshot

#: Seconds for which the pointer to the current generation is taken as unchanged.
_POINTER_SECONDS = 0.01

#: Which snapshot reads a store of a kind.
_SNAPSHOTS: Mapping[StoreKind, type[IndexSnapshot]] = {
    **dict.fromkeys(StoreKind, IndexSnapshot),
    StoreKind.SESSION: SessionSnapshot,
    StoreKind.NONE: KeyValueSnapshot,
}

#: Readers of this process that have files open; those used longest ago are closed for others.
_open_readers: set["IndexReader"] = set()
#: Indexes that one process keeps open, and descriptors that each of them may take.
_OPEN_MAX = 256
_DESCRIPTORS = 4


class IndexReader:
    """One process's read access to one store's index; follows it from generation to generation.

    Its files are opened by the first read, and closed when others need the place. Not for several
    threads: the API reads on its event loop only.
    """

    def __init__(self, folder: IndexFolder) -> None:
        """Read the index in ``folder``; nothing is opened before the first snapshot."""
        self.folder = folder
        self._generation: OpenGeneration | None = None
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
            try:
                self._follow_pointer()
            except OSError as error:
                # Out of descriptors, no permission, a device that fails: what is open answers.
                if self._generation is None:
                    raise not_usable(error, self.folder.path / "CURRENT") from error
            self._pointer_seen_at = now
        if self._generation is None:
            name = self.folder.path.name
            message = f"the index of store {name!r} is being built. Send the request again"
            raise StoreNotReady(message)
        return _begin(self._generation)

    def reads_open(self) -> int:
        """How many snapshots are open."""
        return 0 if self._generation is None else self._generation.reads_open

    def is_there(self) -> bool:
        """Whether there is an index that was built, damaged or not; opens nothing."""
        try:
            return self.folder.pointer_stamp() is not None
        except OSError:
            return self._generation is not None

    def close(self) -> None:
        """Close the files, with the last open snapshot; the next snapshot opens them again."""
        _open_readers.discard(self)
        if self._generation is not None:
            self._generation.close()
        self._generation = None
        self._pointer = None
        # It is looked for anew, however lately that was.
        self._pointer_seen_at = 0.0

    def _follow_pointer(self) -> None:
        stamp = self.folder.pointer_stamp()
        # A deleted index keeps answering from what is mapped until its successor is there. The
        # stamp is taken before the name is read: if the pointer changes in between, the new
        # generation is opened under the old stamp, and the next look finds the new stamp.
        if stamp is None or stamp == self._pointer:
            return
        current = self.folder.current()
        if current is None:
            return
        self.close()
        self._make_room()
        self._generation = OpenGeneration(current)
        self._pointer = stamp
        _open_readers.add(self)

    def _make_room(self) -> None:
        """Close readers that were used longest ago, if as many are open as may be."""
        idle = [reader for reader in _open_readers if not reader.reads_open()]
        for reader in sorted(idle, key=attrgetter("_pointer_seen_at")):
            if len(_open_readers) < open_indexes_max():
                break
            reader.close()


@cache
def open_indexes_max() -> int:
    """How many indexes this process may keep open: half of its descriptors are for others."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _OPEN_MAX
    return max(1, min(_OPEN_MAX, soft // (2 * _DESCRIPTORS)))


def _begin(generation: OpenGeneration) -> IndexSnapshot:
    txn = generation.begin()
    try:
        state = generation.state(txn)
        return _SNAPSHOTS[state.definition.window.kind](generation, txn, state)
    except BaseException:
        generation.end(txn)
        raise
