"""What tasks read and write, as files: state segments, Parquet of changed windows, dead letters.

A file's name has its batch and task, and a suffix that no other attempt has: a task that runs
again writes other files. What nothing refers to in the end is removed with the state versions,
or by the tables' vacuum.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from oriel.pipeline.errors import FolderNotShared
from oriel.pipeline.plan import BatchPlan, Clocks, JoinPlan
from oriel.pipeline.state import (
    KeyedState,
    Layout,
    OpenRecords,
    TaskShare,
    Version,
    in_share,
    write_segment,
)
from oriel.pipeline.windows import EngineResult, JoinResult
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

    def process_records(
        self, plan: BatchPlan, tasks: Sequence[int], records: pa.Table, close_ms: int
    ) -> tuple[EngineResult, list[Version]]:
        self._refuse_not_shared(self.state)
        engine = plan.assembly.engine
        layout = Layout.of_engine(engine)
        shares = [(task, plan.tasks) for task in tasks]
        states = [KeyedState.of_task(self.state, plan.segments, share, layout) for share in shares]
        # The rows near the batch's records are enough, and those near what closes now
        # (decision 0022).
        touched = [
            state.touched(own["key"], (plan.close_ms, close_ms), engine.touched_units(own))
            for state, own in zip(states, _by_share(records, shares), strict=True)
        ]
        rows = pa.concat_tables([of_state.rows for of_state in touched])
        result = engine.process(rows, records, plan.close_ms, close_ms)
        added = [None] * len(shares) if result.added is None else _by_share(result.added, shares)
        versions = [
            state.replaced(of_state, rows, _name(plan, task), sync=self.sync, added=new)
            for task, state, of_state, rows, new in zip(
                tasks, states, touched, _by_share(result.state, shares), added, strict=True
            )
        ]
        self._sync_names(self.state)
        return result, versions

    def join_records(
        self,
        plan: BatchPlan,
        join: JoinPlan,
        task: int,
        records: pa.Table,
        clocks: tuple[Clocks, Clocks],
    ) -> tuple[JoinResult, Version]:
        self._refuse_not_shared(self.state)
        before, after = map(join.stream_times_ms, clocks)
        share = (task, plan.tasks)
        name = f"{_name(plan, task)}-join-{join.number}"
        engine = join.stage.open_records
        if engine is not None:
            # Only the records that may be partners of the batch's or leave with it.
            open_records = OpenRecords.of_task(
                self.state, join.segments, share, engine.record_schema, marks=engine.keeps_matches
            )
            concerned = engine.concerned(
                open_records.records, open_records.matched, records, (before, after)
            )
            rows = np.flatnonzero(concerned)
            joined = join.stage.process(open_records.state(rows), records, after)
            stays = engine.stays(open_records.records, after)
            version = open_records.replaced(
                rows[joined.stayed], joined.state, stays, name, sync=self.sync
            )
            self._sync_names(self.state)
            return joined, version
        # Rows of tables or of an aggregation: those of the batch's keys, or of these the units or
        # members that it has to do with.
        layout = join.stage.layout
        keyed = KeyedState.of_task(self.state, join.segments, share, layout)
        updates, versions = join.stage.updates, join.stage.versions
        if updates is not None:
            closing_ms = updates.close_ms(before), updates.close_ms(after)
            touched = keyed.touched(records["key"], closing_ms, updates.touched_units(records))
        elif versions is not None:
            units = versions.touched_units(keyed.touched(records["key"]).rows, records)
            closing_ms = versions.close_ms(before), versions.close_ms(after)
            touched = keyed.touched_units(*units, closing_ms)
        elif layout.member is None:
            touched = keyed.touched(records["key"])
        else:
            touched = keyed.touched_members(records, join.stage.whole(records))
        joined = join.stage.process(touched.rows, records, after)
        changing = join.stage.changing(records)
        version = keyed.replaced(
            touched, joined.state, name, sync=self.sync, changing=changing, added=joined.added
        )
        self._sync_names(self.state)
        return joined, version

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
    """``FolderFiles`` of a sink: what the engine's tasks leave are the batch's records, as written.

    They take the place of its state, of which it has none: so they are decided with the batch, kept
    as long as it can be offered again, and removed like the state of earlier batches. The folder
    ``table`` is that of the state: there is no table.
    """

    def process_records(
        self, plan: BatchPlan, tasks: Sequence[int], records: pa.Table, close_ms: int
    ) -> tuple[EngineResult, list[Version]]:
        self._refuse_not_shared(self.state)
        engine = plan.assembly.engine
        result = engine.process(engine.empty_state(), records, plan.close_ms, close_ms)
        versions = [Version([], 0) for _ in tasks]
        if len(result.changes):
            # One segment contains the records of all tasks. The first task has it.
            name = write_segment(self.state, result.changes, _name(plan, tasks[0]), sync=self.sync)
            self._sync_names(self.state)
            versions[0] = Version([name], 0)
        return result, versions

    def write_changes(self, plan: BatchPlan, task: int, changes: pa.Table) -> list[AddedFile]:
        """See ``TaskFiles``: they are written."""
        del plan, task, changes
        return []


def _by_share(rows: pa.Table, shares: Sequence[TaskShare]) -> list[pa.Table]:
    """Return the rows of each task, from the rows of all tasks."""
    if len(shares) == 1:
        return [rows]
    return [rows.filter(pa.array(in_share(rows, share))) for share in shares]


def _name(plan: BatchPlan, task: int) -> str:
    return f"{plan.batch:012d}-{task:04d}"
