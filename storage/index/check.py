"""Verify a whole index in its own process.

    python -m oriel.storage.index GENERATION [PARENT_PID [TABLE SHARD]]

Corrupt pages can crash LMDB. So the check first walks the structure of the file byte by byte
without LMDB (``lmdb.verify``). Then it verifies the checksum of each record and reads the state.
Measured: 8 s per million windows.
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
from oriel.storage.files import parse_data_directory, uri
from oriel.storage.index.checksums import check, checked_content
from oriel.storage.index.generation import STATE_KEY, open_for_reading, storage_error
from oriel.storage.index.state import IndexState
from oriel.storage.parent_watch import end_with_parent
from oriel.storage.shards import Shard

#: Signals of a process that crashes on damaged pages. Other signals do not show damage, for example
#: SIGKILL when memory runs out.
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)

#: The niceness of a check of an index that is in use: the lowest priority.
_LOWEST_PRIORITY = 19

#: Records that are verified by one call.
_CHUNK = 1_000


def find_damage(generation: Path) -> str | None:
    """Verify a generation.

    Returns:
        The first problem, or None if the generation is sound.

    Raises:
        StoreNotReady, OSError: the generation could not be verified. This does not show damage.
    """
    # A commit between the reads of the file's size and of its headers can look like damage. Real
    # damage appears in both checks.
    problem = _structure_problem(generation) and _structure_problem(generation)
    if problem is not None:
        return problem
    # Read records only if the structure is sound.
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
            # While a read transaction is open, LMDB does not overwrite pages that are in use now.
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
            databases = [opened.windows, opened.lengths, opened.ahead]
            if opened.partials is not None:
                databases.append(opened.partials)
            for database in databases:
                records = iter(txn.cursor(database))
                while chunk := list(islice(records, _CHUNK)):
                    check(chunk)
    finally:
        opened.env.close()


def verify_in_subprocess(generation: Path) -> None:
    """Verify a generation in a subprocess, so that a crash does not end this process.

    Raises:
        IndexDamaged: the generation is damaged, or the check crashed.
        StoreNotReady: the check could not run. A retry can succeed.
    """
    check = subprocess.run(_command(generation), capture_output=True, text=True, check=False)  # noqa: S603
    raise_findings(generation, check.returncode, check.stdout, check.stderr)


def start_verification(generation: Path) -> "subprocess.Popen[str]":
    """Start a subprocess that verifies a generation in use, at the lowest priority.

    For a closed file with a digest, it only compares the digest. Pass the result of the process to
    ``raise_findings``.
    """
    return _start(generation)


def start_comparison(generation: Path, table: Path, shard: Shard) -> "subprocess.Popen[str]":
    """Start a subprocess that compares a generation with its table, at the lowest priority."""
    return _start(generation, uri(table), str(shard))


def _start(generation: Path, *compared: str) -> "subprocess.Popen[str]":
    command = [*_command(generation), str(os.getpid()), *compared]
    # By default, Arrow uses all cores.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def raise_findings(
    generation: Path, code: int, output: str, errors: str, *, is_comparison: bool = False
) -> None:
    """Evaluate a finished verification or comparison.

    Args:
        generation: The generation that was checked.
        code: The exit code of the process.
        output: The text that the process wrote to stdout.
        errors: The text that the process wrote to stderr.
        is_comparison: True for a comparison with the table.

    Raises:
        IndexDamaged: the generation is damaged, or the verification crashed.
        StoreNotReady: the check could not run. A retry can succeed.
    """
    if code == 0:
        return
    index = f"index {generation.parent.name!r}"
    found = output.strip()
    # A crash writes nothing to stdout, but it also shows damage. In a comparison, the table can be
    # the cause of the crash.
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
    # If memory runs out, the kernel kills this process first.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    os.nice(_LOWEST_PRIORITY)


def main(
    arguments: list[str],
    matches_recorded_digest: Callable[[Path], bool],
    differences: Callable[[Path, Path, Shard], Iterable[str]],
) -> int:
    """Check the generation that the command line names.

    Args:
        arguments: The generation, then optionally the process id of the parent, the table and the
            shard.
        matches_recorded_digest: Compares a closed file with its digest. Returns False if no digest
            exists.
        differences: Returns the differences between a generation and its table.

    Returns:
        The exit code: 0 if no damage was found, otherwise 1.
    """
    path = Path(arguments[0])
    try:
        match arguments[1:]:
            case [parent, table, shard]:
                _stay_in_background(parent)
                found = differences(path, parse_data_directory(table), Shard.parse(shard))
                damage = "; ".join(found) or None
            case [parent]:
                _stay_in_background(parent)
                damage = None if matches_recorded_digest(path) else find_damage(path)
            case _:
                damage = find_damage(path)
    except IndexDamaged as error:
        damage = str(error)
    if damage is not None:
        sys.stdout.write(damage + "\n")
    return 0 if damage is None else 1
