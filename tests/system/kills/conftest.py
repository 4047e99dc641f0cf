"""Fixtures of the kill tests: a pipeline that was killed and resumed."""

import os

import pytest

from tests.campaigns import full
from tests.e2e.runs_in_one_process import Runs
from tests.system.kills.killed_runs import Survivor, killed_at_steps

#: If set, a run repeats the logs, the batches and the kills of an earlier run.
SEED = "ORIEL_E2E_SEED"


@pytest.fixture(scope="session", params=["two", *full("all")])
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, runs: Runs
) -> Survivor:
    """Return the results of a pipeline that was killed at two steps, or at all steps."""
    seed = int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))
    directory = tmp_path_factory.mktemp("killed")
    return killed_at_steps(directory, seed, runs, all_steps=request.param == "all")


@pytest.fixture
def survivor(killed: Survivor, request: pytest.FixtureRequest) -> Survivor:
    """Return the same survivor to every test, and report the seed if one fails."""
    request.node.add_report_section("setup", "seed", f"{SEED}={killed.seed} repeats this run")
    return killed
