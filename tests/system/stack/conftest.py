"""One engine and one running stack for all tests of this directory."""

from collections.abc import Iterator

import pytest

from tests.system.stack.compose import RUNNING, SERVICES, Stack
from tests.system.stack.engine import Engine, running_engine
from tests.system.stack.images import make_base_image, make_broker_image


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """Yield a Docker engine."""
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="package")
def stack(engine: Engine) -> Iterator[Stack]:
    """Yield the stack of docker-compose.yml with all its services healthy."""
    # In the network of a temporary engine, every port of the file is free.
    ports = {f'"127.0.0.1:{port}:': '"127.0.0.1::' for port in (8080, 9090, 3000)}
    made = Stack(engine, "oriel-test", {} if engine.network else ports)
    if engine.network is not None:
        base = make_base_image(engine)
        made.compose("build", "api", "producer", "pipeline")
        broker = SERVICES["broker"]["image"]
        make_broker_image(engine, broker, base, made.image("pipeline"))
    try:
        made.compose("up", "--detach", "--build")
        made.wait_until_healthy(*RUNNING)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout=1")
