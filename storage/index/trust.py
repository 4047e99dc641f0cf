"""Whether an index can be trusted: marker files for its writer and for crashed readers.

    UNVERIFIED   readers must wait: not verified since the service started
    WRITTEN      open BOOT                   a writer has the file open, or it was killed
                 closed BOOT SIZE DIGEST     the writer closed the file with this digest
    DIED         ids of processes that ended inside a read transaction
    CRASHED      a process crashed inside a read transaction: a second crash leads to a rebuild

A closed file is compared with its digest, at about 6 GB/s. If its writer was killed, it does not
have a digest. Then a subprocess verifies each page and record, at about 8 s per million windows.
Readers wait only for a small index. A larger index is served during this time, because a service
that is killed often must stay available. The scrub verifies it first
(``oriel.storage.tailer.scrub``).
"""

import struct
import time
from contextlib import suppress
from pathlib import Path

import lmdb

from oriel.storage.errors import IndexDamaged
from oriel.storage.files import file_digest
from oriel.storage.index.check import verify_in_subprocess
from oriel.storage.index.directory import (
    DATA_FILE,
    block_reads_until_verified,
    clear_verification_request,
    data_bytes,
    is_verification_requested,
    mark_damaged,
    release,
    request_verification,
    write_marker,
)
from oriel.storage.index.generation import LOCK_BLOCK_BYTES, LOCK_BLOCKS, LOCK_FILE

_WRITTEN, _DIED, _CRASHED = "WRITTEN", "DIED", "CRASHED"
_OPEN, _CLOSED = "open", "closed"
#: The id of this boot of the system (Linux only).
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Maximum size of a file for which readers wait until each page and record is verified: 1 to 2 s.
SMALL_BYTES = 32 << 20
#: Maximum bytes that a digest reads: a fixed part, and a part for each second that the file was
#: open. So digests need at most about 2 percent of the time, and a large idle index is not read
#: after each short use.
_DIGEST_BYTES, _DIGEST_BYTES_PER_SECOND = 16 << 20, 100 << 20

#: The first fields of a slot in LMDB's lock file: transaction id (all bits set: none) and process
#: id.
_SLOT = struct.Struct("<Qi")
_NO_TXN = (1 << 64) - 1
_DIED_BYTES_MAX = 4096


def mark_open(generation: Path) -> float:
    """Record that a writer opens the file.

    Returns:
        The time to pass to ``mark_closed``.
    """
    write_marker(generation / _WRITTEN, f"{_OPEN} {_boot()}")
    return time.monotonic()


def mark_closed(generation: Path, opened_at: float) -> None:
    """Record the size and digest of a file that its writer has closed.

    If a large file was open for a short time, no digest is recorded, and the file keeps its mark as
    open. This limits the cost of digests.

    Args:
        generation: The directory of the generation.
        opened_at: The result of ``mark_open``.
    """
    with suppress(OSError):
        size = (generation / DATA_FILE).stat().st_size
        allowed = _DIGEST_BYTES + _DIGEST_BYTES_PER_SECOND * (time.monotonic() - opened_at)
        if size <= allowed:
            digest = _digest(generation / DATA_FILE)
            write_marker(generation / _WRITTEN, f"{_CLOSED} {_boot()} {size} {digest}")


def is_open(generation: Path) -> bool:
    """Return True if, by its marker file, a writer has the file open or was killed."""
    return _read_written_marker(generation)[:1] == [_OPEN]


def matches_recorded_digest(generation: Path) -> bool:
    """Compare a closed file with its recorded size and digest.

    Returns:
        True if they are equal, False if the file does not have a valid digest.

    Raises:
        IndexDamaged: the file changed after its writer closed it.
    """
    recorded = _read_written_marker(generation)
    try:
        state, boot, size, digest = recorded
    except ValueError:
        return False
    if state != _CLOSED or not size.isdecimal():
        return False
    path = generation / DATA_FILE
    if path.stat().st_size == int(size) and _digest(path) == digest:
        return True
    # After a crash of the machine, LMDB can have lost its last commit. Then the state is older, but
    # consistent. If the file was written in the meantime, its marker file differs.
    if boot != _boot() or _read_written_marker(generation) != recorded:
        return False
    message = (
        f"index {generation.parent.name!r} is damaged: {path} changed after it was closed. "
        "The service rebuilds it. Send the request again"
    )
    raise IndexDamaged(message)


