"""Waiting for other processes: on conditions, never for a time that should be enough."""

import time
from collections.abc import Callable
from pathlib import Path

#: Seconds after which waiting counts as failed; generous, because machines are shared.
WAIT_SECONDS = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, which is looked at often; fail with what was waited for."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for {what}"
        time.sleep(0.005)


def process_runs(pid: int) -> bool:
    """Whether a process runs; one that ended and was not fetched by its parent yet doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
