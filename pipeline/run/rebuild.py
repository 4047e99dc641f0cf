"""Replace stores of a pipeline by stores that are computed again from the start of their topics.

A replay computes each store in its own data directory (``replay``), up to a batch of the pipeline.
The newest row of each window then becomes part of one revision of the store's table. These rows
replace the old rows, together with the state, in one step (``Replacement``). The pipeline then
continues as if the store had always had this definition.
"""

from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from oriel.pipeline.commit import (
    Checkpoint,
    Publish,
    Replacement,
    SinkDefinition,
    SinkTopic,
    StoreBatches,
    StoreTables,
    add_dead_letters,
    as_committed_batch,
    check_not_running,
    mark_published,
    remove_old_generations,
)
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch, StorePlans
from oriel.pipeline.run.replay import Replay, ReplayedRows, Replaying
from oriel.storage import DataLayout, Offsets, StoreDefinition, current_files, log_line, say
from oriel.storage.delta import DeltaLog, store_schema


class StoreRebuild:
    """A store that is computed again, until it replaces the old store.

    The directory of the replay is open from the beginning to the end of a ``with`` block.
    """

    def __init__(self, common: Replaying, plans: StorePlans, defined: StoreDefinition) -> None:
        """Start a replay of the store of ``plans``.

        Args:
            common: What all replays share.
            plans: The plans of the store.
            defined: The definition of the store in the topology.

        Raises:
            AlreadyRunning: another process rebuilds the store.
            ForeignCheckpoint: the store's table belongs to another application.
            IncompatibleStore: Oriel did not write the table.
        """
        self._common = common
        self._defined = defined
        self._schema = store_schema(plans.table_columns, windowed=defined.window.has_window_columns)
        scratch = DataLayout(common.layout.rebuild(defined.name))
        check_not_running(scratch.checkpoint("rebuild"))
        current_files().delete_directory(scratch.root)
        # The rebuild has its own table of the same store, in its first generation.
        self._definition = self._target(common.checkpoint).definition
        definition = replace(self._definition, generation=0)
        self._closing = ExitStack()
        checkpoint = Checkpoint(scratch.checkpoint("rebuild"), sync=False)
        self._closing.enter_context(checkpoint)
        self._versions = checkpoint.versions(defined.name)
        self._table = scratch.table(defined.name)
        tables = StoreTables(scratch, definition, plans.table_columns, sync=False)
        batches = StoreBatches(plans, tables, self._versions, tasks=common.tasks)
        self.replay = Replay(common, batches)
        self._dead_letters = scratch.dead_letters
        self._rows_directory = scratch.root / "rows"
        current_files().make_directory(self._rows_directory, sync=False)
        self._rows = ReplayedRows(common, self._table, self._rows_directory, self._schema)

    @property
    def version(self) -> int:
        """The newest version of the table of the replay."""
        return max(DeltaLog(self._table).versions())

    def add_rows(self, revision: int) -> None:
        """Write the rows that the replay has changed since the last call. See ``ReplayedRows``."""
        self._rows.add(revision)

    def replace_store(self, checkpoint: Checkpoint, batch: int, ends: Offsets) -> PreparedBatch:
        """Compute the store up to the end of ``batch``, and replace the old store.

        Args:
            checkpoint: The checkpoint of the pipeline, which this process holds.
            batch: The batch up to which the application has prepared its stores.
            ends: The offsets at which ``batch`` ends.

        Returns:
            The newest batch of the store.

        Raises:
            RecordCountMismatch: a record was lost or used twice.
            CheckpointError, EventLogError: the log has fewer records than the pipeline has read, or
                the store has changed since this rebuild began.
        """
        target = self._target(checkpoint)
        if target.definition != self._definition:
            message = (
                f"store {self._defined.name!r} has changed since this rebuild began, for example "
                "because of oriel rescale. Nothing is replaced. Start the rebuild again"
            )
            raise CheckpointError(message)
        prepared = as_committed_batch(self.replay.up_to(batch, ends), batch)
        self._rows.add(batch)
        target.add_state(self._versions.directory, prepared)
        target.add_dead_letters(self._dead_letters, batch)
        files = target.add_files(self._rows_directory, self._rows.files, batch)
        target.switch_to(files, prepared)
        self._closing.close()
        remove_old_generations(self._common.layout, checkpoint, target.definition)
        say("rebuild", log_line("store rebuilt", store=self._defined.name, batch=batch))
        return prepared

    def _target(self, checkpoint: Checkpoint) -> Replacement:
        common = self._common
        return Replacement(common.layout, checkpoint, self._defined, self._schema, sync=common.sync)

    def __enter__(self) -> Self:
        """Keep the directory of the replay open during a ``with`` block."""
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._closing.close()


def publish_all(
    common: Replaying,
    plans: StorePlans,
    defined: SinkDefinition,
    publish: Publish,
    batch: int,
    prepared_ends: Offsets,
) -> PreparedBatch:
    """Write all records of the sink of ``plans`` up to the end of ``batch``.

    Each batch is published when it is computed. The state after the last batch is the next
    generation of the sink, and is valid once its definition is written. After an earlier crash, the
    next rebuild starts from the beginning.

    Raises:
        RecordCountMismatch, CheckpointError, EventLogError: as from ``StoreRebuild.replace_store``.
    """
    owner = common.checkpoint
    recorded = SinkDefinition.recorded(owner.directory, defined.name)
    if recorded is not None:
        generation = recorded.generation + 1
        defined = replace(defined, generation=generation, key_groups=recorded.key_groups)
    scratch = DataLayout(common.layout.rebuild(defined.name))
    current_files().delete_directory(scratch.root)
    current_files().delete_directory(owner.versions(defined.state_name).directory)
    target = owner.versions(defined.state_name)
    with Checkpoint(scratch.checkpoint("rebuild"), sync=False) as checkpoint:
        first = replace(defined, generation=0)
        topic = SinkTopic(scratch, checkpoint, first, publish, sync=False)
        versions = checkpoint.versions(first.name)
        replay = Replay(common, StoreBatches(plans, topic, versions, tasks=common.tasks))
        computed = replay.up_to(batch, prepared_ends)
        # The topic has the records of the last batch, so only the state of the joins is needed.
        prepared = replace(as_committed_batch(computed, batch), segments={}, changed=0)
        for name in prepared.state_files:
            source = versions.directory / name
            current_files().copy(source, target.directory / name, sync=common.sync)
    add_dead_letters(
        common.layout, owner.application, defined.name, scratch.dead_letters, batch,
        sync=common.sync,
    )  # fmt: skip
    target.prepare(batch, prepared, [target.directory.parent])
    mark_published(target.directory, prepared, sync=common.sync)
    defined.write(target.directory, sync=common.sync)
    remove_old_generations(common.layout, owner, defined)
    say("rebuild", log_line("output topic rebuilt", sink=defined.name, batch=batch))
    return prepared
