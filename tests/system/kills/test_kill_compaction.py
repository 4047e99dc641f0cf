"""End to end: SIGKILL during compaction, Delta checkpoint and cleanup, and at any moment."""

import os
from pathlib import Path

import pytest

from tests.campaigns import full
from tests.e2e.runs_in_one_process import Runs
from tests.system.kills.conftest import SEED
from tests.system.kills.kill_campaign import killed_in_maintenance_runs
from tests.system.kills.killed_in_maintenance import STEPS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    ("steps", "streams"),
    [
        # tests/system/kills/test_killed_writer.py kills at any moment, without Spark.
        pytest.param(["merged"], False, id="one"),
        *full(list(STEPS), True, id="all"),
    ],
)
def test_killed_in_compaction_tables_and_index_are_those_of_an_undisturbed_run(
    tmp_path: Path, request: pytest.FixtureRequest, runs: Runs, steps: list[str], *, streams: bool
) -> None:
    """Tables and index are right for every kind of store, and readers find all files.

    Streams of Spark over the tables of final rows have each row once.
    """
    seed = int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))
    request.node.add_report_section("call", "seed", f"{SEED}={seed} repeats this run")
    done = killed_in_maintenance_runs(tmp_path, seed, steps, runs, streams=streams)
    assert done["written"] + done["merged"] >= 1
    assert done["reads"] > 0
