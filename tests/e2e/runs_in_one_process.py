"""Commands that end by themselves, one after the other in one process: Java starts once for all."""

import io
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tests.spark_packages import fetch_connector

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    """A command that has ended: its exit code, its output, its lines on stderr."""

    code: int
    output: str
    told: list[str]

    @property
    def summary(self) -> dict[str, Any]:
        """The summary that a run printed."""
        found: dict[str, Any] = json.loads(self.output or "{}")
        return found


class Runs:
    """A process that runs a command when it is asked to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Ask ``process``."""
        self._process = process

    def run(self, *arguments: str) -> Ended:
        """Run ``oriel run ARGUMENTS`` to its end."""
        return self.oriel("run", *arguments)

    def oriel(self, *arguments: str) -> Ended:
        """Run ``oriel ARGUMENTS`` to its end."""
        return self.call("oriel.__main__", *arguments)

    def call(self, module: str, *arguments: str) -> Ended:
        """Call ``main`` of a module with these arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([module, arguments]) + "\n")
        self._process.stdin.flush()
        code, output, told = json.loads(self._process.stdout.readline())
        return Ended(code, output, told.removeprefix("starting Spark\n").splitlines())


@contextmanager
def running_process(*, kafka: bool = False) -> Iterator[Runs]:
    """Yield the process for the time of the block; with ``kafka`` its Java has the connector."""
    if kafka:
        fetch_connector()
    command = [sys.executable, "-P", "-m", "tests.e2e.runs_in_one_process"]
    with subprocess.Popen(
        [*command, *(["kafka"] if kafka else [])],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield Runs(process)
        finally:
            process.kill()


def _main(options: list[str]) -> None:
    if options:
        from oriel.pipeline.sources import kafka_settings  # noqa: PLC0415 - only with Kafka
        from oriel.pipeline.spark import build_session  # noqa: PLC0415

        # A session has its packages from its first start.
        build_session("runs", cores=1, extra=kafka_settings()).stop()
    for line in sys.stdin:
        module, arguments = json.loads(line)
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as told:
            try:
                code = import_module(module).main(arguments)
            except Exception:  # noqa: BLE001 - told to the test that asked, others go on
                code = 2
                traceback.print_exc()
        sys.stdout.write(json.dumps([code, output.getvalue(), told.getvalue()]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1:])
