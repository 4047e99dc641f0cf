"""Look through a whole index for damage, in a process of its own.

    python -m oriel.storage.index GENERATION [PARENT_PID [TABLE SHARD]]

Garbled pages can crash LMDB, so nothing of the index is trusted here: first the file's
structure is walked byte by byte without LMDB (``lmdb.verify``), then each record must have its
checksum and the state be readable. Measured: 8 s per million windows.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import islice
from pathlib import Path

import lmdb
import lmdb.verify

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.files import data_folder, uri
from oriel.storage.index.checksums import check, checked_content
from oriel.storage.index.generation import STATE_KEY, open_for_reading, storage_error
from oriel.storage.index.state import IndexState
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.shards import Shard

#: Signals by which a process dies of what it reads; of others (no memory left) it is killed.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)

#: The priority of a check of an index that is in use: everything else comes first.
_LOWEST_PRIORITY = 19

#: Records that are compared with their checksums at once.
_CHUNK = 1_000


def find_damage(generation: Path) -> str | None:
    """Look through a generation; returns what is wrong with it, None when nothing is.

    Raises:
        StoreNotReady, OSError: it could not be looked through, which says nothing about it.
    """
    # A writer may commit meanwhile, between two looks at the file's size and its headers. Damage is
    # there again the second time.
    problem = _structure_problem(generation) and _structure_problem(generation)
    if problem is not None:
        return problem
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


def _structure_problem(generation: Path) -> str | None:
    with ExitStack() as stack:
        with suppress(lmdb.Error, OSError):
            # While a read transaction is open, no page that is in use now is written again.
            env = stack.enter_context(lmdb.open(str(generation), readonly=True, create=False))
            stack.enter_context(env.begin())
        try:
            problems = lmdb.verify.verify(str(generation))  # type: ignore[no-untyped-call]
        except (lmdb.verify.VerifyError, FileNotFoundError) as error:
            return str(error)
    return str(problems[0]) if problems else None


def _check_records(generation: Path) -> None:
    opened = open_for_reading(generation)
    try:
        with opened.env.begin() as txn:
            value = txn.get(STATE_KEY, db=opened.meta)
            IndexState.from_json(checked_content(STATE_KEY, value))
            for database in (opened.windows, opened.lengths, opened.ahead):
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
    check = subprocess.run(_command(generation), capture_output=True, text=True, check=False)  # noqa: S603
    outcome_of_look(generation, check.returncode, check.stdout, check.stderr)


def start_look(generation: Path) -> "subprocess.Popen[str]":
    """Begin to look through a generation that is used, at the lowest priority.

    A file at rest is compared with its digest instead; ``outcome_of_look`` says what was found.
    """
    return _start(generation)


def start_comparison(generation: Path, table: Path, shard: Shard) -> "subprocess.Popen[str]":
    """Begin to compare a generation that is used with its table, at the lowest priority."""
    return _start(generation, uri(table), str(shard))


def _start(generation: Path, *compared: str) -> "subprocess.Popen[str]":
    command = [*_command(generation), str(os.getpid()), *compared]
    # Arrow would use all cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def outcome_of_look(
    generation: Path, code: int, output: str, errors: str, *, is_comparison: bool = False
) -> None:
    """Say what a look, or a comparison, that ended with this exit code found.

    Raises:
        IndexDamaged: something is wrong, or the check crashed.
        StoreNotReady: the check could not be made; a retry may do.
    """
    if code == 0:
        return
    index = f"index {generation.parent.name!r}"
    found = output.strip()
    # A crash says nothing on stdout, and is a finding, too. Of a comparison, the table can be why.
    if found or (-code in _CRASHES and not is_comparison):
        message = f"{index} is damaged: {found or f'the check ended with code {code}'}"
        raise IndexDamaged(message)
    last_line = errors.strip().rpartition("\n")[2]
    done = "compared with its table" if is_comparison else "checked"
    message = f"{index} cannot be {done} ({last_line or code}). Trying again"
    raise StoreNotReady(message)


def _command(generation: Path) -> list[str]:
    return [sys.executable, "-m", "oriel.storage.index", str(generation)]


def _stay_in_background(parent_pid: str) -> None:
    end_with_parent(int(parent_pid))
    # If the memory is not enough for all, no other process is to end.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.nice(_LOWEST_PRIORITY)


def main(
    arguments: list[str],
    check_at_rest: Callable[[Path], bool],
    differences: Callable[[Path, Path, Shard], Iterable[str]],
) -> int:
    """Check the generation that the command line names; 0 means no damage.

    ``check_at_rest`` is False if there is no digest to compare.
    """
    path = Path(arguments[0])
    try:
        match arguments[1:]:
            case [parent, table, shard]:
                _stay_in_background(parent)
                found = differences(path, data_folder(table), Shard.parse(shard))
                damage = "; ".join(found) or None
            case [parent]:
                _stay_in_background(parent)
                damage = None if check_at_rest(path) else find_damage(path)
            case _:
                damage = find_damage(path)
    except IndexDamaged as error:
        damage = str(error)
    if damage is not None:
        sys.stdout.write(damage + "\n")
    return 0 if damage is None else 1
