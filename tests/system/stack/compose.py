"""The services of docker-compose.yml in containers of one engine."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.system.stack.engine import CACHE, Engine, run
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

_TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(_TEXT)["services"]
#: Services that run until they are stopped.
RUNNING = ("broker", "producer", "pipeline", "api")
#: Twice the default: windows become final within seconds, and the flights last for an hour. These
#: tests need a running producer, which ends with the last flight.
SPEED = "100"


class Stack:
    """One Compose project.

    Args:
        engine: The engine that runs its containers.
        project: The name of the Compose project.
        replaced: Texts of the file that this project needs otherwise, and their replacements.
        variables: Variables that the file reads.
    """

    def __init__(
        self, engine: Engine, project: str, replaced: dict[str, str] | None = None, **variables: str
    ) -> None:
        self.engine = engine
        self.project = project
        self._environment: Mapping[str, str] = {**engine.environment, "SPEED": SPEED, **variables}
        self._program = _compose_program(engine)
        self._file = _write_file(project, replaced or {})

    def compose(self, *arguments: str) -> str:
        """Run Compose and return its output."""
        options = ["--project-name", self.project, "--project-directory", str(ROOT)]
        command = [*self._program, *options, "--file", str(self._file), *arguments]
        return run(*command, environment=self._environment)

    @property
    def has_plugin(self) -> bool:
        """Return whether Compose is a plugin of ``docker``, not version 1."""
        return self._program != ("docker-compose",)

    @property
    def network(self) -> str:
        """Return the name of the containers' network."""
        return f"{self.project}_default"

    def image(self, service: str) -> str:
        """Return the image of a service. Compose names an image that it builds."""
        if "image" in SERVICES[service]:
            return str(SERVICES[service]["image"])
        separator = "_" if self._program == ("docker-compose",) else "-"
        return f"{self.project}{separator}{service}"

    def container(self, service: str) -> str:
        """Return the id of the container of a service."""
        label = "label=com.docker.compose"
        (container,) = self.engine.docker(
            "container", "ls", "--all", "--quiet", f"--filter={label}.project={self.project}",
            f"--filter={label}.service={service}",
        ).split()  # fmt: skip
        return container

    def inspect(self, service: str) -> dict[str, Any]:
        """Return the engine's description of a service's container."""
        (state,) = json.loads(self.engine.docker("inspect", self.container(service)))
        return dict(state)

    def wait_until_healthy(self, *services: str) -> None:
        """Wait until the engine reports each service as healthy."""
        wait_for(
            lambda: {service: self._health(service) for service in services},
            lambda health: set(health.values()) == {"healthy"},
            "healthy services",
        )

    def _health(self, service: str) -> str:
        """Return the health of a service, and if it is not healthy, the reason and its log."""
        health = self.inspect(service)["State"]["Health"]
        if health["Status"] == "healthy":
            return "healthy"
        said = [check["Output"][-1000:] for check in health["Log"][-1:]]
        log = self.engine.docker("logs", "--tail=20", self.container(service))
        return "\n".join([health["Status"], *said, log])

    def execute(self, service: str, *command: str, words: str | None = None) -> tuple[int, str]:
        """Run a command in the container of a service, and return its exit code and output."""
        interactive = [] if words is None else ["--interactive"]
        done = subprocess.run(
            ["docker", "exec", *interactive, self.container(service), *command],
            env=os.environ | self._environment, input=words, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout

    def require(self, service: str, *command: str, words: str | None = None) -> None:
        """Run a command in the container of a service, and fail if it fails."""
        code, output = self.execute(service, *command, words=words)
        assert code == 0, output

    def share_images(self, other: "Stack") -> None:
        """Use the images that another project built."""
        for service, options in SERVICES.items():
            if "build" in options:
                self.engine.docker("tag", other.image(service), self.image(service))

    def kill(self, service: str) -> None:
        """Send SIGKILL to the main process of a container, from outside of the container."""
        process = str(self.inspect(service)["State"]["Pid"])
        options = ("--rm", "--pid=host", "--user=0", "--entrypoint=/bin/kill")
        self.engine.docker("run", *options, self.image("pipeline"), "-KILL", process)

    @contextmanager
    def suspended(self, service: str) -> Iterator[None]:
        """Suspend the processes of a container while the block runs."""
        # -1 means every process except the first one, which only waits, and the sending process.
        self.require(service, "sh", "-c", "kill -STOP -1")
        try:
            yield
        finally:
            self.require(service, "sh", "-c", "kill -CONT -1")

    def address(self, service: str, port: int) -> str:
        """Return the address at which the engine publishes a port of a service."""
        published = self.engine.docker("port", self.container(service), f"{port}/tcp")
        return f"http://{published.splitlines()[0]}"

    def get(self, path: str, host: str | None = None, **parameters: str | int) -> httpx.Response:
        """Request a path of the service."""
        headers = {} if host is None else {"Host": host}
        url = self.address("api", 8080) + path
        return self.engine.get(url, params=parameters, headers=headers)


def _compose_program(engine: Engine) -> tuple[str, ...]:
    """Return the program of the current Compose, a plugin of ``docker``, if it is installed."""
    plugin = subprocess.run(
        ["docker", "compose", "version"], env=os.environ | engine.environment, check=False,
        capture_output=True,
    )  # fmt: skip
    if plugin.returncode == 0 or shutil.which("docker-compose") is None:
        return ("docker", "compose")
    return ("docker-compose",)


def _write_file(project: str, replaced: dict[str, str]) -> Path:
    """Write the file that Compose reads: docker-compose.yml with the replacements."""
    text = _TEXT
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    CACHE.mkdir(parents=True, exist_ok=True)
    file = CACHE / f"{project}.yml"
    file.write_text(text)
    return file
