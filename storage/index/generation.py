"""One generation of an index, opened so that damage is an error, never a crash.

A generation is one LMDB environment with three databases. LMDB maps its file; touching a page
beyond the end of a truncated file would kill the process (SIGBUS). Opening reads the header only,
so the size is compared with what the header promises before any page is touched, and again before
each read transaction. What a header can't tell (garbled pages) is found by
``oriel.storage.index.check`` in a process of its own.
"""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import lmdb

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.checksums import checked_content
from oriel.storage.index.folder import DATA_FILE, damage, is_unverified, mark_damaged
from oriel.storage.index.state import IndexState

#: What LMDB maps of an index that is being built: address space, not memory or disk.
BUILD_MAP_BYTES = 1 << 40
#: Of an index that is there LMDB maps so many times its file, and at least so many bytes: enough
#: to grow in, and small enough for thousands of indexes in one process. Who comes to the end of its
#: map takes a larger one.
_MAP_FACTOR = 16
_MAP_BYTES_MIN = 1 << 28
#: Slots of the reader table: one for each read transaction that is open, of all processes.
READERS_MAX = 1024

#: LMDB's table of read transactions: two blocks of its own, then one for each.
LOCK_FILE = "lock.mdb"
LOCK_BLOCK_BYTES, LOCK_BLOCKS = 64, 2
_LOCK_BYTES = LOCK_BLOCK_BYTES * (LOCK_BLOCKS + READERS_MAX)
_STAT_BLOCK_BYTES = 512

_WINDOWS = b"windows"
_META = b"meta"
_AHEAD = b"ahead"
_LENGTHS = b"lengths"
STATE_KEY = b"state"

#: LMDB errors that say nothing about the file: the same call may work later.
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
    # A write of a commit failed: the writer opens the file again, which is as it was before.
    lmdb.PanicError,
)


class Environment(NamedTuple):
    """An open LMDB environment with its databases.

    Readers need no ``ahead``; ``lengths`` has records for sessions only.
    """

    env: lmdb.Environment
    windows: "lmdb._Database"
    meta: "lmdb._Database"
    ahead: "lmdb._Database"
    lengths: "lmdb._Database"
    page_bytes: int

    def promised_bytes(self) -> int:
        """The least size in bytes that the file must have by what LMDB knows of it."""
        return int((self.env.info()["last_pgno"] + 1) * self.page_bytes)


def open_for_reading(generation: Path) -> Environment:
    """Open a complete generation for reading.

    Raises:
        IndexDamaged: the file can't be an intact index.
        StoreNotReady: it can't be opened now; a retry may do.
    """
    return _open(generation, readonly=True, sync=True)


def open_for_writing(generation: Path, *, sync: bool, map_bytes: int | None = None) -> Environment:
    """Open a generation for writing, making its files where there are none.

    ``sync`` makes each commit one data sync: a power loss can then undo the last commit, which
    is read again from the log, but never tears the file. ``map_bytes`` is how much is mapped,
    None for what the file needs.

    Raises:
        IndexDamaged: the file can't be an intact index.
        StoreNotReady: it can't be opened now; a retry may do.
    """
    return _open(generation, readonly=False, sync=sync, map_bytes=map_bytes)


def _open(
    generation: Path, *, readonly: bool, sync: bool, map_bytes: int | None = None
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
    # LMDB takes an empty file for a new one, and says of less than its two headers what it says
    # when the system fails.
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
            max_dbs=4,
            max_readers=READERS_MAX,
            readonly=readonly,
            create=not readonly,
            sync=sync,
            # The second sync of a commit, of the page that points to it, is left out. Without it
            # the pages are on disk before the pointer is, so the file stays whole; the commit may
            # be lost, and the tailer applies that version again.
            metasync=False,
            # Reading ahead helps scans of a whole file, ours touch a few pages each.
            readahead=False,
        )
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    except OSError as error:
        raise not_usable(error, generation) from error
    try:
        return _with_databases(env, generation, create=not readonly)
    except BaseException:
        env.close()
        raise


