"""Build the Kafka Streams program with Maven, and run it to the end of a topic or as a service."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peer_runs.cases import Kind
from benchmarks.peer_runs.figures import Figures, Totals
from benchmarks.peer_runs.processes import Failed, run_to_end, running
from benchmarks.peer_runs.topics import delete_topics
from tests.locks import only_one

_SOURCE = Path(__file__).with_name("kafka_streams")
_HOST = "127.0.0.1"
_START_SECONDS = 60.0


def require_tools() -> None:
    """Check that Maven and a Java compiler are installed.

    Raises:
        Failed: At least one of them is not installed.
    """
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    if missing:
        message = (
            f"{', '.join(missing)} not found, which build and run broker and peer "
            "(Debian: apt-get install maven default-jdk-headless)"
        )
        raise Failed(message)


class Peer:
    """The compiled program, which uses one broker."""

    def __init__(self, servers: str, directory: Path) -> None:
        """Compile the program into ``directory``, where it also keeps its state."""
        self._servers = servers
        self._directory = directory
        self._class_path = _compiled(directory / "kafka-streams")
        self._runs = 0

    def run_once(self, kind: Kind, topic: str, records: int, *, totals: bool) -> Figures:
        """Process the first ``records`` of a topic in a new process, and commit."""
        with self._command(kind, topic) as command:
            words = ["once", str(records), *(["totals"] if totals else [])]
            ended = run_to_end("Kafka Streams", [*command, *words])
        output = json.loads(ended.output)
        found = Totals(output["windows"], output["members"], output["total"]) if totals else None
        return Figures(
            # The time of the check does not count.
            cold_seconds=ended.seconds - output.get("totals_seconds", 0.0),
            first_seconds=None,
            steady_records=output["steady_records"],
            steady_seconds=output["steady_seconds"],
            totals=found,
        )

    @contextmanager
    def serving(self, kind: Kind, topic: str) -> Iterator[tuple[str, int]]:
        """Process new records of a topic and serve reads until the block ends."""
        address = (_HOST, _free_port())
        log = self._directory / "kafka-streams.log"
        with (
            self._command(kind, topic) as command,
            running("Kafka Streams", [*command, "serve", str(address[1])], log),
        ):
            _wait_until_open(address)
            yield address

    @contextmanager
    def _command(self, kind: Kind, topic: str) -> Iterator[list[str]]:
        """Yield the command of a new application. Its state and changelog are deleted later."""
        self._runs += 1
        application = f"peer-application-{self._runs}"
        state = self._directory / application
        # Without this option, Java's HTTP server delays responses. All else has its default.
        java = ["java", "-Dsun.net.httpserver.nodelay=true", "-cp", self._class_path, "oriel.Peer"]
        yield [*java, *kind.peer_words, self._servers, topic, application, str(state)]
        shutil.rmtree(state, ignore_errors=True)
        delete_topics(self._servers, f"{application}-")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_open(address: tuple[str, int]) -> None:
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(address).close()
        except ConnectionRefusedError as error:
            if time.monotonic() > end:
                message = "the Kafka Streams program does not respond"
                raise Failed(message) from error
            time.sleep(0.05)
        else:
            return


def _compiled(target: Path) -> str:
    """Compile the program into ``target`` with Maven, and return its class path."""
    listed = target / "class-path.txt"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={listed}"]
    maven = ["mvn", "-q", "-B", f"-Dtarget={target}", *goals]
    with only_one("maven"):
        # Maven needs the network only for packages that its cache does not have.
        for command in ([*maven, "--offline"], maven):
            done = subprocess.run(command, cwd=_SOURCE, check=False, capture_output=True, text=True)
            if done.returncode == 0:
                return f"{target / 'classes'}{os.pathsep}{listed.read_text()}"
    message = f"the Kafka Streams program could not be built:\n{done.stdout[-2000:]}"
    raise Failed(message)
