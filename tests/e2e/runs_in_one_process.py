"""``oriel run --once``, again and again in one process: Java starts once for all runs of a test."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from tests.locks import only_one

ROOT = Path(__file__).resolve().parents[2]


class Ended(NamedTuple):
    """A run that has ended: its exit code, the summary that it printed, its lines on stderr."""

    code: int
    summary: dict[str, Any]
    told: list[str]


class Runs:
    """A process that runs the command when it is asked to."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Ask ``process``."""
        self._process = process

    def run(self, *arguments: str) -> Ended:
        """Run ``oriel run ARGUMENTS`` to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        code, output, told = json.loads(self._process.stdout.readline())
        lines = told.removeprefix("starting Spark\n").splitlines()
        return Ended(code, json.loads(output or "{}"), lines)


@contextmanager
def running_process() -> Iterator[Runs]:
    """Yield the process for the time of the block; for its first run it needs Kafka's connector."""
    command = [sys.executable, "-m", "tests.e2e.runs_in_one_process"]
    with only_one("ivy"), subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            yield Runs(process)
        finally:
            process.kill()


def _main() -> None:
    from oriel.pipeline.run import main  # noqa: PLC0415 - only in the process

    for line in sys.stdin:
        with redirect_stdout(io.StringIO()) as output, redirect_stderr(io.StringIO()) as told:
            code = main(json.loads(line))
        sys.stdout.write(json.dumps([code, output.getvalue(), told.getvalue()]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
