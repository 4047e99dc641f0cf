"""One generation of an index. Damage raises an error and does not crash the process.

A generation is one LMDB environment with four databases, or five if its store keeps partial
aggregates. LMDB maps its file. If the file was cut
off, access to a page after its end kills the process (SIGBUS). Opening reads only the header. So
the file size is compared with the size in the header before a page is accessed, and again before
each read transaction. The header does not show corrupt pages. ``oriel.storage.index.check`` finds
them in its own process.
"""

import mmap
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import lmdb

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.checksums import checked_content
from oriel.storage.index.directory import DATA_FILE, are_reads_blocked, damage, mark_damaged
from oriel.storage.index.state import IndexState

#: Size of the map of an index that is being built. It uses address space, not memory or disk.
BUILD_MAP_BYTES = 1 << 40
#: Size of the map of an existing index: a multiple of its file, and a minimum. The index can grow
#: in this map, and one process can map thousands of indexes. A reader or writer that reaches the
#: end of its map enlarges it.
_MAP_FACTOR = 16
_MAP_BYTES_MIN = 1 << 28
#: Slots of the reader table: one per open read transaction, for all processes.
READERS_MAX = 1024

#: LMDB's reader table: two header blocks, then one block per slot.
LOCK_FILE = "lock.mdb"
LOCK_BLOCK_BYTES, LOCK_BLOCKS = 64, 2
_LOCK_BYTES = LOCK_BLOCK_BYTES * (LOCK_BLOCKS + READERS_MAX)
_STAT_BLOCK_BYTES = 512

_WINDOWS = b"windows"
_META = b"meta"
_AHEAD = b"ahead"
_LENGTHS = b"lengths"
_PARTIALS = b"partials"
STATE_KEY = b"state"

#: A writer extends its file right after a commit. If a reader finds a short file, it checks this
#: often whether the file grows, with a pause in seconds.
_EXTENDED_CHECKS, _EXTENDED_SECONDS = 10, 0.01

#: LMDB errors that do not show damage: the same call can succeed later.
_TRANSIENT = (
    lmdb.ReadersFullError,
    lmdb.BadRslotError,
    lmdb.BadTxnError,
    lmdb.TlsFullError,
    lmdb.MapFullError,
    lmdb.MapResizedError,
    lmdb.MemoryError,
    lmdb.DiskError,
    lmdb.LockError,
    lmdb.ReadonlyError,
    # A write of a commit failed. The writer opens the file again, which is as before the commit.
    lmdb.PanicError,
)


class Environment(NamedTuple):
    """An open LMDB environment with its databases.

    Attributes:
        env: The environment.
        windows: Record key -> JSON.
        meta: The ``IndexState``.
        ahead: Record key -> revision. Readers do not need it.
        lengths: Sessions by length class. It is empty for other windows.
        page_bytes: The size of a page.
        partials: Record key -> partial aggregates. None if the store does not keep them.
    """

    env: lmdb.Environment
    windows: "lmdb._Database"
    meta: "lmdb._Database"
    ahead: "lmdb._Database"
    lengths: "lmdb._Database"
    page_bytes: int
    partials: "lmdb._Database | None" = None

    def required_bytes(self) -> int:
        """Return the minimum size of the file in bytes, by LMDB's number of the last page."""
        return int((self.env.info()["last_pgno"] + 1) * self.page_bytes)

    def extend(self, generation: Path) -> None:
        """Extend the file to its last page, after the commit of a whole file.

        LMDB does not write pages that one transaction allocates and frees. If they are the last
        pages, the file would be shorter than ``required_bytes``, like a file that was cut off.

        Raises:
            StoreNotReady: the file could not be extended.
        """
        required = self.required_bytes()
        try:
            if (generation / DATA_FILE).stat().st_size < required:
                os.truncate(generation / DATA_FILE, required)
        except OSError as error:
            raise not_usable(error, generation) from error


def open_for_reading(generation: Path) -> Environment:
    """Open a complete generation for reading.

    Raises:
        IndexDamaged: the file can't be an intact index.
        StoreNotReady: it can't be opened now. A retry can succeed.
    """
    return _open(generation, readonly=True, sync=True)


def open_for_writing(
    generation: Path, *, sync: bool, map_bytes: int | None = None, has_partials: bool = False
) -> Environment:
    """Open a generation for writing. If its files do not exist, create them.

    Args:
        generation: The directory of the generation.
        sync: True to sync each commit once. A power loss can then lose the last commit, which the
            tailer applies again from the log. It does not corrupt the file.
        map_bytes: The size of the map. None: the size that the file needs.
        has_partials: True to create the database of partial aggregates.

    Raises:
        IndexDamaged: the file can't be an intact index.
        StoreNotReady: it can't be opened now. A retry can succeed.
    """
    return _open(
        generation, readonly=False, sync=sync, map_bytes=map_bytes, has_partials=has_partials
    )


