"""The folder for Spark's own files: one for each process, the dead ones' deleted."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3]
_CHILD = (
    "from oriel.pipeline.spark.session import scratch_folder as f; print(f(), flush=True); input()"
)


def started(base: Path) -> tuple["subprocess.Popen[str]", Path]:
    """A process that has its folder below ``base`` and lives until it is killed."""
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


def test_what_a_killed_process_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    """The folders of living processes stay, and what is not a process's folder at all."""
    base = tmp_path / "with space"
    other = base / "oriel-spark-being-made"
    other.mkdir(parents=True)
    dead, left = started(base)
    living, held = started(base)
    (left / "blockmgr").mkdir()
    (left / "blockmgr" / "shuffle").write_bytes(b"x")
    killed(dead)
    assert left.is_dir()
    assert left != held
    third, own = started(base)
    try:
        assert sorted(base.iterdir()) == sorted([other, held, own])
    finally:
        killed(living)
        killed(third)
