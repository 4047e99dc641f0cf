"""Kills ``oriel rebuild`` (driver, JVM and workers) when it reaches a step.

``python -m tests.system.kills.killed_rebuild STEP REBUILD-ARGUMENTS...`` runs in its own process
group.
"""

import sys
from collections.abc import Callable
from typing import Any

from oriel.pipeline.commit import Replacement
from oriel.pipeline.run_command import rebuild
from tests.system.kills.killed_run import kill_everything, kill_while_computing


def _kill_at(method: str, *, is_after: bool = False) -> None:
    original = getattr(Replacement, method)

    def killing(*given: Any) -> None:
        if is_after:
            original(*given)
        kill_everything()

    setattr(Replacement, method, killing)


STEPS: dict[str, Callable[[], None]] = {
    "computing": lambda: kill_while_computing(1),
    "computed": lambda: _kill_at("add_state"),
    "state taken": lambda: _kill_at("add_dead_letters"),
    "letters there": lambda: _kill_at("switch_to"),
    "switched": lambda: _kill_at("switch_to", is_after=True),
}

if __name__ == "__main__":
    STEPS[sys.argv[1]]()
    sys.exit(rebuild(sys.argv[2:]))