def verify_existing(generation: Path, *, do_readers_wait: bool) -> bool:
    """Verify a generation that another process wrote.

    Args:
        generation: The directory of the generation.
        do_readers_wait: True if readers wait for the result.

    Returns:
        True if it is verified, False if the scrub must verify it.

    Raises:
        IndexDamaged: it is damaged.
        StoreNotReady: it can't be verified now. A retry can succeed.
    """
    if not is_verification_requested(generation):
        if matches_recorded_digest(generation):
            return True
        is_killed = _read_written_marker(generation) == [_OPEN, _boot()]
        # A killed writer does not damage the file, because LMDB never overwrites pages in use. Any
        # other damage also affects readers that have the file open.
        if is_killed and not (do_readers_wait and data_bytes(generation) <= SMALL_BYTES):
            return False
    verify_in_subprocess(generation)
    clear_verification_request(generation)
    return True


def verify_unfollowed(generation: Path) -> None:
    """Verify a generation whose table is unavailable, and let readers use it if it is sound.

    Such a generation is not followed by a tailer. If it is damaged, it is marked as damaged.

    Raises:
        StoreNotReady: it can't be verified now.
    """
    try:
        verify_existing(generation, do_readers_wait=True)
    except IndexDamaged as error:
        mark_damaged(generation, str(error))
    release(generation)


def record_crash(generation: Path, process: str) -> None:
    """Record that a process crashed while it read a generation.

    After the first crash, the tailer verifies the generation. After the second, it rebuilds it.
    Readers that open it wait in the meantime, so that their requests do not repeat the crash.
    """
    if (generation / _CRASHED).exists():
        mark_damaged(generation, "two processes crashed while they used it")
        return
    write_marker(generation / _CRASHED, process)
    request_verification(generation, f"{process} crashed while it used the index")
    block_reads_until_verified(generation)


def ended_in_read(generation: Path, process_id: int) -> bool:
    """Return True if a process ended inside a read transaction.

    Do not call it in a process that has the index open: see ``readers_of_file``.
    """
    with suppress(OSError, ValueError):
        if process_id in map(int, (generation / _DIED).read_text().split()):
            return True
    return process_id in readers_of_file(generation)


def free_dead_readers(
    env: lmdb.Environment, generation: Path, readers_before_open: set[int] | None = None
) -> int:
    """Free the slots of readers whose process died, because they pin pages, and record their ids.

    Args:
        env: The open environment.
        generation: The directory of the generation.
        readers_before_open: The readers before ``env`` was opened, because opening can clear the
            reader table.

    Returns:
        The number of freed slots.
    """
    known = _readers(env) if readers_before_open is None else readers_before_open
    freed = env.reader_check()
    if dead := known - _readers(env) if freed or readers_before_open else set():
        with suppress(OSError), (generation / _DIED).open("a") as file:
            if file.tell() < _DIED_BYTES_MAX:
                file.write("".join(f"{process_id}\n" for process_id in sorted(dead)))
    return freed


def _readers(env: lmdb.Environment) -> set[int]:
    """Return the ids of processes with an open read transaction, from LMDB's reader list."""
    lines = (line.split() for line in env.readers().splitlines()[1:])
    return {int(fields[0]) for fields in lines if fields[-1] != "-"}


def readers_of_file(generation: Path) -> set[int]:
    """Return the ids of processes with an open read transaction, from the lock file.

    Do not call it in a process that has the index open. If a process closes the lock file, it loses
    the locks that show LMDB that the process is alive.
    """
    try:
        blocks = (generation / LOCK_FILE).read_bytes()
    except OSError:
        return set()
    places = range(
        LOCK_BLOCKS * LOCK_BLOCK_BYTES, len(blocks) - LOCK_BLOCK_BYTES + 1, LOCK_BLOCK_BYTES
    )
    found = (_SLOT.unpack_from(blocks, at) for at in places)
    return {process_id for txn, process_id in found if process_id and txn != _NO_TXN}


def _read_written_marker(generation: Path) -> list[str]:
    try:
        return (generation / _WRITTEN).read_text().split()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UnicodeDecodeError):
        return []


def _digest(path: Path) -> str:
    with path.open("rb", buffering=0) as file:
        return file_digest(file)


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
