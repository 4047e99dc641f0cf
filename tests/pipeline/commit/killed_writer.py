"""A pipeline without Spark that compacts while batches run, and kills itself after some time.

Run `python -m tests.pipeline.commit.killed_writer FOLDER MS`. The process is killed `MS`
milliseconds after it was loaded. If `MS` is negative, it runs to the end of the log.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

from oriel.pipeline.commit import Maintenance, maintenance
from oriel.storage.delta import Limits, MaintenanceSettings, TableMaintenance
from oriel.storage.delta.maintenance import cleanup
from tests.pipeline.commit.writers import Writer

SETTINGS = MaintenanceSettings(limits=Limits(small_files=2))


def _kill(delay_ms: int) -> None:
    time.sleep(delay_ms / 1000)
    os.kill(os.getpid(), signal.SIGKILL)


def _main(directory: Path, delay_ms: int) -> None:
    maintenance._BATCHES_BETWEEN_CHECKS = 1
    # The module imports this constant from another module and does not export it.
    vars(cleanup)["CHECKPOINT_INTERVAL"] = 3
    if delay_ms >= 0:
        threading.Thread(target=_kill, args=(delay_ms,), daemon=True).start()
    tables = directory / "data" / "tables"
    with Writer(directory) as writer:
        kept = Maintenance(
            {name: [TableMaintenance(tables / name, SETTINGS)] for name in writer.stores},
            TableMaintenance(tables / "_dead_letters", SETTINGS),
            {name: store.recorded_batch() for name, store in writer.stores.items()},
            writer.checkpoint.check_epoch,
        )
        kept.start()
        while writer.has_more_lines:
            writer.run_batch()
            kept.batch_committed(min(s.recorded_batch() for s in writer.stores.values()))
        kept.close(finish=True)


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]))
