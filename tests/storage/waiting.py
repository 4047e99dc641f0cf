"""Waiting for other processes and threads: for named conditions, never for a fixed time."""

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Seen = TypeVar("Seen")

#: Seconds after which a wait fails. It ends as soon as the condition is true, and a process on a
#: loaded machine can be this slow.
WAIT_SECONDS = 60.0
#: The time limit for the work of a process that starts Spark.
RUN_SECONDS = 600.0

#: The first and the longest pause between two polls. Most polls are requests to a service, so
#: polling without pauses would slow down the process that the test waits for.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.005, 0.03
#: Characters of the last state that a failure shows.
_STATE_LENGTH = 3_000


def wait_until(  # noqa: PLR0913 - most have a default
    look: Callable[[], Seen],
    what: str,
    holds: Callable[[Seen], object] = bool,
    *,
    passing: tuple[type[Exception], ...] = (),
    process: "subprocess.Popen[Any] | None" = None,
    seconds: float = WAIT_SECONDS,
    longest_pause_seconds: float = _LONGEST_PAUSE_SECONDS,
) -> Seen:
    """Poll until a condition is true.

    Args:
        look: Returns the current state.
        what: The condition, for the failure message.
        holds: Returns true for a state that satisfies the condition.
        passing: Exceptions of ``look`` that mean that the condition is not true yet.
        process: A process that does the work. The wait fails when it ends, or after 10 minutes.
        seconds: The time limit without a process.
        longest_pause_seconds: The longest pause between two polls.

    Returns:
        The state that satisfies the condition.
    """
    seconds = seconds if process is None else RUN_SECONDS
    deadline = time.monotonic() + seconds
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        # Check this before the poll, because the condition can become true just before the end.
        has_ended = process is not None and process.poll() is not None
        is_late = time.monotonic() >= deadline
        state: object
        try:
            state = seen = look()
        except passing as error:
            state = error
        else:
            if holds(seen):
                return seen
        shown = repr(state)[-_STATE_LENGTH:]
        assert not has_ended, f"the process ended before {what}. Last state: {shown}"
        assert not is_late, f"waited {seconds:.0f} s for {what}. Last state: {shown}"
        time.sleep(pause_seconds)
        pause_seconds = min(1.2 * pause_seconds, longest_pause_seconds)


def wait_for(wanted: object, look: Callable[[], object], what: str) -> None:
    """Wait until ``look`` returns the wanted value. A failure shows the last value."""
    wait_until(look, f"{what} to be {wanted!r}", lambda seen: seen == wanted)


async def wait_in_loop(
    look: Callable[[], Seen], what: str, holds: Callable[[Seen], object] = bool
) -> Seen:
    """Wait like ``wait_until``, while other coroutines run."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < deadline, f"waited for {what}. Last state: {seen!r}"
        await asyncio.sleep(_FIRST_PAUSE_SECONDS)
    return seen


def process_runs(pid: int) -> bool:
    """Return True if a process runs. A zombie does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
