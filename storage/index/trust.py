"""When an index can be trusted: how its writer left it, and who died while reading it.

    UNVERIFIED   readers must wait: nobody has verified the generation since the service started
    WRITTEN      open BOOT                    a writer has the file open, or was killed
                 closed BOOT SIZE DIGEST      the writer closed it; DIGEST is that of the whole file
    DIED         process ids that ended inside a read transaction
    CRASHED      a process crashed inside a read transaction; the look that followed found nothing

A file at rest is compared with its digest, at about 6 GB/s. If its writer was killed, no digest
exists. Then each page and record is verified in a process of its own, at about 8 s per million
windows. A larger index is served meanwhile, because a service that is killed often must stay
available: the scrub verifies it first (``oriel.storage.tailer.scrub``).
"""

import struct
import time
from contextlib import suppress
from pathlib import Path

import lmdb

from oriel.storage.errors import IndexDamaged
from oriel.storage.files import file_digest
from oriel.storage.index.check import check_in_own_process
from oriel.storage.index.folder import (
    DATA_FILE,
    clear_suspicion,
    data_bytes,
    is_suspect,
    leave_mark,
    mark_damaged,
    mark_suspect,
    release,
    require_verification,
)
from oriel.storage.index.generation import LOCK_BLOCK_BYTES, LOCK_BLOCKS, LOCK_FILE

_WRITTEN, _DIED, _CRASHED = "WRITTEN", "DIED", "CRASHED"
_OPEN, _CLOSED = "open", "closed"
#: The system's word on this boot, where it has one (Linux).
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: Bytes of a file up to which readers wait until each page and record is verified: 1 to 2 s.
SMALL_BYTES = 32 << 20
#: Bytes that a digest may read each time, and for each second for which the file was open. The
#: digest then takes at most 1 percent of that time, and an idle large index isn't read for nothing.
_DIGEST_BYTES, _DIGEST_BYTES_A_SECOND = 16 << 20, 100 << 20

#: How a block of LMDB's lock file begins: transaction (all bits set: none) and process id.
_SLOT = struct.Struct("<Qi")
_NO_TXN = (1 << 64) - 1
_DIED_BYTES_MAX = 4096


def note_writing(generation: Path) -> float:
    """Note that a writer opens the file; returns the time that ``note_written`` needs."""
    leave_mark(generation / _WRITTEN, f"{_OPEN} {_boot()}")
    return time.monotonic()


def note_written(generation: Path, opened_at: float) -> None:
    """Note the size and the digest of a file that its writer has closed."""
    with suppress(OSError):
        size = (generation / DATA_FILE).stat().st_size
        allowed = _DIGEST_BYTES + _DIGEST_BYTES_A_SECOND * (time.monotonic() - opened_at)
        if size <= allowed:
            digest = _digest(generation / DATA_FILE)
            leave_mark(generation / _WRITTEN, f"{_CLOSED} {_boot()} {size} {digest}")


def is_open(generation: Path) -> bool:
    """Whether a writer has the file open, or was killed, as far as its mark says."""
    return _written(generation)[:1] == [_OPEN]


def check_at_rest(generation: Path) -> bool:
    """Compare a closed file with its size and digest; False if it has no valid digest to compare.

    Raises:
        IndexDamaged: it is not the file that its writer closed.
    """
    noted = _written(generation)
    try:
        state, boot, size, digest = noted
    except ValueError:
        return False
    if state != _CLOSED or not size.isdecimal():
        return False
    path = generation / DATA_FILE
    if path.stat().st_size == int(size) and _digest(path) == digest:
        return True
    # After a crash of the machine, LMDB may have lost its last commit: an older state, but whole.
    # A file that was written meanwhile has another mark.
    if boot != _boot() or _written(generation) != noted:
        return False
    message = (
        f"index {generation.parent.name!r} is damaged: {path} changed after it was closed. "
        "The service rebuilds it. Send the request again"
    )
    raise IndexDamaged(message)


def verify_found(generation: Path, *, is_held: bool) -> bool:
    """Verify a generation that another process left; False if the scrub is to verify it.

    ``is_held``: readers wait for the result.

    Raises:
        IndexDamaged: it is damaged.
        StoreNotReady: it can't be verified now; a retry may do.
    """
    if not is_suspect(generation):
        if check_at_rest(generation):
            return True
        is_killed = _written(generation) == [_OPEN, _boot()]
        # A killed writer harms nothing: LMDB never writes over pages that are in use. Whatever
        # else damaged the file, readers who have it open would meet as well.
        if is_killed and not (is_held and data_bytes(generation) <= SMALL_BYTES):
            return False
    check_in_own_process(generation)
    clear_suspicion(generation)
    return True


def release_if_sound(generation: Path) -> None:
    """Let readers use a generation that no tailer follows, for its table is away, if it is sound.

    Raises:
        StoreNotReady: it can't be verified now.
    """
    try:
        verify_found(generation, is_held=True)
    except IndexDamaged as error:
        mark_damaged(generation, str(error))
    release(generation)


def note_crash(generation: Path, process: str) -> None:
    """Note that a process crashed in this generation: look through it, rebuild it the second time.

    Readers that open it wait meanwhile, so that a crash is not repeated with each request.
    """
    if (generation / _CRASHED).exists():
        mark_damaged(generation, "two processes crashed while they used it")
        return
    leave_mark(generation / _CRASHED, process)
    mark_suspect(generation, f"{process} crashed while it used the index")
    require_verification(generation)


def was_reading(generation: Path, process_id: int) -> bool:
    """Whether a process ended inside a read transaction; not for one that has the index open."""
    with suppress(OSError, ValueError):
        if process_id in map(int, (generation / _DIED).read_text().split()):
            return True
    return process_id in readers_of_file(generation)


def free_dead_readers(
    env: lmdb.Environment, generation: Path, before: set[int] | None = None
) -> int:
    """Free the places of readers whose process died, which pin pages, and note who they were.

    ``before`` are the readers before ``env`` was opened, which may have cleared the table.
    """
    known = _readers(env) if before is None else before
    freed = env.reader_check()
    if died := known - _readers(env) if freed or before else set():
        with suppress(OSError), (generation / _DIED).open("a") as file:
            if file.tell() < _DIED_BYTES_MAX:
                file.write("".join(f"{process_id}\n" for process_id in sorted(died)))
    return freed


def _readers(env: lmdb.Environment) -> set[int]:
    """The ids of processes that have a read transaction open, as LMDB lists them."""
    lines = (line.split() for line in env.readers().splitlines()[1:])
    return {int(fields[0]) for fields in lines if fields[-1] != "-"}


def readers_of_file(generation: Path) -> set[int]:
    """The ids of processes that have a read transaction open; not for one that has the index open.

    A process that closes the file loses the locks by which LMDB knows that it lives.
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


def _written(generation: Path) -> list[str]:
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
