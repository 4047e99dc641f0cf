"""End to end: a store is rebuilt while its pipeline runs and a service reads it."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.serving import ready_service
from tests.campaigns import full
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import wait_until
from tests.system.kills.growing_log import Directory, rows
from tests.system.kills.killed_rebuild import STEPS

pytestmark = pytest.mark.e2e

_ORIEL = (sys.executable, "-m", "oriel")
_CHANGE = ("group_by_key()", 'filter("v % 3 > 0").group_by_key()')


class _Pipeline:
    """A directory whose pipeline runs with the old topology, while the file has the new one."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.directory = Directory(root)
        self._stack = stack
        self.directory.append()
        self.running = self.start("old", ())
        for _ in range(2):
            self.directory.run_batch()
        self.directory.change_topology(*_CHANGE)

    def start(self, name: str, stores: tuple[str, ...] = ("s",)) -> "subprocess.Popen[str]":
        """Start a run, or a live rebuild of stores, and wait until it runs the pipeline."""
        command, options = (("rebuild", *stores), ("--live",)) if stores else (("run",), ())
        process = self._stack.enter_context(
            self.directory.running(*_ORIEL, stderr=name, options=options, command=command)
        )
        wait_until(
            lambda: "pipeline started" in self.errors(name), f"the start of {name}", process=process
        )
        return process

    def errors(self, name: str) -> str:
        """Return the lines of a process."""
        return (self.directory.root / name).read_text()

    def check_rows(self, runs: Runs) -> None:
        """Compare the rows with those of one run of the new topology over the whole log."""
        for data in ("other", "data"):
            ended = runs.oriel(*self.directory.arguments(data), "--once")
            assert ended.code == 0, ended.errors
        assert rows(self.directory.data) == rows(self.directory.root / "other")


def test_a_store_is_rebuilt_while_its_pipeline_runs(tmp_path: Path, runs: Runs) -> None:
    """Readers see no error and no decreasing version, and the old process ends."""
    with ExitStack() as stack:
        pipeline = _Pipeline(tmp_path, stack)
        serving = stack.enter_context(ready_service(pipeline.directory.data))
        seen: list[tuple[int, int]] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                response = serving.get("/v1/stores/s/latest/k1")
                position = response.json.get("position", {})
                seen.append((response.status, position.get("version", -1)))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            rebuilding = pipeline.start("new")
            assert pipeline.running.wait(timeout=120) == 1
            assert f"process {rebuilding.pid} on" in pipeline.errors("old")
            assert "took over this pipeline" in pipeline.errors("old")
            pipeline.directory.run_batch()
            newest = pipeline.directory.versions() - 1
            wait_until(lambda: seen[-1][1], f"version {newest}", lambda found: found >= newest)
        finally:
            stop.set()
            reader.join()
        assert {status for status, _version in seen} == {200}
        versions = [version for _status, version in seen]
        assert versions == sorted(versions)
        os.kill(rebuilding.pid, signal.SIGTERM)
        assert rebuilding.wait(timeout=120) == 0
    pipeline.check_rows(runs)


@pytest.mark.parametrize("steps", [["letters there", "switched"], *full([*STEPS])])
def test_a_live_rebuild_that_is_killed_leaves_a_pipeline_that_can_continue(
    tmp_path: Path, runs: Runs, steps: list[str]
) -> None:
    """Before the switch, the old topology continues. After it, the new one does."""
    with ExitStack() as stack:
        pipeline = _Pipeline(tmp_path, stack)
        directory = pipeline.directory
        for number, step in enumerate(steps):
            killing = (sys.executable, "-m", "tests.system.kills.killed_rebuild", step, "s")
            # With small batches, the rebuild is killed in its second one.
            options = ("--live", "--max-batch-bytes", "150")
            rebuilding = stack.enter_context(
                directory.running(*killing, stderr=step, options=options, command=())
            )
            assert rebuilding.wait(timeout=120) == -signal.SIGKILL, pipeline.errors(step)
            if step == "computing":
                directory.run_batch()
                continue
            # The rebuild has taken over before it was killed.
            assert pipeline.running.wait(timeout=120) == 1
            if step == "switched":
                break
            directory.change_topology(*reversed(_CHANGE))
            pipeline.running = pipeline.start(f"old-{number}", ())
            directory.run_batch()
            directory.change_topology(*_CHANGE)
    pipeline.check_rows(runs)
