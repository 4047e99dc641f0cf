"""A pipeline that compacts during every batch, killed at a step of the compaction or at any moment.

``python -m tests.system.kills.killed_in_maintenance STEP NUMBER PIPELINE-ARGUMENTS...`` runs in its
own process group. The kill happens when any table reaches the step for the NUMBER-th time, or
NUMBER ms after the first batch.
"""

import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from oriel.pipeline import run_command as command_line
from oriel.pipeline.commit import Maintenance, maintenance
from oriel.storage.delta.maintenance import cleanup, compaction
from tests.system.kills.killed_run import kill_everything


def _kill_at(owner: Any, name: str, number: int, *, after: bool = False) -> None:
    """Kill before the ``number``-th call of a function, or after it with ``after``."""
    original: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def killing(*arguments: Any, **named: Any) -> Any:
        is_time = next(calls) >= number
        if is_time and not after:
            kill_everything()
        result = original(*arguments, **named)
        if is_time:
            kill_everything()
        return result

    setattr(owner, name, killing)


def _kill_after(delay_ms: int) -> None:
    """Kill this long after the first batch, whatever runs at that time."""

    def end() -> None:
        time.sleep(delay_ms / 1000)
        kill_everything()

    committed = Maintenance.batch_committed

    def begun(self: Maintenance, batch: int) -> None:
        Maintenance.batch_committed = committed  # type: ignore[method-assign]
        threading.Thread(target=end, daemon=True).start()
        committed(self, batch)

    Maintenance.batch_committed = begun  # type: ignore[method-assign]


STEPS: dict[str, Callable[[int], None]] = {
    "written": lambda number: _kill_at(compaction, "create_entry", number),
    "merged": lambda number: _kill_at(compaction, "create_entry", number, after=True),
    "checkpointed": lambda number: _kill_at(cleanup, "add_checkpoint", number, after=True),
    "cleaned": lambda number: _kill_at(cleanup.Cleanup, "remove_files", number),
    "any": _kill_after,
}


def compact_at_once() -> None:
    """Check the tables after each batch, and write a Delta checkpoint every few versions."""
    maintenance._BATCHES_BETWEEN_CHECKS = 1
    # The constant is of another module, and ``cleanup`` does not export it.
    vars(cleanup)["CHECKPOINT_INTERVAL"] = 3


if __name__ == "__main__":
    compact_at_once()
    STEPS[sys.argv[1]](int(sys.argv[2]))
    sys.exit(command_line.main(sys.argv[3:]))
