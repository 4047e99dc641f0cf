"""What the tests end to end share."""

import os
from collections.abc import Iterator

import pytest

from tests.e2e.kafka_broker import Broker
from tests.e2e.killed_runs import Survivor, killed_at_steps
from tests.e2e.runs_in_one_process import Runs, running_process

#: Repeats the logs, the batches and the kills of a run.
SEED = "ORIEL_E2E_SEED"


@pytest.fixture(scope="session", params=["two", pytest.param("all", marks=pytest.mark.long)])
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, runs: Runs
) -> Survivor:
    """Make what a pipeline left that was killed at two steps, or at all of them."""
    seed = int(os.environ.get(SEED) or int.from_bytes(os.urandom(4)))
    folder = tmp_path_factory.mktemp("killed")
    return killed_at_steps(folder, seed, runs, all_steps=request.param == "all")


@pytest.fixture
def survivor(killed: Survivor, request: pytest.FixtureRequest) -> Survivor:
    """Give the same to every test, and tell the seed where one fails."""
    request.node.add_report_section("setup", "seed", f"{SEED}={killed.seed} repeats this run")
    return killed


@pytest.fixture(scope="session")
def runs(warm_python: None) -> Iterator[Runs]:
    """Yield the process of all runs over event logs that end by themselves."""
    assert warm_python is None
    with running_process() as process:
        yield process


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield the broker that all tests share; their topics are called by other names."""
    made = Broker(tmp_path_factory.mktemp("broker"))
    yield made
    made.kill()


@pytest.fixture(scope="session")
def kafka_runs(broker: Broker, warm_python: None) -> Iterator[Runs]:
    """Yield the process of all runs over that broker that end by themselves."""
    assert broker
    assert warm_python is None
    with running_process(kafka=True) as process:
        yield process