def _open(
    generation: Path,
    *,
    readonly: bool,
    sync: bool,
    map_bytes: int | None = None,
    has_partials: bool = False,
) -> Environment:
    try:
        size = (generation / DATA_FILE).stat().st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        if readonly:
            message = (
                f"index {generation.parent.name!r} was deleted. The service rebuilds it. Send "
                "the request again"
            )
            raise IndexDamaged(message) from error
        size = 2 * mmap.PAGESIZE
    except OSError as error:
        raise not_usable(error, generation) from error
    # LMDB treats an empty file as a new one. If a file is shorter than its two headers, LMDB
    # reports the same error as for a system failure.
    if size < 2 * mmap.PAGESIZE:
        message = (
            f"index {generation.parent.name!r} is cut off ({size} bytes). The service rebuilds it"
        )
        raise IndexDamaged(message)
    if (generation / LOCK_FILE).is_dir():
        message = (
            f"{generation / LOCK_FILE} is a directory. The service rebuilds the index. Send "
            "the request again"
        )
        raise IndexDamaged(message)
    try:
        if not readonly:
            _reserve_lock_file(generation / LOCK_FILE)
        env = lmdb.open(
            os.fspath(generation),
            map_size=map_bytes or _map_bytes(size),
            max_dbs=5,
            max_readers=READERS_MAX,
            readonly=readonly,
            create=not readonly,
            sync=sync,
            # Skip the second sync of a commit, for the page that points to the new data. The data
            # is on disk before this page is written, so the file stays consistent. A power loss can
            # lose the commit. Then the tailer applies the version again.
            metasync=False,
            # Read-ahead only helps scans of a whole file. These reads need a few pages each.
            readahead=False,
        )
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    except OSError as error:
        raise not_usable(error, generation) from error
    try:
        return _with_databases(env, generation, create=not readonly, has_partials=has_partials)
    except BaseException:
        env.close()
        raise


def _reserve_lock_file(path: Path) -> None:
    """Allocate the blocks of the lock file. LMDB maps it, so a full disk would kill the process."""
    with suppress(FileNotFoundError):
        # Only if blocks are missing, because closing the file releases this process's locks on it.
        if path.stat().st_blocks * _STAT_BLOCK_BYTES >= _LOCK_BYTES:
            return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, _LOCK_BYTES)
    finally:
        os.close(descriptor)


def _map_bytes(file_bytes: int) -> int:
    """Return the size of the map for a file: a power of two."""
    return 1 << (max(_MAP_BYTES_MIN, _MAP_FACTOR * file_bytes) - 1).bit_length()


def _with_databases(
    env: lmdb.Environment, generation: Path, *, create: bool, has_partials: bool
) -> Environment:
    page_bytes = env.stat()["psize"]
    required = (env.info()["last_pgno"] + 1) * page_bytes
    try:
        actual = _size_of((generation / DATA_FILE).stat, required)
    except OSError as error:
        raise not_usable(error, generation) from error
    if actual < required:
        message = (
            f"index {generation.parent.name!r} is cut off ({actual} of {required} bytes). The "
            "service rebuilds it. Send the request again"
        )
        raise IndexDamaged(message)
    try:
        windows = env.open_db(_WINDOWS, create=create)
        meta = env.open_db(_META, create=create)
        ahead = env.open_db(_AHEAD, create=create)
        lengths = env.open_db(_LENGTHS, create=create)
    except lmdb.NotFoundError as error:
        index = f"index {generation.parent.name!r}"
        message = f"{index} has another format. The service rebuilds it. Send the request again"
        raise IndexDamaged(message) from error
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    try:
        partials = env.open_db(_PARTIALS, create=has_partials)
    except lmdb.NotFoundError:
        # Only the index of a mergeable store has it.
        partials = None
    return Environment(env, windows, meta, ahead, lengths, page_bytes, partials)


def _size_of(stat: Callable[[], os.stat_result], required: int) -> int:
    """Return the size of a file. If it is less than required, wait for a writer to extend it."""
    size = stat().st_size
    for _ in range(_EXTENDED_CHECKS):
        if size >= required:
            break
        time.sleep(_EXTENDED_SECONDS)
        size = stat().st_size
    return size


def storage_error(error: lmdb.Error, generation: Path) -> StoreNotReady:
    """Translate an LMDB error: the index is damaged, or it can't be used now."""
    # An error without its own class is a system error: permissions, descriptors, devices.
    if isinstance(error, _TRANSIENT) or type(error) is lmdb.Error:
        return not_usable(error, generation)
    index = f"index {generation.parent.name!r}"
    return IndexDamaged(
        f"{index} is damaged ({error}). The service rebuilds it. Send the request again"
    )


