"""What the tests end to end share."""

import os

import pytest

from tests.e2e.killed_runs import Survivor, killed_everywhere

#: Repeats the logs, the batches and the kills of a run.
SEED = "ORIEL_E2E_SEED"


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Survivor:
    """Make what a pipeline left that was killed at every step: some two minutes."""
    seed = int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))
    return killed_everywhere(tmp_path_factory.mktemp("killed"), seed)


@pytest.fixture
def survivor(killed: Survivor, request: pytest.FixtureRequest) -> Survivor:
    """Give the same to every test, and tell the seed where one fails."""
    request.node.add_report_section("setup", "seed", f"{SEED}={killed.seed} repeats this run")
    return killed
