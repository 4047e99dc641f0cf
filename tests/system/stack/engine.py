"""A Docker engine for the tests of the stack: the engine of this machine, or a temporary engine."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.locks import only_one
from tests.storage.waiting import WAIT_SECONDS
from tests.system.networks import inside_network
from tests.system.stack.waiting import wait_for
from tests.tidy.project import ROOT

#: Images, layers and jars stay in this directory for the next run.
CACHE = ROOT / ".oriel" / "stack"
#: Programs of the temporary engine, and the Debian packages that contain them.
_PROGRAMS = {
    "dockerd": "docker.io", "docker-init": "docker.io", "iptables": "iptables",
    "slirp4netns": "slirp4netns", "debootstrap": "debootstrap", "docker-compose": "docker-compose",
    "mvn": "maven",
}  # fmt: skip
#: slirp4netns resolves names at this address.
_NAME_SERVER = "10.0.2.3"


def run(
    *command: str | Path, environment: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> str:
    """Run a command and return its output. If it fails, fail with all its output."""
    done = subprocess.run(
        command, env=os.environ | (environment or {}), cwd=cwd, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    printed = f"{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    assert done.returncode == 0, f"{' '.join(map(str, command))} failed:\n{printed}"
    return done.stdout


@dataclass(frozen=True)
class Engine:
    """An engine that responds.

    Args:
        network: The network namespace of its published ports. None: the network of this machine.
        environment: The variables with which clients find the engine.
    """

    network: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def docker(self, *arguments: str | Path) -> str:
        """Run ``docker`` and return its output."""
        return run("docker", *arguments, environment=self.environment)

    def get(self, url: str, **options: Any) -> httpx.Response:
        """Request a published address."""
        with self.inside():
            return httpx.get(url, timeout=WAIT_SECONDS, trust_env=False, **options)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Connect from inside the network of the engine, including processes that the block starts.

        The code of the block must not start threads. A thread, for example of PyArrow's pool, would
        stay in that network, and later tests could not connect to their servers.
        """
        if self.network is None:
            yield
            return
        with inside_network(self.network):
            yield


@contextmanager
def running_engine() -> Iterator[Engine]:
    """Yield the engine of this machine, or a temporary engine that ends with the block.

    The test skips if no engine can run here. With CI=true, it fails.
    """
    if _responds(Engine()):
        yield Engine()
        return
    _require_programs()
    CACHE.mkdir(parents=True, exist_ok=True)
    # Engines of different checkouts do not disturb each other.
    with only_one(str(CACHE).replace(os.sep, "-")), _temporary_engine() as engine:
        yield engine


def _require_programs() -> None:
    missing = {package for name, package in _PROGRAMS.items() if shutil.which(name) is None}
    if sys.platform != "linux" or os.geteuid() != 0:
        reason = "no Docker engine responds, and only root on Linux can start one"
    elif missing:
        reason = f"no Docker engine responds (Debian: apt-get install {' '.join(sorted(missing))})"
    else:
        return
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def _responds(engine: Engine) -> bool:
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    environment = os.environ | engine.environment
    return (
        subprocess.run(command, env=environment, check=False, capture_output=True).returncode == 0
    )


@contextmanager
def _temporary_engine() -> Iterator[Engine]:
    """Start dockerd in its own namespaces, so that no port collides, and no mount or process stays.

    The kernel ends all processes inside together with the first process, which ends with this
    thread.
    """
    with ExitStack() as exits:
        directory = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="oriel-")))
        for left in ("containers", "network", "volumes"):
            # A killed run leaves containers, and the engine would start them again.
            shutil.rmtree(CACHE / "engine" / left, ignore_errors=True)
        configuration, log = directory / "daemon.json", CACHE / "dockerd.log"
        configuration.write_text("{}")
        output = exits.enter_context(log.open("wb"))
        daemon = exits.enter_context(_child(
            "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            # The first process of the namespace reaps the processes that containers leave.
            "docker-init", "--", "dockerd", f"--config-file={configuration}",
            f"--data-root={CACHE / 'engine'}", f"--exec-root={directory / 'run'}",
            f"--pidfile={directory / 'pid'}", f"--host=unix://{directory / 'socket'}",
            f"--dns={_NAME_SERVER}", output=output.fileno(),
        ))  # fmt: skip
        engine = Engine(Path(f"/proc/{daemon.pid}/ns/net"), {
            "DOCKER_HOST": f"unix://{directory / 'socket'}",
            # The client of the same package, because another one can lack BuildKit.
            "PATH": f"/usr/bin:{os.environ['PATH']}",
            "DOCKER_BUILDKIT": "1",
            "COMPOSE_DOCKER_CLI_BUILD": "1",
        })  # fmt: skip
        wait_for(
            lambda: "it responds" if _responds(engine) else log.read_text()[-2000:],
            lambda state: state == "it responds" or daemon.poll() is not None,
            "dockerd",
        )
        assert daemon.poll() is None, f"dockerd has ended:\n{log.read_text()[-4000:]}"
        reader, writer = os.pipe()
        exits.enter_context(_child(
            "slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback",
            f"--ready-fd={writer}", str(daemon.pid), "tap0", output=output.fileno(), passed=writer,
        ))  # fmt: skip
        os.close(writer)
        with os.fdopen(reader) as ready:
            assert ready.read(1) == "1", f"slirp4netns has ended:\n{log.read_text()[-4000:]}"
        exits.callback(_stop_containers, engine)
        yield engine


@contextmanager
def _child(
    *command: str, output: int, passed: int | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process that ends with the block, or at the latest with this thread."""
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *command],
        stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        pass_fds=() if passed is None else (passed,),
        # Ctrl-C is for the tests, which then end this process.
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _stop_containers(engine: Engine) -> None:
    if containers := engine.docker("container", "ls", "--all", "--quiet").split():
        engine.docker("container", "rm", "--force", "--volumes", *containers)
    engine.docker("volume", "prune", "--force")
