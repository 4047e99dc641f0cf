"""One engine and one running stack for all tests of this directory."""

import os
from collections.abc import Iterator

import pytest

from tests.campaigns import SIZE
from tests.system.stack.compose import Stack
from tests.system.stack.engine import Engine, running_engine
from tests.system.stack.running import running_stack

#: `./oriel test long` includes it, because it installs Oriel on a machine and starts Spark several
#: times.
collect_ignore = [] if os.environ.get(SIZE) == "full" else ["test_production_systemd.py"]


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """Yield a Docker engine."""
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="package")
def stack(engine: Engine) -> Iterator[Stack]:
    """Yield the stack of docker-compose.yml with all its services healthy."""
    with running_stack(engine, "oriel-test") as stack:
        yield stack
