"""Look through a whole index for damage, in a process of its own.

    python -m oriel.storage.index GENERATION

Garbled pages can crash LMDB, so nothing of the index is trusted here: first the file's
structure is walked byte by byte without LMDB (``lmdb.verify``), then each value must be JSON
and the state readable. Measured: 2.5 s per million windows. A bit flipped inside a
number is not found; the index keeps no checksums.
"""

import subprocess
import sys
from pathlib import Path

import lmdb
import lmdb.verify
import orjson

from oriel.storage.errors import IndexDamaged, StoreNotReady
from oriel.storage.index.generation import STATE_KEY, open_for_reading
from oriel.storage.index.state import IndexState


def find_damage(generation: Path) -> str | None:
    """Look through a generation; returns what is wrong with it, None when nothing is."""
    try:
        problems = lmdb.verify.verify(str(generation))  # type: ignore[no-untyped-call]
    except (lmdb.verify.VerifyError, OSError) as error:
        return str(error)
    if problems:
        return str(problems[0])
    # Only a file whose structure is whole is opened.
    try:
        return _find_bad_value(generation)
    except (StoreNotReady, lmdb.Error) as error:
        return str(error)


def _find_bad_value(generation: Path) -> str | None:
    opened = open_for_reading(generation)
    try:
        with opened.env.begin() as txn:
            IndexState.from_json(txn.get(STATE_KEY, db=opened.meta))
            for key, value in txn.cursor(opened.windows):
                try:
                    orjson.loads(value)
                except orjson.JSONDecodeError:
                    return f"the window at {key!r} is no JSON"
    finally:
        opened.env.close()
    return None


def check_in_own_process(generation: Path) -> None:
    """Run ``find_damage`` where a crash harms nobody.

    Raises:
        IndexDamaged: something is wrong, or the check crashed.
    """
    command = [sys.executable, "-m", "oriel.storage.index", str(generation)]
    check = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if check.returncode:
        # A crash (a negative return code) says nothing on stdout, and is a finding, too.
        reason = check.stdout.strip() or f"the check ended with {check.returncode}"
        message = f"index {generation.parent.name!r} is damaged: {reason}"
        raise IndexDamaged(message)


def main(arguments: list[str]) -> int:
    """Check the generation that the command line names; 0 means no damage."""
    damage = find_damage(Path(arguments[0]))
    if damage is not None:
        sys.stdout.write(damage + "\n")
    return 0 if damage is None else 1
