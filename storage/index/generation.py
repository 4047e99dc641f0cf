"""One generation of an index, opened so that damage is an error, never a crash.

A generation is one LMDB environment with three databases. LMDB maps its file; touching a page
beyond the end of a truncated file would kill the process (SIGBUS). Opening reads the header only,
so the size is compared with what the header promises before any page is touched, and again before
each read transaction. What a header can't tell (garbled pages) is found by
``oriel.storage.index.check`` in a process of its own.
"""

import errno
import os
from pathlib import Path
from typing import NamedTuple

import lmdb

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.folder import DATA_FILE, damage, mark_damaged
from oriel.storage.index.state import IndexState

#: Address space, not memory or disk: LMDB maps this much once and can't outgrow it, while the
#: file has only the pages that were written.
MAP_BYTES = 1 << 40
#: Slots of the reader table: one for each read transaction that is open, of all processes.
READERS_MAX = 1024

_WINDOWS = b"windows"
_META = b"meta"
_AHEAD = b"ahead"
STATE_KEY = b"state"

#: LMDB errors that say nothing about the file: the same call may work later.
_TRANSIENT = (
    lmdb.ReadersFullError,
    lmdb.BadRslotError,
    lmdb.TlsFullError,
    lmdb.MapFullError,
    lmdb.MapResizedError,
    lmdb.MemoryError,
    lmdb.DiskError,
    lmdb.LockError,
    lmdb.ReadonlyError,
)
#: The texts of the system's errors that say as little. Not of all: LMDB's word for an empty file is
#: that it is none, or a bad descriptor.
_SYSTEM_ERRORS = [
    os.strerror(code)
    for code in (
        errno.EMFILE, errno.ENFILE, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EPERM, errno.ESTALE,
        errno.ETIMEDOUT, errno.ENODEV,
    )
]  # fmt: skip


class Environment(NamedTuple):
    """An open LMDB environment with its databases, of which readers need no ``ahead``."""

    env: lmdb.Environment
    windows: "lmdb._Database"
    meta: "lmdb._Database"
    ahead: "lmdb._Database"
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


def open_for_writing(generation: Path, *, sync: bool) -> Environment:
    """Open a generation for writing, making its files where there are none.

    ``sync`` makes each commit one data sync: a power loss can then undo the last commit, which
    is read again from the log, but never tears the file.

    Raises:
        IndexDamaged: the file can't be an intact index.
        StoreNotReady: it can't be opened now; a retry may do.
    """
    return _open(generation, readonly=False, sync=sync)


def _open(generation: Path, *, readonly: bool, sync: bool) -> Environment:
    try:
        env = lmdb.open(
            os.fspath(generation),
            map_size=MAP_BYTES,
            max_dbs=3,
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
    try:
        return _with_databases(env, generation, create=not readonly)
    except BaseException:
        env.close()
        raise


def _with_databases(env: lmdb.Environment, generation: Path, *, create: bool) -> Environment:
    page_bytes = env.stat()["psize"]
    promised = (env.info()["last_pgno"] + 1) * page_bytes
    actual = (generation / DATA_FILE).stat().st_size
    if actual < promised:
        message = (
            f"index {generation.parent.name!r} is cut off ({actual} of {promised} bytes); it is "
            "being rebuilt, retry"
        )
        raise IndexDamaged(message)
    try:
        # A reader that was killed holds its slot, and with it all pages that it could see.
        env.reader_check()
        windows = env.open_db(_WINDOWS, create=create)
        meta = env.open_db(_META, create=create)
        ahead = env.open_db(_AHEAD, create=create)
    except lmdb.NotFoundError as error:
        index = f"index {generation.parent.name!r}"
        message = f"{index} was written in another format; it is being rebuilt, retry"
        raise IndexDamaged(message) from error
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    return Environment(env, windows, meta, ahead, page_bytes)


def storage_error(error: lmdb.Error, generation: Path) -> StoreNotReady:
    """Translate an LMDB error: damaged, or only not usable now."""
    index = f"index {generation.parent.name!r}"
    if isinstance(error, _TRANSIENT) or _is_of_the_system(error):
        return StoreNotReady(f"{index} can't be used now ({error}); retry")
    return IndexDamaged(f"{index} is damaged ({error}); it is being rebuilt, retry")


def _is_of_the_system(error: lmdb.Error) -> bool:
    """Whether the operating system failed: for its errors LMDB has texts, but few classes."""
    return type(error) is lmdb.Error and any(text in str(error) for text in _SYSTEM_ERRORS)


class OpenGeneration:
    """A generation open for reading, and its state, read again only when it has changed."""

    def __init__(self, path: Path) -> None:
        """Open it.

        Raises:
            IndexDamaged: its file can't be an intact index, or a reader said so.
            StoreNotReady: it can't be opened now; a retry may do.
        """
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
        self._file = os.open(path / DATA_FILE, os.O_RDONLY)
        self._promised_bytes = 0
        self._state_txn_id = -1
        self._state: IndexState | None = None

    def begin(self) -> "lmdb.Transaction[bytes]":
        """Begin a read transaction, after a look at the file's size.

        Raises:
            IndexDamaged: the file was cut off.
            StoreNotReady: no transaction can begin now; a retry may do.
        """
        # The size that the last state read promised: the file only grows, so what is smaller
        # was cut off. One fstat costs less than a microsecond.
        if os.fstat(self._file).st_size < self._promised_bytes:
            message = f"index {self.path.parent.name!r} was cut off; it is being rebuilt"
            mark_damaged(self.path, message)
            raise IndexDamaged(message)
        try:
            return self.environment.env.begin()
        except lmdb.Error as error:
            raise self.failed(error) from error

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
                state_json = txn.get(STATE_KEY, db=self.environment.meta)
                self._state = IndexState.from_json(state_json)
            except lmdb.Error as error:
                raise self.failed(error) from error
            except IndexDamaged as error:
                mark_damaged(self.path, str(error))
                raise
            self._state_txn_id = transaction_id
            self._promised_bytes = self.environment.promised_bytes()
        return self._state

    def failed(self, error: lmdb.Error) -> StoreNotReady:
        """Translate an LMDB error, and leave word for the tailer when it means damage."""
        translated = storage_error(error, self.path)
        if isinstance(translated, IndexDamaged):
            mark_damaged(self.path, str(error))
        return translated

    def close(self) -> None:
        """Close the files; no snapshot of this generation may be open."""
        self.environment.env.close()
        os.close(self._file)
