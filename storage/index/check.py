"""Look through a whole index for damage, in a process of its own.

    python -m oriel.storage.index GENERATION

Garbled pages can crash LMDB, so nothing of the index is trusted here: first the file's
structure is walked byte by byte without LMDB (``lmdb.verify``), then each record must have its
checksum and the state be readable. Measured: 2.5 s per million windows.
"""

import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import lmdb
import lmdb.verify

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.checksums import check, checked_content
from oriel.storage.index.generation import STATE_KEY, open_for_reading, storage_error
from oriel.storage.index.state import IndexState

#: Signals by which a process dies of what it reads; of others (no memory left) it is killed.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)

#: Records that are compared with their checksums at once.
_CHUNK = 1_000


def find_damage(generation: Path) -> str | None:
    """Look through a generation; returns what is wrong with it, None when nothing is.

    Raises:
        StoreNotReady, OSError: it could not be looked through, which says nothing about it.
    """
    try:
        problems = lmdb.verify.verify(str(generation))  # type: ignore[no-untyped-call]
    except (lmdb.verify.VerifyError, FileNotFoundError) as error:
        return str(error)
    if problems:
        return str(problems[0])
    # Only a file whose structure is whole is opened.
    try:
        _check_records(generation)
    except IndexDamaged as error:
        return str(error)
    except lmdb.Error as error:
        translated = storage_error(error, generation)
        if isinstance(translated, IndexDamaged):
            return str(translated)
        raise translated from error
    return None


def _check_records(generation: Path) -> None:
    opened = open_for_reading(generation)
    try:
        with opened.env.begin() as txn:
            value = txn.get(STATE_KEY, db=opened.meta)
            IndexState.from_json(checked_content(STATE_KEY, value))
            for database in (opened.windows, opened.lengths):
                records = iter(txn.cursor(database))
                while chunk := list(islice(records, _CHUNK)):
                    check(chunk)
    finally:
        opened.env.close()


def check_in_own_process(generation: Path) -> None:
    """Run ``find_damage`` where a crash harms nobody.

    Raises:
        IndexDamaged: something is wrong, or the check crashed.
        StoreNotReady: the check could not be made; a retry may do.
    """
    command = [sys.executable, "-m", "oriel.storage.index", str(generation)]
    check = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if check.returncode == 0:
        return
    index = f"index {generation.parent.name!r}"
    found = check.stdout.strip()
    # A crash says nothing on stdout, and is a finding, too.
    if found or -check.returncode in _CRASHES:
        message = f"{index} is damaged: {found or f'the check ended with {check.returncode}'}"
        raise IndexDamaged(message)
    last_line = check.stderr.strip().rpartition("\n")[2]
    message = f"{index} could not be checked ({last_line or check.returncode}); trying again"
    raise StoreNotReady(message)


def main(arguments: list[str]) -> int:
    """Check the generation that the command line names; 0 means no damage."""
    damage = find_damage(Path(arguments[0]))
    if damage is not None:
        sys.stdout.write(damage + "\n")
    return 0 if damage is None else 1
