"""A rebuild that is repeatedly killed with SIGKILL, and then completed."""

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.campaigns import full
from tests.e2e.event_logs import random_logs, write_lines
from tests.e2e.runs_in_one_process import Runs
from tests.pipeline.run.rebuilt_stores import newest_rows
from tests.system.kills import kinds_topology, rebuilt_topology
from tests.system.kills.killed_rebuild import STEPS
from tests.system.kills.killed_runs import start
from tests.system.kills.rebuilt_topology import STORE


@pytest.mark.e2e
@pytest.mark.parametrize(
    "steps",
    [
        # tests/system/runs/test_rebuild.py tests the steps between without killed processes.
        pytest.param(["computing", "letters there"], id="two"),
        *full(list(STEPS), id="all"),
    ],
)
def test_a_rebuild_survives_being_killed_at_any_step(
    tmp_path: Path, runs: Runs, steps: list[str]
) -> None:
    """The table always has the same windows, and the pipeline continues from them."""
    lines = random_logs(Random(8))
    half = {p: of_partition[: len(of_partition) // 2] for p, of_partition in lines.items()}
    write_lines(tmp_path / "log" / kinds_topology.TOPIC, half)
    table = tmp_path / "data" / "tables" / STORE
    assert runs.run(*_arguments(tmp_path, "data"), "--once").code == 0
    before = newest_rows(table)
    for step in steps:
        arguments = (step, STORE, *_arguments(tmp_path, "data"))
        killed = start("tests.system.kills.killed_rebuild", *arguments)
        assert killed.returncode == -9, f"{step}: {killed.stderr[-3000:]}"
        assert newest_rows(table) == before, step
    shutil.rmtree(tmp_path / "log")
    write_lines(tmp_path / "log" / kinds_topology.TOPIC, lines)
    for data in ("data", "fresh"):
        assert runs.run(*_arguments(tmp_path, data), "--once").code == 0
    assert newest_rows(table) == newest_rows(tmp_path / "fresh" / "tables" / STORE) != before


def _arguments(directory: Path, data: str) -> list[str]:
    paths = [str(rebuilt_topology.__file__), "--event-log", str(directory / "log")]
    return [*paths, "--data", str(directory / data), "--max-batch-bytes", "12000", "--cores", "2"]
