"""The files of tasks: state segments, Parquet files of changed windows, and dead letters.

The name of a file has its batch and task, and a suffix that differs for each attempt. So a task
that runs again writes other files. Files without a reference are removed with old state versions,
or by the vacuum of the tables.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.errors import DirectoryNotShared
from oriel.pipeline.plan import BatchPlan, StoredOperator
from oriel.pipeline.state import Version, open_state
from oriel.pipeline.windows import Result, Times
from oriel.storage import is_object, sync_directory
from oriel.storage.delta import AddedFile, dead_letters_name, run_name, table_rows, write_file


@dataclass(frozen=True)
class DirectoryFiles:
    """``TaskFiles`` in directories.

    Attributes:
        table: The directory of the store's table.
        state: The directory of its state.
        dead_letters: The directory of the dead-letter table.
        sync: True if files are forced to disk before anything refers to them.
        on_cluster: True if tasks run on other machines, which share the directories with the
            driver.
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
        self._check_shared(self.state)
        operator, shares = stored.operator, [(task, plan.tasks) for task in tasks]
        states = [open_state(self.state, stored.segments, share, operator) for share in shares]
        # All states belong to one operator, so the class of the first one divides the rows for all
        # tasks.
        batches = states[0].divide(batch, shares)
        # Only the rows near the records of the batch, and the rows that expire (decision 0022).
        needed = [
            state.needed(task_records, times)
            for state, task_records in zip(states, batches, strict=True)
        ]
        # No key is in two tasks, so the operator can apply all records in one call. For few
        # records, a call costs the same as for many (decision 0095).
        rows = pa.concat_tables([of_state.rows for of_state in needed])
        result = operator.apply(rows, batch, times)
        # Each state writes new files and leaves the files of version n-1. A crash here leaves files
        # that no version names. After a start, the first batch that is committed deletes them.
        versions = [
            state.replaced(
                of_state, task_records, times, of_result, f"{_name(plan, task)}{stored.suffix}",
                sync=self.sync,
            )
            for task, state, of_state, task_records, of_result in zip(
                tasks, states, needed, batches, states[0].divide_result(result, shares), strict=True
            )
        ]  # fmt: skip
        self._sync_names(self.state)
        return result, versions

    def write_changes(self, plan: BatchPlan, task: int, changes: pa.Table) -> list[AddedFile]:
        # Without a changed window, the commit has no file. It only moves the position.
        if not len(changes):
            return []
        types = plan.assembly.table_types
        windowed = plan.windows.kind != "none"
        rows = table_rows(changes, types, plan.batch, windowed=windowed)
        run = run_name(plan.batch, plan.batch)
        return [self._added(self.table, rows, f"part-{_name(plan, task)}", run)]

    def write_dead_letters(
        self, plan: BatchPlan, dead_letters: Sequence[pa.Table]
    ) -> list[AddedFile]:
        dead_letters = [table for table in dead_letters if len(table)]
        if not dead_letters:
            return []
        # The cleanup of the dead-letter table reads the store and the batch in the name. It deletes
        # a file without a commit after the store has committed a later batch.
        name = dead_letters_name(plan.store, plan.batch)
        return [self._added(self.dead_letters, pa.concat_tables(dead_letters), name)]

    def _added(
        self, directory: Path, rows: pa.Table, name: str, run: str | None = None
    ) -> AddedFile:
        self._check_shared(directory)
        added = write_file(directory, rows, name, sync=self.sync, run=run)
        self._sync_names(directory)
        return added

    def _sync_names(self, directory: Path) -> None:
        """Force the names of new files to disk, if the driver cannot do it for all tasks.

        A sync of a directory can be limited to the changes of its own machine (decision 0036).
        """
        if self.sync and self.on_cluster:
            sync_directory(directory)

    def _check_shared(self, directory: Path) -> None:
        """Check that this machine has a directory. Otherwise, its files would seem to be lost.

        Raises:
            DirectoryNotShared: The directory does not exist on this machine.
        """
        if self.on_cluster and not is_object(directory) and not directory.is_dir():
            message = (
                f"machine {socket.gethostname()} of the cluster has no directory {directory}. "
                "--data must be on a mount that all machines have under the same path "
                "(docs/how-to/cluster.md)"
            )
            raise DirectoryNotShared(message)


@dataclass(frozen=True)
class SinkFiles(DirectoryFiles):
    """``DirectoryFiles`` of a sink, which has its records in the state instead of a table.

    So the records are prepared with the batch, kept as long as Spark can offer the batch again, and
    deleted like the state of earlier batches. The attribute ``table`` is the directory of the
    state.
    """

    def write_changes(self, plan: BatchPlan, task: int, changes: pa.Table) -> list[AddedFile]:
        """Do nothing, because the state has the records."""
        del plan, task, changes
        return []


def _name(plan: BatchPlan, task: int) -> str:
    # The names of state files and of data files have the batch. So the cleanup of old files sees
    # which batch could still refer to a file.
    return f"{plan.batch:012d}-{task:04d}"
