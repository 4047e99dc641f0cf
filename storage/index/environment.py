"""Opening LMDB so that a damaged file is an error, never a crash, and a dead reader no burden.

LMDB maps its file; touching a page beyond the end of a truncated file would kill the process
(SIGBUS). Opening reads the header only, so the size is compared with what the header promises
before any page is touched. What a header can't tell (garbled pages) is found by
``oriel.storage.index.check`` in a process of its own.
"""

import os
from pathlib import Path
from typing import NamedTuple

import lmdb

from oriel.storage.errors import IndexDamaged, StoreNotReady

#: Address space, not memory or disk; LMDB can't outgrow it.
MAP_BYTES = 1 << 40
READERS_MAX = 1024

_WINDOWS = b"windows"
_META = b"meta"
STATE_KEY = b"state"

#: LMDB errors that say nothing about the file: the same call may work later.
_TRANSIENT = (
    lmdb.ReadersFullError,
    lmdb.TlsFullError,
    lmdb.MapFullError,
    lmdb.MemoryError,
    lmdb.DiskError,
    lmdb.LockError,
)


class Environment(NamedTuple):
    """An open LMDB environment with its two databases."""

    env: lmdb.Environment
    windows: "lmdb._Database"
    meta: "lmdb._Database"
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
    """
    return _open(generation, readonly=False, sync=sync)


def storage_error(error: lmdb.Error, generation: Path) -> StoreNotReady:
    """Translate an LMDB error: damaged, or only not usable now."""
    place = f"index {generation.parent.name!r}"
    if isinstance(error, _TRANSIENT):
        return StoreNotReady(f"{place} can't be used now ({error}); retry")
    return IndexDamaged(f"{place} is damaged ({error}); it is being rebuilt, retry")


def _open(generation: Path, *, readonly: bool, sync: bool) -> Environment:
    try:
        env = lmdb.open(
            os.fspath(generation),
            map_size=MAP_BYTES,
            max_dbs=2,
            max_readers=READERS_MAX,
            readonly=readonly,
            create=not readonly,
            sync=sync,
            metasync=False,
            # Reading ahead helps scans of a whole file, ours touch a few pages each.
            readahead=False,
        )
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    try:
        return _with_databases(env, generation, readonly=readonly)
    except BaseException:
        env.close()
        raise


def _with_databases(env: lmdb.Environment, generation: Path, *, readonly: bool) -> Environment:
    page_bytes = env.stat()["psize"]
    promised = (env.info()["last_pgno"] + 1) * page_bytes
    actual = (generation / "data.mdb").stat().st_size
    if actual < promised:
        message = (
            f"index {generation.parent.name!r} is cut off ({actual} of {promised} bytes); it is "
            "being rebuilt, retry"
        )
        raise IndexDamaged(message)
    try:
        env.reader_check()
        windows = env.open_db(_WINDOWS, create=not readonly)
        meta = env.open_db(_META, create=not readonly)
    except lmdb.Error as error:
        raise storage_error(error, generation) from error
    return Environment(env, windows, meta, page_bytes)
