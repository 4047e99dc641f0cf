"""Waiting for other processes: on conditions, never for a time that should be enough."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Seconds after which waiting counts as failed; generous, because machines are shared.
WAIT_SECONDS = 60.0


#: Between two looks at a condition: at first, and in the end. Most ask a service, and what asks all
#: the time takes the processor away from those who are waited for.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.03


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, which is looked at often; fail with what was waited for."""
    deadline = time.monotonic() + WAIT_SECONDS
    pause_seconds = _FIRST_PAUSE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for {what}"
        time.sleep(pause_seconds)
        pause_seconds = min(1.2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def wait_while_it_runs(process: "subprocess.Popen[Any]", condition: Callable[[], bool]) -> None:
    """Wait for what a process is to bring about, however slow the machine is; fail at its end."""
    while not condition():
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
        assert process.poll() is None, "the process has ended before"


def process_runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not fetched by its parent yet doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
