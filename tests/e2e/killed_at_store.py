"""``tests.e2e.killed_run`` at a chosen store of the batch.

``python -m tests.e2e.killed_at_store STORE STEP BATCH PIPELINE-ARGUMENTS...`` in a process
group of its own.
"""

import sys
from typing import Any

from oriel.pipeline.commit import StoreBatches
from oriel.pipeline.run import command as command_line
from tests.e2e.killed_run import STEPS


def kill_at(store: str, step: str, batch: int) -> None:
    """Make ready to kill when ``store`` begins the batch: the stores before it are through."""
    original = StoreBatches.run

    def run(self: StoreBatches, records: Any, number: int, ends: Any) -> Any:
        if number == batch and self._store.name == store:
            STEPS[step](batch)
        return original(self, records, number, ends)

    StoreBatches.run = run  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    kill_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(command_line.main(sys.argv[4:]))