def _reserve_lock_file(path: Path) -> None:
    """Give LMDB's lock file its blocks: LMDB maps it, and a full disk would kill the process."""
    with suppress(FileNotFoundError):
        # Only if blocks are missing. Closing a file ends this process's locks on it.
        if path.stat().st_blocks * _STAT_BLOCK_BYTES >= _LOCK_BYTES:
            return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(descriptor, 0, _LOCK_BYTES)
    finally:
        os.close(descriptor)


def _map_bytes(file_bytes: int) -> int:
    """How much to map of a file: a power of two."""
    return 1 << (max(_MAP_BYTES_MIN, _MAP_FACTOR * file_bytes) - 1).bit_length()


def _with_databases(env: lmdb.Environment, generation: Path, *, create: bool) -> Environment:
    page_bytes = env.stat()["psize"]
    promised = (env.info()["last_pgno"] + 1) * page_bytes
    try:
        actual = (generation / DATA_FILE).stat().st_size
    except OSError as error:
        raise not_usable(error, generation) from error
    if actual < promised:
        message = (
            f"index {generation.parent.name!r} is cut off ({actual} of {promised} bytes). The "
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
    return Environment(env, windows, meta, ahead, lengths, page_bytes)


def storage_error(error: lmdb.Error, generation: Path) -> StoreNotReady:
    """Translate an LMDB error: damaged, or only not usable now."""
    # What has no class of its own is an error of the system: permissions, descriptors, devices.
    if isinstance(error, _TRANSIENT) or type(error) is lmdb.Error:
        return not_usable(error, generation)
    index = f"index {generation.parent.name!r}"
    return IndexDamaged(
        f"{index} is damaged ({error}). The service rebuilds it. Send the request again"
    )


def not_usable(error: Exception, generation: Path) -> StoreNotReady:
    """Say that the system failed, which says nothing about the index."""
    return StoreNotReady(
        f"index {generation.parent.name!r} cannot be used now ({error}). Send the request again"
    )


class OpenGeneration:
    """A generation open for reading, and its state, read again only when it has changed."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            IndexDamaged: its file can't be an intact index, or a reader said so.
            StoreNotReady: it can't be opened now; a retry may do.
        """
        self.path = path
        try:
            reason = damage(path)
            is_held = is_unverified(path)
        except OSError as error:
            raise not_usable(error, path) from error
        if reason is not None:
            message = f"index {path.parent.name!r} is damaged ({reason}). The service rebuilds it"
            raise IndexDamaged(message)
        if is_held:
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
        self._promised_bytes = 0
        self._state_txn_id = -1
        self._state: IndexState | None = None
        #: Read transactions that are open, and whether to close with the last of them.
        self.reads_open = 0
        self._is_closing = False

    def begin(self) -> "lmdb.Transaction[bytes]":
        """Begin a read transaction, after a look at the file's size; ``end`` ends it.

        Raises:
            IndexDamaged: the file was cut off.
            StoreNotReady: no transaction can begin now; a retry may do.
        """
        # The size that the last state read promised: the file only grows, so what is smaller
        # was cut off. One fstat costs less than a microsecond.
        if os.fstat(self._file).st_size < self._promised_bytes:
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
            # The writer outgrew our map. A larger one can't take its place under an open read.
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
        """The state that a read transaction sees.

        Raises:
            IndexDamaged: there is none that can be read.
        """
        # A read transaction has the id of the write transaction that it sees. State and rows are
        # written together, so an equal id is an equal state.
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
            self._promised_bytes = self.environment.promised_bytes()
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
        """Translate an LMDB error, and leave word for the tailer when it means damage."""
        translated = storage_error(error, self.path)
        if isinstance(translated, IndexDamaged):
            mark_damaged(self.path, str(error))
        return translated

    def close(self) -> None:
        """Close the files, with the last read that is open."""
        self._is_closing = True
        if not self.reads_open:
            self._close()

    def _close(self) -> None:
        self.environment.env.close()
        os.close(self._file)
