"""End to end: a standby continues a pipeline that is killed, stopped or suspended."""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.campaigns import full
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import wait_until
from tests.system.kills.growing_log import Directory, rows

pytestmark = pytest.mark.e2e

_ORIEL = (sys.executable, "-m", "oriel")


class _Standbys:
    """Processes of one pipeline: the active one, and standbys of it."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.directory = Directory(root)
        self._stack = stack
        self.directory.append()
        self.active = self.start("active")
        wait_until(
            self.directory.versions, "the first batch", lambda found: found > 1, process=self.active
        )

    def start(self, name: str, *options: str) -> "subprocess.Popen[str]":
        """Start a process whose errors are in the file ``name``."""
        running = self.directory.running(*_ORIEL, stderr=name, options=options)
        return self._stack.enter_context(running)

    def standby(self, name: str, *options: str) -> "subprocess.Popen[str]":
        """Start a standby, and wait until it is ready."""
        process = self.start(name, "--standby", *options)
        self.wait_for_line(name, "ready, and waiting while", process)
        return process

    def errors(self, name: str) -> str:
        """Return the lines of a process."""
        return (self.directory.root / name).read_text()

    def wait_for_line(self, name: str, text: str, process: "subprocess.Popen[str]") -> None:
        """Wait until the lines of a process have a text."""
        wait_until(lambda: text in self.errors(name), f"{text!r} in {name}", process=process)

    def check_rows(self, runs: Runs) -> None:
        """Compare the rows with those of one run over the whole log."""
        for data in ("other", "data"):
            ended = runs.oriel(*self.directory.arguments(data), "--once")
            assert ended.code == 0, ended.errors
        assert rows(self.directory.data) == rows(self.directory.root / "other")


@pytest.mark.parametrize("kills", [2, *full(20)])
def test_a_standby_continues_a_killed_pipeline(tmp_path: Path, runs: Runs, kills: int) -> None:
    """After each kill, the standby continues the batches, and rows equal those of one run."""
    with ExitStack() as stack:
        processes = _Standbys(tmp_path, stack)
        active = processes.active
        for number in range(kills):
            standby = processes.standby(f"standby-{number}")
            processes.directory.run_batch()
            processes.directory.append()
            os.killpg(active.pid, signal.SIGKILL)
            processes.wait_for_line(
                f"standby-{number}", "continuing the pipeline: process", standby
            )
            processes.directory.run_batch()
            active = standby
        os.kill(active.pid, signal.SIGTERM)
        assert active.wait(timeout=120) == 0
    processes.check_rows(runs)


def test_a_standby_replaces_a_suspended_pipeline(tmp_path: Path, runs: Runs) -> None:
    """Without heartbeats, the standby continues. The old process resumes and changes nothing."""
    with ExitStack() as stack:
        processes = _Standbys(tmp_path, stack)
        suspended = processes.active
        standby = processes.standby("standby", "--replace-after", "3s")
        processes.directory.run_batch()
        processes.directory.append()
        os.killpg(suspended.pid, signal.SIGSTOP)
        processes.wait_for_line("standby", "no heartbeat of process", standby)
        processes.directory.run_batch()
        # The lock of the standby is valid for later starts, although the old process has one also.
        third = processes.start("third")
        assert third.wait(timeout=120) == 1
        assert f"process {standby.pid} on" in processes.errors("third")
        os.killpg(suspended.pid, signal.SIGCONT)
        assert suspended.wait(timeout=120) == 1
        assert f"process {standby.pid} on" in processes.errors("active")
        assert "took over this pipeline" in processes.errors("active")
        processes.directory.run_batch()
        os.kill(standby.pid, signal.SIGTERM)
        assert standby.wait(timeout=120) == 0
    processes.check_rows(runs)


def test_one_of_two_standbys_continues_a_stopped_pipeline(tmp_path: Path, runs: Runs) -> None:
    """After a normal end, one standby continues. The other one waits, and ends with a signal."""
    with ExitStack() as stack:
        processes = _Standbys(tmp_path, stack)
        standbys = {name: processes.standby(name) for name in ("one", "two")}
        os.kill(processes.active.pid, signal.SIGTERM)
        assert processes.active.wait(timeout=120) == 0
        wait_until(
            lambda: [name for name in standbys if "pipeline started" in processes.errors(name)],
            "a standby that has started",
            bool,
        )
        processes.directory.run_batch()
        started = [name for name in standbys if "pipeline started" in processes.errors(name)]
        assert len(started) == 1
        (waiting,) = standbys.keys() - started
        assert standbys[waiting].poll() is None
        for process in standbys.values():
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(timeout=120) == 0
    processes.check_rows(runs)


def test_the_first_process_can_be_a_standby(tmp_path: Path, runs: Runs) -> None:
    """Without a process that runs the pipeline, a standby runs it at once."""
    with ExitStack() as stack:
        directory = Directory(tmp_path)
        directory.append()
        running = directory.running(*_ORIEL, stderr="standby", options=("--standby",))
        process = stack.enter_context(running)
        wait_until(directory.versions, "the first batch", lambda found: found > 1, process=process)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert (
        "continuing the pipeline: no process has run this pipeline"
        in (tmp_path / "standby").read_text()
    )
