"""The stack of docker-compose.yml with its images, until the block ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.stack.compose import RUNNING, SERVICES, Stack
from tests.system.stack.engine import Engine
from tests.system.stack.images import make_base_image, make_broker_image


@contextmanager
def running_stack(engine: Engine, project: str, **variables: str) -> Iterator[Stack]:
    """Build the images, start all services and yield the stack when all are healthy."""
    # In the network of a temporary engine, every port of the file is free.
    ports = {f'"127.0.0.1:{port}:': '"127.0.0.1::' for port in (8080, 9090, 3000)}
    made = Stack(engine, project, {} if engine.network else ports, **variables)
    if engine.network is not None:
        base = make_base_image(engine)
        made.compose("build", "api", "producer", "pipeline")
        make_broker_image(engine, SERVICES["broker"]["image"], base, made.image("pipeline"))
    try:
        made.compose("up", "--detach", "--build")
        made.wait_until_healthy(*RUNNING)
        yield made
    finally:
        made.compose("down", "--volumes", "--timeout=1")
