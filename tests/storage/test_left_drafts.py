"""Drafts that a killed process left beside a file: the next write removes them."""

import os
import subprocess
import sys
from pathlib import Path

from oriel.storage import replace_file


def test_drafts_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    """The next write of the same file cleans up, and touches nothing else."""
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        pass
    left = tmp_path / f".f.json.{killed.pid}.draft"
    huge = tmp_path / f".f.json.{2**70}.draft"
    of_living = tmp_path / f".f.json.{os.getppid()}.draft"
    of_another_file = tmp_path / f".g.json.{killed.pid}.draft"
    without_number = tmp_path / ".f.json.x.draft"
    for path in (left, huge, of_living, of_another_file, without_number):
        path.write_bytes(b"half")
    replace_file(tmp_path / "f.json", b"new", sync=False)
    assert sorted(tmp_path.iterdir()) == sorted(
        [tmp_path / "f.json", of_living, of_another_file, without_number]
    )