def not_usable(error: Exception, generation: Path) -> StoreNotReady:
    """Return the error for a system failure, which does not show damage."""
    return StoreNotReady(
        f"index {generation.parent.name!r} cannot be used now ({error}). Send the request again"
    )


class OpenGeneration:
    """A generation that is open for reading, and its state, which is read again after a change."""

    def __init__(self, path: Path) -> None:
        """Open the generation.

        Raises:
            IndexDamaged: the file can't be an intact index, or the generation is marked as damaged.
            StoreNotReady: it can't be opened now, or it is not verified yet. A retry can succeed.
        """
        self.path = path
        try:
            reason = damage(path)
            is_unverified = are_reads_blocked(path)
        except OSError as error:
            raise not_usable(error, path) from error
        if reason is not None:
            message = f"index {path.parent.name!r} is damaged ({reason}). The service rebuilds it"
            raise IndexDamaged(message)
        if is_unverified:
            message = f"index {path.parent.name!r} is being verified. Send the request again"
            raise StoreNotReady(message)
        try:
            self.environment: Environment = open_for_reading(path)
        except IndexDamaged as error:
            mark_damaged(path, str(error))
            raise
        try:
            self._file = os.open(path / DATA_FILE, os.O_RDONLY)
        except OSError as error:
            self.environment.env.close()
            raise not_usable(error, path) from error
        self._required_bytes = 0
        self._state_txn_id = -1
        self._state: IndexState | None = None
        #: The number of open read transactions, and whether the end of the last one closes the
        #: files.
        self.reads_open = 0
        self._is_closing = False

    def begin(self) -> "lmdb.Transaction[bytes]":
        """Check the size of the file and begin a read transaction. Call ``end`` to end it.

        Raises:
            IndexDamaged: the file was cut off.
            StoreNotReady: no transaction can begin now. A retry can succeed.
        """
        # The last read of the state also read the required size. The file only grows, so a smaller
        # file was cut off. One fstat costs less than a microsecond.
        size, required = os.fstat(self._file).st_size, self._required_bytes
        if size < required and _size_of(partial(os.fstat, self._file), required) < required:
            message = f"index {self.path.parent.name!r} was cut off. The service rebuilds it"
            mark_damaged(self.path, message)
            raise IndexDamaged(message)
        try:
            txn = self._begin()
        except lmdb.Error as error:
            raise self.failed(error) from error
        self.reads_open += 1
        return txn

    def _begin(self) -> "lmdb.Transaction[bytes]":
        try:
            return self.environment.env.begin()
        except lmdb.MapResizedError:
            # The writer outgrew this map. A map cannot be replaced while a read transaction is
            # open.
            if self.reads_open:
                raise
            self.environment.env.set_mapsize(_map_bytes(os.fstat(self._file).st_size))
            return self.environment.env.begin()

    def end(self, txn: "lmdb.Transaction[bytes]") -> None:
        """End a read transaction."""
        txn.abort()
        self.reads_open -= 1
        if self._is_closing and not self.reads_open:
            self._close()

    def state(self, txn: "lmdb.Transaction[bytes]") -> IndexState:
        """Return the state that a read transaction sees.

        Raises:
            IndexDamaged: the state is missing or can't be read.
        """
        # A read transaction has the id of the write transaction that it sees. State and rows are
        # written together, so an equal id means an equal state.
        transaction_id = txn.id()
        if self._state is None or transaction_id != self._state_txn_id:
            try:
                value = txn.get(STATE_KEY, db=self.environment.meta)
                self._state = IndexState.from_json(checked_content(STATE_KEY, value))
            except lmdb.Error as error:
                raise self.failed(error) from error
            except IndexDamaged as error:
                mark_damaged(self.path, str(error))
                raise
            self._check_owner(self._state)
            self._state_txn_id = transaction_id
            self._required_bytes = self.environment.required_bytes()
        return self._state

    def _check_owner(self, state: IndexState) -> None:
        name = self.path.parent.name
        if state.store not in ("", name):
            message = (
                f"index {name!r} belongs to store {state.store!r}. The service rebuilds it. Send "
                "the request again"
            )
            mark_damaged(self.path, message)
            raise IndexDamaged(message)

    def failed(self, error: lmdb.Error) -> StoreNotReady:
        """Translate an LMDB error. If it shows damage, mark the generation as damaged."""
        translated = storage_error(error, self.path)
        if isinstance(translated, IndexDamaged):
            mark_damaged(self.path, str(error))
        return translated

    def close(self) -> None:
        """Close the files now, or when the last open read transaction ends."""
        self._is_closing = True
        if not self.reads_open:
            self._close()

    def _close(self) -> None:
        self.environment.env.close()
        os.close(self._file)
