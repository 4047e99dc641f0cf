"""Read an index: consistent snapshots in many processes while the tailer writes.

A snapshot is one LMDB read transaction. It does not wait for the writer, does not block it, and
costs a few microseconds. Keep snapshots short: open one, read one page, close it.
"""

import resource
import time
from collections.abc import Mapping
from functools import cache
from operator import attrgetter

from oriel.storage.definition import StoreKind
from oriel.storage.errors import StoreNotReady
from oriel.storage.index.directory import IndexDirectory, PointerIdentity
from oriel.storage.index.generation import OpenGeneration, not_usable
from oriel.storage.index.reading.sessions import SessionSnapshot
from oriel.storage.index.reading.snapshot import (
    IndexSnapshot,
    KeyValueSnapshot,
    WindowSnapshot,
)
from oriel.storage.index.reading.versions import VersionedSnapshot

#: Seconds for which the pointer to the current generation is not read again.
_POINTER_SECONDS = 0.01

#: The class of the snapshots of each kind of store.
_SNAPSHOTS: Mapping[StoreKind, type[IndexSnapshot]] = {
    **dict.fromkeys(StoreKind, WindowSnapshot),
    StoreKind.SESSION: SessionSnapshot,
    StoreKind.NONE: KeyValueSnapshot,
    StoreKind.VERSIONED: VersionedSnapshot,
}

#: Readers of this process with open files. The least recently used ones are closed for others.
_open_readers: set["IndexReader"] = set()
#: Maximum number of open indexes of one process, and of descriptors of each.
_OPEN_MAX = 256
_DESCRIPTORS = 4


class IndexReader:
    """Read access of one process to the index of one store, from generation to generation.

    The first read opens the files. They are closed if other readers need the descriptors. Use it in
    one thread only: the API reads on its event loop.
    """

    def __init__(self, directory: IndexDirectory) -> None:
        """Read the index in ``directory``. Nothing is opened before the first snapshot."""
        self.directory = directory
        self._generation: OpenGeneration | None = None
        self._pointer: PointerIdentity | None = None
        self._pointer_seen_at = 0.0

    def snapshot(self) -> IndexSnapshot:
        """Begin to read the newest version.

        Raises:
            StoreNotReady: the index does not exist yet, or it can't be used now.
            IndexDamaged: the index can't be read. It is marked, so that the tailer rebuilds it.
        """
        now = time.monotonic()
        if now - self._pointer_seen_at > _POINTER_SECONDS:
            try:
                self._follow_pointer()
            except OSError as error:
                # The process has no descriptors or no permission, or a device fails. Then the open
                # generation is used.
                if self._generation is None:
                    raise not_usable(error, self.directory.path / "CURRENT") from error
            self._pointer_seen_at = now
        if self._generation is None:
            name = self.directory.path.name
            message = f"the index of store {name!r} is being built. Send the request again"
            raise StoreNotReady(message)
        return _begin(self._generation)

    def reads_open(self) -> int:
        """Return the number of open snapshots."""
        return 0 if self._generation is None else self._generation.reads_open

    def exists(self) -> bool:
        """Return True if an index was built, damaged or not. It opens nothing."""
        try:
            return self.directory.pointer_identity() is not None
        except OSError:
            return self._generation is not None

    def close(self) -> None:
        """Close the files when no snapshot is open. The next snapshot opens them again."""
        _open_readers.discard(self)
        if self._generation is not None:
            self._generation.close()
        self._generation = None
        self._pointer = None
        # The next snapshot reads the pointer again, even if it was read a moment ago.
        self._pointer_seen_at = 0.0

    def _follow_pointer(self) -> None:
        identity = self.directory.pointer_identity()
        # If the index is deleted, the mapped generation is used until a new one exists. The
        # identity of the pointer is read before its content. If the pointer changes in between, the
        # new generation is opened under the old identity, and the next read finds the new identity.
        if identity is None or identity == self._pointer:
            return
        current = self.directory.current()
        if current is None:
            return
        self.close()
        self._close_least_recently_used()
        self._generation = OpenGeneration(current)
        self._pointer = identity
        _open_readers.add(self)

    def _close_least_recently_used(self) -> None:
        """Close the least recently used readers if the maximum number is open."""
        idle = [reader for reader in _open_readers if not reader.reads_open()]
        for reader in sorted(idle, key=attrgetter("_pointer_seen_at")):
            if len(_open_readers) < open_indexes_max():
                break
            reader.close()


@cache
def open_indexes_max() -> int:
    """Return how many indexes this process can keep open, with half of its descriptors."""
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
