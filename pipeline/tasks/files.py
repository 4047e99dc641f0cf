"""What tasks read and write, as files: state segments, Parquet of changed windows, dead letters.

A file's name has its batch and task, and a suffix that no other attempt has: a task that runs
again writes other files. What nothing refers to in the end is removed with the state versions,
or by the tables' vacuum.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.errors import FolderNotShared
from oriel.pipeline.plan import BatchPlan, StoredOperator
from oriel.pipeline.state import Version, open_state
from oriel.pipeline.windows import Result, Times
from oriel.storage import is_object, sync_folder
from oriel.storage.delta import AddedFile, table_rows, write_file


@dataclass(frozen=True)
class FolderFiles:
    """``TaskFiles`` in folders: of the store's table, its state, and the dead-letter table.

    ``sync``: files are forced to disk before anything refers to them. ``on_cluster``: tasks run on
    other machines than the driver, which share the folders.
    """

    table: Path
    state: Path
    dead_letters: Path
    sync: bool
    on_cluster: bool = False

    def run_operator(
        self,
        plan: BatchPlan,
        stored: StoredOperator[Result],
        tasks: Sequence[int],
        batch: pa.Table,
        times: Times,
    ) -> tuple[Result, list[Version]]:
        self._refuse_not_shared(self.state)
        operator, shares = stored.operator, [(task, plan.tasks) for task in tasks]
        states = [open_state(self.state, stored.segments, share, operator) for share in shares]
        batches = states[0].divide(batch, shares)
        # Only the rows near the records of the batch, and those that expire (decision 0022).
        needed = [
            state.needed(of_task, times) for state, of_task in zip(states, batches, strict=True)
        ]
        rows = pa.concat_tables([of_state.rows for of_state in needed])
        result = operator.apply(rows, batch, times)
        versions = [
            state.replaced(
                of_state, of_task, times, of_result, f"{_name(plan, task)}{stored.suffix}",
                sync=self.sync,
            )
            for task, state, of_state, of_task, of_result in zip(
                tasks, states, needed, batches, states[0].divide_result(result, shares), strict=True
            )
        ]  # fmt: skip
        self._sync_names(self.state)
        return result, versions

    def write_changes(self, plan: BatchPlan, task: int, changes: pa.Table) -> list[AddedFile]:
        if not len(changes):
            return []
        types = plan.assembly.types
        windowed = plan.windows.kind != "none"
        rows = table_rows(changes, types, plan.batch, windowed=windowed)
        return [self._added(self.table, rows, f"part-{_name(plan, task)}")]

    def write_dead_letters(self, plan: BatchPlan, letters: Sequence[pa.Table]) -> list[AddedFile]:
        letters = [table for table in letters if len(table)]
        if not letters:
            return []
        # A topic's name is longer than that of a file may be.
        name = f"dead-{plan.store[:128]}-{plan.batch:012d}"
        return [self._added(self.dead_letters, pa.concat_tables(letters), name)]

    def _added(self, folder: Path, rows: pa.Table, name: str) -> AddedFile:
        self._refuse_not_shared(folder)
        added = write_file(folder, rows, name, sync=self.sync)
        self._sync_names(folder)
        return added

    def _sync_names(self, folder: Path) -> None:
        """Force the names of new files to disk where the driver can't do it for all tasks.

        A sync of a folder may settle only what its own machine has done there (decision 0036).
        """
        if self.sync and self.on_cluster:
            sync_folder(folder)

    def _refuse_not_shared(self, folder: Path) -> None:
        """Say so if this machine lacks a folder; else its files would seem to be lost.

        Raises:
            FolderNotShared: it does.
        """
        if self.on_cluster and not is_object(folder) and not folder.is_dir():
            message = (
                f"machine {socket.gethostname()} of the cluster has no directory {folder}. --data "
                "must be on a mount that all machines have under the same path "
                "(docs/how-to/cluster.md)"
            )
            raise FolderNotShared(message)


@dataclass(frozen=True)
class SinkFiles(FolderFiles):
    """``FolderFiles`` of a sink: its records are in the state, and there is no table.

    So the records are prepared with the batch, kept as long as Spark can offer the batch again, and
    deleted like the state of earlier batches. The directory ``table`` is that of the state.
    """

    def write_changes(self, plan: BatchPlan, task: int, changes: pa.Table) -> list[AddedFile]:
        """Do nothing, because the state has the records."""
        del plan, task, changes
        return []


def _name(plan: BatchPlan, task: int) -> str:
    return f"{plan.batch:012d}-{task:04d}"
