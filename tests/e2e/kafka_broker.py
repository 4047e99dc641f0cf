"""A real Kafka broker (KRaft, one node) for tests, run from a class path that Maven fetches."""

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oriel.demo.processes import free_port
from tests.locks import only_one

_POM = Path(__file__).with_name("broker")
_START_SECONDS = 60


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Yield the bootstrap address of a fresh broker that keeps its data in ``folder``."""
    class_path = _class_path(folder)
    port, controller = free_port(), free_port()
    config = folder / "server.properties"
    config.write_text(_configuration(folder, port, controller))
    java = ["java", "-Xmx512m", "-cp", class_path]
    identity = uuid.uuid4().hex[:22]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", "-t", identity, "-c", config, "--standalone"],
        check=True,
        capture_output=True,
    )
    with (folder / "broker.log").open("w") as log:
        broker = subprocess.Popen(
            [*java, "kafka.Kafka", str(config)], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        address = f"127.0.0.1:{port}"
        _wait_until_it_answers(address, broker, folder / "broker.log")
        yield address
    finally:
        broker.kill()
        broker.wait()


def _class_path(folder: Path) -> str:
    if shutil.which("mvn") is None:
        reason = "mvn not found (Debian: apt-get install maven)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    target = folder / "class-path.txt"
    with only_one("maven"):
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={target}"],
            cwd=_POM,
            check=True,
        )
    return target.read_text()


def _configuration(folder: Path, port: int, controller: int) -> str:
    return "\n".join([
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        f"log.dirs={folder / 'kafka-data'}",
        # The tests' record times are of 1970, which retention would take for old.
        "log.retention.ms=-1",
        "offsets.topic.replication.factor=1",
        "group.initial.rebalance.delay.ms=0",
    ])  # fmt: skip


def _wait_until_it_answers(address: str, broker: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        assert broker.poll() is None, f"the broker ended: {log.read_text()[-2000:]}"
        try:
            AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=2)
        except KafkaException:
            continue
        return
    pytest.fail(f"the broker did not answer in {_START_SECONDS} s: {log.read_text()[-2000:]}")
