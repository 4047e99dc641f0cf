"""What the containers can do, and what they keep."""

import re
from typing import Any

import pytest

from tests.system.stack.compose import RUNNING, SERVICES, Stack

pytestmark = pytest.mark.e2e

_PROCESSES = ("sh", "-c", "cat /proc/[0-9]*/status")


def _values(status: str, name: str) -> set[str]:
    return set(re.findall(rf"^{name}:\s*(\S+)", status, re.MULTILINE))


@pytest.mark.parametrize("service", RUNNING)
def test_processes_have_no_privileges(stack: Stack, service: str) -> None:
    """No process runs as root, has a capability or can gain one."""
    _, status = stack.execute(service, *_PROCESSES)
    assert "0" not in _values(status, "Uid")
    for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert _values(status, capabilities) == {"0000000000000000"}
    assert _values(status, "NoNewPrivs") == {"1"}


@pytest.mark.parametrize("service", RUNNING)
def test_the_file_system_is_read_only(stack: Stack, service: str) -> None:
    """A file can be written in /tmp, but not in the image."""
    assert stack.inspect(service)["HostConfig"]["ReadonlyRootfs"]
    code, output = stack.execute(service, "touch", "/tmp/probe", "/usr/probe", "/probe")  # noqa: S108
    assert code != 0
    assert sorted(re.findall(r"touch: .*'(.*)': Read-only file system", output)) == [
        "/probe", "/usr/probe"
    ]  # fmt: skip


@pytest.mark.parametrize("service", RUNNING)
def test_the_engine_enforces_limits(stack: Stack, service: str) -> None:
    """Memory, processes and published addresses are limited as the file says."""
    host: dict[str, Any] = stack.inspect(service)["HostConfig"]
    assert host["Memory"] > 0
    assert host["PidsLimit"] == SERVICES[service]["pids_limit"]
    bindings = [binding for port in (host["PortBindings"] or {}).values() for binding in port]
    assert {binding["HostIp"] for binding in bindings} <= {"127.0.0.1"}


@pytest.mark.parametrize("service", [*RUNNING, "topics"])
def test_nothing_of_a_container_grows_without_limit(stack: Stack, service: str) -> None:
    """The engine rotates the logs, and no volume without a name stays after `down`."""
    container = stack.inspect(service)
    assert {"max-size", "max-file"} <= container["HostConfig"]["LogConfig"]["Config"].keys()
    volumes = [mount["Name"] for mount in container["Mounts"] if mount["Type"] == "volume"]
    assert [name for name in volumes if not name.startswith(f"{stack.project}_")] == []


def test_the_broker_logs_to_the_engine_only(stack: Stack) -> None:
    """The broker writes no log file, which would grow in memory, and logs to its output."""
    code, files = stack.execute("broker", "find", "/tmp", "-name", "*.log*")  # noqa: S108
    assert (code, files) == (0, "")
    assert "started (kafka.server.KafkaRaftServer)" in stack.engine.docker(
        "logs", stack.container("broker")
    )
