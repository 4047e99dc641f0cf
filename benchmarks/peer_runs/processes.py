"""Run child processes for measurements, to their end or for the time of a block."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_LAST_LINES = 15
_LONGEST_SECONDS = 3_600
_STOP_SECONDS = 60

#: ``oriel``, as a user starts it.
ORIEL_COMMAND = (sys.executable, "-P", "-m", "oriel")


class Failed(Exception):
    """The benchmark cannot continue. The message says why."""


class Ended(NamedTuple):
    """The duration of a process, from its start to its end, and its output."""

    started_at: float
    seconds: float
    output: str


def say(text: str) -> None:
    """Print a line of progress on stderr."""
    print(f"peer: {text}", file=sys.stderr, flush=True)


def run_to_end(name: str, command: Sequence[str]) -> Ended:
    """Run a command. Seconds are wall-clock time, ``started_at`` is a time in Unix seconds.

    Raises:
        Failed: It ended with an error. The message has the last lines of its stderr.
    """
    started_at, began = time.time(), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_LONGEST_SECONDS
    )
    seconds = time.perf_counter() - began
    if done.returncode != 0:
        raise Failed(_complaint(name, done.returncode, done.stderr))
    return Ended(started_at, seconds, done.stdout)


@contextmanager
def running(name: str, command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command until the block ends, and write its output to ``log``.

    If it ends by itself, the last lines of its output are printed. They say why the block fails.
    """
    with (
        log.open("w") as file,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process
        finally:
            if (code := process.poll()) is not None:
                say(_complaint(name, code, log.read_text(errors="replace")))
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _complaint(name: str, code: int, output: str) -> str:
    lines = output.splitlines()[-_LAST_LINES:]
    return "\n    ".join([f"{name} ended with code {code}; its last words:", *lines])
