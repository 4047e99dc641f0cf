"""Read the usage of the containers of a stack: processor time, memory, logs and volumes."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]

from tests.system.stack.compose import RUNNING, Stack

_SOCKET = "/var/run/docker.sock"
#: What `docker stats` subtracts from the memory: files that the kernel can drop. Version 1 and 2.
_DROPPED = ("total_inactive_file", "inactive_file")
_RECORDS = re.compile(
    r'^oriel_store_records_total\{[^}]*store="departures_by_origin"[^}]*\} (\S+)', re.MULTILINE
)
_BLOCK_BYTES = 512


class ContainerEnded(Exception):
    """A container ended or restarted, so its figures are not of the whole time."""


@dataclass(frozen=True)
class ContainerUsage:
    """The usage of a container since its start.

    Args:
        service_s: Processor time of the service's processes, without health checks.
        checks_s: Processor time of its health checks and of the ``runc`` that starts them.
        container_s: Processor time of its control group: the service and the commands of checks.
        memory_bytes: Memory without files that the kernel can drop.
        log_bytes: Size of its log and of the rotated logs.
    """

    service_s: float
    checks_s: float
    container_s: float
    memory_bytes: int
    log_bytes: int


@dataclass(frozen=True)
class Usage:
    """The usage of a stack up to a time.

    Args:
        seconds: The time, on the clock of ``time.monotonic``.
        records: Records that the pipeline has read.
        engine_s: Processor time of ``dockerd``, ``containerd`` and its shims.
        containers: Usage by service.
        volumes: Allocated bytes by volume and by directory in it.
        load: Load averages of the machine.
    """

    seconds: float
    records: int
    engine_s: float
    containers: dict[str, ContainerUsage] = field(default_factory=dict)
    volumes: dict[str, dict[str, int]] = field(default_factory=dict)
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Meter:
    """Reads the usage of a stack.

    A shim of containerd is the parent of a container's first process, of each ``runc exec`` and of
    the command that ``runc exec`` starts. The kernel adds the time of a process that ended to the
    time of its parent. So the time of the ended children of a shim is the time of health checks.
    """

    def __init__(self, stack: Stack) -> None:
        """Find the processes and files of a running stack."""
        self._stack = stack
        self._states = {service: stack.inspect(service) for service in RUNNING}
        shims = _shims()
        self._shims = {service: shims[state["Id"]] for service, state in self._states.items()}
        self._mains = {
            service: min(shim.children(), key=psutil.Process.create_time)
            for service, shim in self._shims.items()
        }
        self._engine = [*_engine_processes(self._shims["broker"]), *self._shims.values()]
        socket = stack.engine.environment.get("DOCKER_HOST") or os.environ.get("DOCKER_HOST", "")
        self._client = httpx.Client(
            base_url="http://docker",
            transport=httpx.HTTPTransport(uds=socket.removeprefix("unix://") or _SOCKET),
        )
        self._volumes = _volume_directories(stack)

    def read(self, seconds: float) -> Usage:
        """Return the usage until now, where ``seconds`` is the current time.

        Raises:
            ContainerEnded: A container ended or restarted.
        """
        containers: dict[str, ContainerUsage] = {}
        for service in RUNNING:
            try:
                containers[service] = self._container(service)
            except psutil.NoSuchProcess as ended:
                message = f"the container of {service} ended or restarted"
                raise ContainerEnded(message) from ended
        return Usage(
            seconds=seconds,
            records=sum(int(float(n)) for n in _RECORDS.findall(self._stack.get("/metrics").text)),
            engine_s=sum(_own_seconds(process) for process in self._engine),
            containers=containers,
            volumes={name: _sizes(directory) for name, directory in self._volumes.items()},
            load=os.getloadavg(),
        )

    def _container(self, service: str) -> ContainerUsage:
        state = self._states[service]
        options = {"stream": "false", "one-shot": "true"}
        stats = self._client.get(f"/containers/{state['Id']}/stats", params=options).json()
        memory, main = stats["memory_stats"], self._mains[service]
        dropped = next((memory["stats"][name] for name in _DROPPED if name in memory["stats"]), 0)
        log = Path(state["LogPath"])
        checks = self._shims[service].cpu_times()
        return ContainerUsage(
            service_s=sum(map(_whole_seconds, [main, *main.children(recursive=True)])),
            checks_s=checks.children_user + checks.children_system,
            container_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
            memory_bytes=memory["usage"] - dropped,
            log_bytes=sum(path.stat().st_size for path in log.parent.glob(f"{log.name}*")),
        )


def log_limits(stack: Stack) -> dict[str, dict[str, str]]:
    """Return the options with which the engine rotates the log of each container."""
    return {
        service: dict(stack.inspect(service)["HostConfig"]["LogConfig"]["Config"])
        for service in RUNNING
    }


def _shims() -> dict[str, psutil.Process]:
    """Return the shim of each container that runs on this machine, by the container's id."""
    found: dict[str, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline"]):
        command: list[str] = process.info["cmdline"] or [""]
        if Path(command[0]).name.startswith("containerd-shim") and "-id" in command:
            found[command[command.index("-id") + 1]] = process
    return found


def _engine_processes(shim: psutil.Process) -> Iterator[psutil.Process]:
    """Return the engine's processes, which are in the same process namespace as a shim."""
    for process in psutil.process_iter(["name"]):
        if process.info["name"] in {"dockerd", "containerd"} and _namespace(process) == _namespace(
            shim
        ):
            yield process


def _namespace(process: psutil.Process) -> str:
    return str(Path(f"/proc/{process.pid}/ns/pid").readlink())


def _own_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _whole_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process and of its children that ended."""
    with suppress(psutil.NoSuchProcess):
        return float(sum(process.cpu_times()[:4]))
    return 0.0


def _volume_directories(stack: Stack) -> dict[str, Path]:
    """Return the directory of each volume, by its name in the Compose file."""
    label = f"--filter=label=com.docker.compose.project={stack.project}"
    names = stack.engine.docker("volume", "ls", "--quiet", label).split()
    volumes: list[dict[str, Any]] = json.loads(stack.engine.docker("volume", "inspect", *names))
    return {one["Labels"]["com.docker.compose.volume"]: Path(one["Mountpoint"]) for one in volumes}


def _sizes(directory: Path) -> dict[str, int]:
    """Return the allocated bytes of each directory in a volume."""
    return {
        path.name: _allocated(path) for path in directory.iterdir() if path.is_dir()
    }  # fmt: skip


def _allocated(directory: Path) -> int:
    """Return the bytes on disk: Kafka's index files are larger than their content."""
    total = 0
    # It ignores directories that another process deletes meanwhile.
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).lstat().st_blocks * _BLOCK_BYTES
    return total
