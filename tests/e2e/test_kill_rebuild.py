"""A rebuild that is killed with SIGKILL at each step, again and again, and then done."""

import shutil
from pathlib import Path
from random import Random

import pytest

from tests.e2e import kinds_topology, rebuilt_topology
from tests.e2e.event_logs import random_logs, write_lines
from tests.e2e.killed_rebuild import STEPS
from tests.e2e.killed_runs import start
from tests.e2e.rebuilt_topology import STORE
from tests.e2e.runs_in_one_process import Runs
from tests.pipeline.run.rebuilt_stores import newest_rows


@pytest.mark.e2e
@pytest.mark.parametrize(
    "steps",
    [
        # What is between: tests/pipeline/run/test_rebuild.py, without processes that die.
        pytest.param(["computing", "letters there"], id="two"),
        pytest.param(list(STEPS), id="all", marks=pytest.mark.long),
    ],
)
def test_a_rebuild_survives_being_killed_at_any_step(
    tmp_path: Path, runs: Runs, steps: list[str]
) -> None:
    """The table always has the same windows, and the pipeline goes on from them."""
    lines = random_logs(Random(8))
    half = {p: of_partition[: len(of_partition) // 2] for p, of_partition in lines.items()}
    write_lines(tmp_path / "log" / kinds_topology.TOPIC, half)
    table = tmp_path / "data" / "tables" / STORE
    assert runs.run(*_arguments(tmp_path, "data"), "--once").code == 0
    before = newest_rows(table)
    for step in steps:
        arguments = (step, STORE, *_arguments(tmp_path, "data"))
        killed = start("tests.e2e.killed_rebuild", *arguments)
        assert killed.returncode == -9, f"{step}: {killed.stderr[-3000:]}"
        assert newest_rows(table) == before, step
    shutil.rmtree(tmp_path / "log")
    write_lines(tmp_path / "log" / kinds_topology.TOPIC, lines)
    for data in ("data", "fresh"):
        assert runs.run(*_arguments(tmp_path, data), "--once").code == 0
    assert newest_rows(table) == newest_rows(tmp_path / "fresh" / "tables" / STORE) != before


def _arguments(folder: Path, data: str) -> list[str]:
    paths = [str(rebuilt_topology.__file__), "--event-log", str(folder / "log")]
    return [*paths, "--data", str(folder / data), "--max-batch-bytes", "12000", "--cores", "2"]
