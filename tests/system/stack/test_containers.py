"""The rights, the limits and the content of the containers."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.system.stack.compose import RUNNING, SERVICES, Stack
from tests.tidy.project import ROOT

pytestmark = pytest.mark.e2e

#: The pipeline's image has 1.26 GB: Debian with Python 220 MB, Java 220, Spark 260, PyArrow,
#: deltalake and further packages 540, the Kafka connector 15. Docker Hub's Python is smaller.
_IMAGE_BYTES_MAX = 1_350_000_000
#: The files that the builder receives.
_SENT = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
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


def test_the_image_has_nothing_that_the_pipeline_does_not_use(stack: Stack) -> None:
    """Neither caches of package managers nor second copies of Spark's jars stay in the image."""
    size = int(
        stack.engine.docker("image", "inspect", "--format={{.Size}}", stack.image("pipeline"))
    )
    assert size <= _IMAGE_BYTES_MAX
    find = "find ~/.ivy2.5.2/cache ~/.ivy2.5.2/jars/*hadoop* /var/cache/apt/archives/*.deb"
    _, found = stack.execute("pipeline", "sh", "-c", f"{find} 2>/dev/null")
    assert found == ""


def test_the_heap_of_java_follows_the_limit_of_the_container(stack: Stack) -> None:
    """Java uses half of the memory limit."""
    assert SERVICES["pipeline"]["mem_limit"] == "3g"
    _, commands = stack.execute("pipeline", "sh", "-c", "cat /proc/[0-9]*/cmdline")
    assert "-Xmx1536m" in commands


def test_the_service_prints_an_address_that_works(stack: Stack) -> None:
    """The log of the service has an address that a browser on this machine opens."""
    log = stack.engine.docker("logs", stack.container("api"))
    assert "Oriel serves /data at http://localhost:8080" in log


def _run_image(stack: Stack, *arguments: str) -> tuple[int, str]:
    """Run a container of the pipeline's image, and return its exit code and output."""
    done = subprocess.run(
        ["docker", "run", "--rm", "--network=none", "--tmpfs=/tmp:exec", *arguments],
        env=os.environ | stack.engine.environment, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_data_directory_of_root_is_rejected(stack: Stack, tmp_path: Path) -> None:
    """The message names the user that must be able to write, and the directory."""
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    code, output = _run_image(
        stack, f"--volume={data}:/data", stack.image("pipeline"),
        "demo/flights.py", "--kafka=broker:9092", "--data=/data",
    )  # fmt: skip
    assert code == 1
    assert "Let user 10001 read and write /data" in output


def test_a_pipeline_runs_without_a_network(stack: Stack, tmp_path: Path) -> None:
    """Spark needs no name of the host, and no repository of packages."""
    template = ROOT / "src" / "oriel" / "project" / "template"
    project = tmp_path / "project"
    (project / "events" / "orders").mkdir(parents=True)
    shutil.copy(template / "topology.py.template", project / "topology.py")
    (events,) = (template / "events").rglob("0.jsonl.template")
    shutil.copy(events, project / "events" / "orders" / "0.jsonl")
    code, output = _run_image(
        stack, f"--volume={project}:/project:ro", stack.image("pipeline"),
        "/project/topology.py", "--event-log=/project/events", "--data=/tmp/data", "--once",
    )  # fmt: skip
    assert code == 0, output
    assert '"input":60' in output


def test_a_checkout_with_umask_077_builds_images_that_run(stack: Stack, tmp_path: Path) -> None:
    """The user of the container can read the files of the image."""
    for name in ("Dockerfile", ".dockerignore", *_SENT):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy2)(source, tmp_path / name)
    # The files do not include the lists of packages, because then the build would install them
    # again.
    for name in ("src", "docs", "storage", "app"):
        subprocess.run(["chmod", "-R", "go=", tmp_path / name], check=True)
    image = f"{stack.project}-umask"
    stack.engine.docker("build", "--quiet", "--target=api", f"--tag={image}", tmp_path)
    code, output = _run_image(stack, "--entrypoint=python", image, "-P", "-m", "oriel", "topology")
    assert (code, output[:1]) == (0, "#"), output
