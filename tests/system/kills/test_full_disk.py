"""End to end: the disk is full in the middle of a run, and later has free space again."""

from pathlib import Path

import pytest

from tests.e2e.runs_in_one_process import Runs
from tests.system.kills.growing_log import Directory, rows
from tests.system.kills.killed_runs import start

pytestmark = pytest.mark.e2e


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path, runs: Runs) -> None:
    """The error is one line without a traceback, and with free space the next run continues."""
    directory = Directory(tmp_path)
    for _ in range(8):
        directory.append()
    run = [*directory.arguments()[1:], "--once", "--max-batch-bytes", "300"]
    # By then, the tables and the first batches exist.
    full = start("tests.system.kills.full_disk_run", "50", *run)
    assert full.returncode == 1, full.stderr
    (line,) = (line for line in full.stderr.splitlines() if line.startswith("oriel run: "))
    assert "No space left on device" in line
    assert "Nothing is lost" in line
    assert "Traceback" not in full.stderr
    assert "\tat " not in full.stderr
    finished = runs.oriel(*directory.arguments(), "--once")
    assert finished.code == 0, finished.errors
    (store,) = finished.summary["stores"].values()
    assert store["input"] == directory.written + 8
    undisturbed = runs.oriel(*directory.arguments("other"), "--once")
    assert undisturbed.code == 0, undisturbed.errors
    assert rows(directory.data) == rows(tmp_path / "other")
