"""End to end: a pipeline is suspended, another becomes the owner, and the first one resumes."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.campaigns import full
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import wait_until
from tests.system.kills.growing_log import Directory, rows

pytestmark = pytest.mark.e2e


#: After the first number, the state of the suspended process is already old.
@pytest.mark.parametrize("taken_over", [5, *full(50)])
def test_a_suspended_pipeline_wakes_after_its_successor_ran_on(
    tmp_path: Path, runs: Runs, taken_over: int
) -> None:
    """A suspended pipeline resumes, changes nothing, and its last line names the successor."""
    directory = Directory(tmp_path)
    directory.append()
    # The signal suspends all its processes, including its Python.
    with directory.running(sys.executable, "-m", "oriel", stderr="first") as first:
        wait_until(directory.versions, "the first batch", lambda found: found > 1, process=first)
        for _ in range(3):
            directory.run_batch()
        directory.append()
        os.killpg(first.pid, signal.SIGSTOP)
        # The successor locks another file, as on a file system without locks.
        checkpoint = directory.data / "checkpoints" / "topology"
        (checkpoint / "lock").unlink()
        epochs = checkpoint / "epochs"
        with directory.running(sys.executable, "-m", "oriel", stderr="second") as second:
            wait_until(
                lambda: sorted(epochs.iterdir()), "the epoch of the successor",
                lambda found: len(found) == 2, process=second,
            )  # fmt: skip
            for _ in range(taken_over):
                directory.run_batch()
            # Meanwhile, the successor also deletes nothing.
            os.killpg(second.pid, signal.SIGSTOP)
            there = {path.name for path in (checkpoint / "state" / "s").iterdir()}
            os.killpg(first.pid, signal.SIGCONT)
            assert first.wait(timeout=120) == 1
            assert there <= {path.name for path in (checkpoint / "state" / "s").iterdir()}
            os.killpg(second.pid, signal.SIGCONT)
            directory.run_batch()
            os.kill(second.pid, signal.SIGTERM)
            assert second.wait(timeout=120) == 0
    text = (tmp_path / "first").read_text()
    (line,) = (line for line in text.splitlines() if "took over" in line)
    assert re.fullmatch(r"oriel run: process \d+ on \S+ took over this pipeline at \S+ .*", line)
    assert f"process {second.pid} " in line
    assert "Traceback" not in text
    assert "\tat " not in text
    for data in ("other", "data"):
        ended = runs.oriel(*directory.arguments(data), "--once")
        assert ended.code == 0, ended.errors
    assert rows(directory.data) == rows(tmp_path / "other")
