"""Kills of a pipeline whose stores read each other: windows over windows, joins, tables."""

from pathlib import Path
from random import Random

import pytest

from tests.campaigns import seeds
from tests.e2e.runs_in_one_process import Runs
from tests.pipeline.run import layered_topology
from tests.pipeline.run.layered_topology import STORES
from tests.pipeline.run.rebuilt_stores import newest_rows
from tests.pipeline.run.topic_logs import write_topics
from tests.system.kills.killed_run import STEPS
from tests.system.kills.killed_runs import start
from tests.system.runs.test_final_rows import random_log

pytestmark = pytest.mark.e2e

#: Stores with work in each batch. The other stores can be killed when they commit.
_BUSY = ("sums", "rises", "grown", "slid", "both", "paired", "ranked", "dated", "newest",
         "too_late", "late_visits")  # fmt: skip


@seeds(1, 8)
def test_killed_at_any_step_all_stores_have_the_rows_of_an_undisturbed_run(
    tmp_path: Path, runs: Runs, seed: int
) -> None:
    """Flattened join results, merged streams, and updates of windows and tables count once each."""
    random = Random(seed)
    write_topics(tmp_path / "log", random_log(seed))
    # A kill needs as long as the rest of the test, so the log of every run has only one.
    steps = random.sample(list(STEPS), 2 if seed else 1)
    for batch, step in enumerate(steps, start=1):
        store = random.choice(_BUSY if step == "computing" else STORES)
        arguments = (store, step, str(batch), *_arguments(tmp_path, "killed", 4_000))
        killed = start("tests.system.kills.killed_at_store", *arguments)
        assert killed.returncode == -9, f"{store}, {step}: {killed.stderr[-3000:]}"
    for data, batch_bytes in (("killed", 4_000), ("undisturbed", 1_000_000)):
        ended = runs.run(*_arguments(tmp_path, data, batch_bytes))
        assert ended.code == 0, ended.errors
    for store in STORES:
        killed_rows, rows = (
            newest_rows(tmp_path / data / "tables" / store) for data in ("killed", "undisturbed")
        )
        assert killed_rows == rows, (steps, store)
        assert rows, store


def _arguments(directory: Path, data: str, batch_bytes: int) -> list[str]:
    paths = [str(layered_topology.__file__), "--event-log", str(directory / "log")]
    size = ["--max-batch-bytes", str(batch_bytes)]
    return [*paths, "--data", str(directory / data), *size, "--once", "--cores", "2"]
