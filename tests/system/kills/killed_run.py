"""Sends SIGKILL to all of a pipeline (driver, JVM, workers) at one step of one batch.

pipeline/commit/store_batch.py has the steps. ``killed_at_store`` runs with one of the steps.
"""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oriel.pipeline.commit import StoreTables
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.plan import StorePlans


def kill_everything() -> None:
    """End the whole process group immediately, like a power cut."""
    os.killpg(0, signal.SIGKILL)


def kill_while_computing(batch: int) -> None:
    """Kill when a task of ``batch`` has written its first file and the job still runs."""
    plan: Callable[..., Any] = StorePlans.plan

    def planned(self: StorePlans, number: int, *rest: Any) -> Any:
        made = plan(self, number, *rest)
        if number == batch:
            pattern = f"*{number:012d}-*.*"
            directory = made[0].files.state
            threading.Thread(target=_kill_when_there, args=(directory, pattern)).start()
        return made

    StorePlans.plan = planned  # type: ignore[assignment, method-assign]


def _kill_when_there(directory: Path, pattern: str) -> None:
    while not list(directory.glob(pattern)):
        pass
    kill_everything()


def kill_before(owner: type, method: str, batch: int) -> None:
    """Kill before ``owner.method`` starts its work for ``batch``."""
    original = getattr(owner, method)

    def killing(self: Any, *arguments: Any) -> Any:
        if batch in arguments:
            kill_everything()
        return original(self, *arguments)

    setattr(owner, method, killing)


STEPS: dict[str, Callable[[int], None]] = {
    "computing": kill_while_computing,
    "computed": lambda batch: kill_before(StateVersions, "prepare", batch),
    "prepared": lambda batch: kill_before(StoreTables, "commit", batch),
    "committed": lambda batch: kill_before(StoreTables, "commit_dead_letters", batch),
}
