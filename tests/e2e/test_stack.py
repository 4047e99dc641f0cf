"""The services of docker-compose.yml as processes of this machine, with their own commands."""

import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from oriel.__main__ import main
from oriel.demo.processes import Child, free_port, running
from tests.e2e.kafka_broker import class_path, wait_until_it_answers
from tests.java import QUICK
from tests.spark_packages import fetch_connector
from tests.storage.waiting import wait_while_it_runs
from tests.tidy.project import ROOT

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())[
    "services"
]
#: Kafka's scripts, and the classes that they start.
_CLASSES = {"kafka-storage.sh": "kafka.tools.StorageTool", "kafka-server-start.sh": "kafka.Kafka"}
#: The default of 50 a second would take a minute until windows close; ten times that, seconds.
_SPEED = "500"
_AIRPORTS = ("EWR", "JFK", "LGA")


class Stack:
    """The services that run, and where."""

    def __init__(self, folder: Path, broker_port: int) -> None:
        """Nothing is started."""
        self.data = folder / "data"
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.broker = f"127.0.0.1:{broker_port}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.children: dict[str, Child] = {}

    def on_this_machine(self, words: list[str]) -> list[str]:
        """Words of a command with this machine's places in those of the containers."""
        places = {"broker:9092": self.broker, "/data": str(self.data), "8080": str(self.port)}
        changed = []
        for word in words:
            filled = re.sub(r"\$\{SPEED:-\d+\}", _SPEED, word)
            filled = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", filled)
            for container, machine in places.items():
                filled = filled.replace(container, machine)
            changed.append(filled)
        return changed

    def is_healthy(self, service: str) -> bool:
        """What the service's own health check says."""
        command = [sys.executable, *self._health_check(service)]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    def says_healthy(self) -> bool:
        """What the pipeline's health check says, without the start of a Python each time."""
        _safe_path, _module, module, *arguments = self._health_check("pipeline")
        assert module == "oriel"
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            return main(arguments) == 0

    def _health_check(self, service: str) -> list[str]:
        kind, program, *arguments = SERVICES[service]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        return self.on_this_machine(arguments)

    def answer(self, path: str, host: str = "api") -> httpx.Response | None:
        """What the service answers one who calls it by a name; None while it does not."""
        try:
            return httpx.get(
                f"{self.url}{path}", headers={"Host": f"{host}:8080"}, trust_env=False, timeout=30
            )
        except httpx.TransportError:
            return None

    def has_final_windows(self, key: str) -> bool:
        """Whether the service has windows of the key that nothing changes any more."""
        path = f"/v1/stores/departures_by_origin/fetch/{key}?final=true&limit=1"
        answer = self.answer(path)
        return answer is not None and answer.status_code == 200 and bool(answer.json()["windows"])


def _start_broker(folder: Path, stack: ExitStack) -> int:
    """Run both commands of the broker with its committed configuration; return its port."""
    port, controller = free_port(), free_port()
    text = (ROOT / "stack" / "broker.properties").read_text()
    for container, machine in (
        ("PLAINTEXT://:9092", f"PLAINTEXT://127.0.0.1:{port}"),
        ("CONTROLLER://:9093", f"CONTROLLER://127.0.0.1:{controller}"),
        ("broker:9092", f"127.0.0.1:{port}"),
        ("broker:9093", f"127.0.0.1:{controller}"),
        ("/var/lib/kafka/data", str(folder / "kafka")),
    ):
        assert container in text
        text = text.replace(container, machine)
    configuration = folder / "broker.properties"
    configuration.write_text(text)
    java = ["java", "-Xmx512m", *QUICK.split(), "-cp", class_path(folder)]
    (script,) = SERVICES["broker"]["command"]
    formatting, starting = (
        [str(configuration) if word.endswith(".properties") else word for word in command.split()]
        for command in script.split("&& exec")
    )
    tool, *arguments = formatting
    format_command = [*java, _CLASSES[Path(tool).name], *arguments]
    for _ in range(2):  # each start of the container formats, the first one only in earnest
        subprocess.run(format_command, check=True, capture_output=True)
    log = folder / "broker.log"
    process = subprocess.Popen(
        [*java, _CLASSES[Path(starting[0]).name], *starting[1:]],
        stdout=stack.enter_context(log.open("wb")), stderr=subprocess.STDOUT,
    )  # fmt: skip
    stack.callback(process.wait)
    stack.callback(process.kill)
    wait_until_it_answers(f"127.0.0.1:{port}", process, log)
    return port


def _make_topics(stack: Stack) -> None:
    """Do what the service ``topics`` does, by Kafka's client: its tool is not among the jars."""
    options = dict(word.removeprefix("--").split("=") for word in stack.on_this_machine(
        [word for word in SERVICES["topics"]["command"] if "=" in word]
    ))  # fmt: skip
    topic = NewTopic(options["topic"], int(options["partitions"]), 1)
    admin = AdminClient({"bootstrap.servers": options["bootstrap-server"]})
    admin.create_topics([topic])[options["topic"]].result(timeout=30)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """All services, started in the order of the file."""
    folder = tmp_path_factory.mktemp("stack")
    fetch_connector()
    with ExitStack() as exits:
        services = Stack(folder, _start_broker(folder, exits))
        _make_topics(services)
        for service, command in (("api", "serve"), ("producer", "demo"), ("pipeline", "run")):
            words = services.on_this_machine(SERVICES[service]["command"])
            words = [str(ROOT / word) if word.endswith(".py") else word for word in words]
            services.children[service] = exits.enter_context(
                running(service, [command, *words], services.logs)
            )
        yield services


@pytest.mark.e2e
@pytest.mark.kafka
def test_the_stack_shows_final_windows_of_every_partition(stack: Stack) -> None:
    """Flights come from the producer through Kafka and the pipeline to the service."""
    pipeline = stack.children["pipeline"].process
    for airport in _AIRPORTS:
        wait_while_it_runs(pipeline, partial(stack.has_final_windows, airport))
    wait_while_it_runs(pipeline, lambda: stack.is_healthy("api"))
    wait_while_it_runs(pipeline, stack.says_healthy)
    metrics = stack.answer("/metrics")
    assert metrics is not None
    assert 'oriel_pipeline_up{application="flights"} 1' in metrics.text
    stranger = stack.answer("/metrics", host="example.org")
    assert stranger is not None
    assert stranger.status_code >= 400


@pytest.mark.e2e
@pytest.mark.kafka
def test_the_health_check_sees_a_pipeline_that_hangs(stack: Stack) -> None:
    """A stopped process says nothing more; when it goes on, it is well again."""
    pipeline = stack.children["pipeline"].process
    wait_while_it_runs(pipeline, stack.says_healthy)
    pipeline.send_signal(signal.SIGSTOP)
    try:
        wait_while_it_runs(pipeline, lambda: not stack.says_healthy())
        assert not stack.is_healthy("pipeline")
    finally:
        pipeline.send_signal(signal.SIGCONT)
    wait_while_it_runs(pipeline, stack.says_healthy)
    wait_while_it_runs(pipeline, lambda: stack.is_healthy("pipeline"))
