"""Commands that end by themselves run in one process, so that Java starts only once."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from oriel.pipeline.sources import kafka_settings
from oriel.pipeline.spark import build_session
from tests.spark_packages import fetch_connector
from tests.warm_python import use_warm_python

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    """A command that has ended: its exit code, its output, its lines on stderr."""

    code: int
    output: str
    errors: list[str]

    @property
    def summary(self) -> dict[str, Any]:
        """Return the summary that a run printed."""
        found: dict[str, Any] = json.loads(self.output or "{}")
        return found


def after_start(errors: str) -> list[str]:
    """Return the lines of a command without those about its start."""
    starts = ("starting Spark", "Spark is ready: ", "pipeline started: ")
    return [line for line in errors.splitlines() if not line.startswith(starts)]


class Runs:
    """A process that runs commands on request."""

    def __init__(self, process: "subprocess.Popen[str]", log: IO[str]) -> None:
        """Send commands to ``process``, whose Spark writes to ``log``."""
        self._process = process
        self._log = log

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
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            message = f"the process of all runs has ended: {self._log.read()[-3000:]}"
            raise RuntimeError(message)
        code, output, errors = json.loads(line)
        return Ended(code, output, after_start(errors))


@contextmanager
def running_process(*, kafka: bool = False) -> Iterator[Runs]:
    """Yield the process for the time of the block. With ``kafka``, its Java has the connector."""
    if kafka:
        fetch_connector()
    command = [sys.executable, "-P", "-m", "tests.e2e.runs_in_one_process"]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(
        [*command, *(["kafka"] if kafka else [])],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield Runs(process, log)
        finally:
            # Also kill its Java, whose Kafka producers would continue to retry and log for a while.
            os.killpg(process.pid, signal.SIGKILL)


def _main(options: list[str]) -> None:
    use_warm_python()
    # Java starts here, not with the first command. That command can run in a directory of a test,
    # and Java's Python processes do not start after the test has deleted it. Also, a session has
    # its packages from its first start.
    build_session("runs", cores=1, extra=kafka_settings() if options else {}).stop()
    for line in sys.stdin:
        # Spark adds an archive of a topology's modules, and deletes the archive with the session.
        sys.path[:] = [entry for entry in sys.path if Path(entry).exists()]
        module, arguments = json.loads(line)
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as errors:
            try:
                code = import_module(module).main(arguments)
            except Exception:  # noqa: BLE001 - told to the test that asked, others go on
                code = 2
                traceback.print_exc()
        sys.stdout.write(json.dumps([code, output.getvalue(), errors.getvalue()]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1:])
