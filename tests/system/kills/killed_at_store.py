"""Runs ``tests.system.kills.killed_run`` at a chosen store of the batch.

``python -m tests.system.kills.killed_at_store STORE STEP BATCH PIPELINE-ARGUMENTS...`` runs in its
own process group.
"""

import sys
from typing import Any

from oriel.pipeline import run_command as command_line
from oriel.pipeline.commit import StoreBatches
from tests.system.kills.killed_run import STEPS


def kill_at(store: str, step: str, batch: int) -> None:
    """Kill when ``store`` reaches a step of the batch.

    All stores compute together. Then each is prepared and committed after the other, so the stores
    before this one are finished.
    """
    method = "begin" if step == "computing" else "finish"
    original = getattr(StoreBatches, method)

    def armed(self: StoreBatches, number: int, *rest: Any, **named: Any) -> Any:
        if number == batch and self._store.name == store:
            STEPS[step](batch)
        return original(self, number, *rest, **named)

    setattr(StoreBatches, method, armed)


if __name__ == "__main__":
    kill_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(command_line.main(sys.argv[4:]))
