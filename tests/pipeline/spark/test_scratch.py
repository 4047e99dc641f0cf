"""The directory for Spark's own files: one per process. A dead process's directory is deleted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.waiting import wait_for

# Each test starts two processes that import Spark.
pytestmark = pytest.mark.slow

_ROOT = Path(__file__).resolve().parents[3]
_CHILD = (
    "from oriel.pipeline.spark.session import scratch_directory as f\n"
    "print(f(), flush=True)\n"
    "input()"
)


def started(base: Path) -> tuple["subprocess.Popen[str]", Path]:
    """Start a process that has its directory below `base` and lives until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD],
        env={**os.environ, "TMPDIR": str(base), "PYTHONPATH": str(_ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().rstrip("\n"))


def killed(process: "subprocess.Popen[str]") -> None:
    """End a process as the kernel does when memory is short."""
    process.kill()
    process.communicate()


def test_what_a_killed_process_left_is_deleted(tmp_path: Path) -> None:
    """Another process deletes it. The directories of living processes stay."""
    base = tmp_path / "with space"
    base.mkdir()
    dead, left = started(base)
    living, held = started(base)
    try:
        (left / "blockmgr").mkdir()
        (left / "blockmgr" / "shuffle").write_bytes(b"x")
        assert left != held
        killed(dead)
        wait_for([held], lambda: sorted(base.iterdir()), "the folders")
    finally:
        killed(living)


def test_what_nobody_deleted_is_deleted_by_the_next(tmp_path: Path) -> None:
    """The directories of living processes stay, and so do other directories."""
    base = tmp_path / "with space"
    other, left = base / "oriel-spark-being-made", base / "oriel-spark-left"
    for directory in (other, left / "blockmgr"):
        directory.mkdir(parents=True)
    (left / "lock").touch()
    (left / "blockmgr" / "shuffle").write_bytes(b"x")
    first, held = started(base)
    second, own = started(base)
    try:
        assert sorted(base.iterdir()) == sorted([other, held, own])
    finally:
        killed(first)
        killed(second)
