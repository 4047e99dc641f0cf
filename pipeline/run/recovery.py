"""Recover a pipeline at its start: find the last batch of each store, and rebuild stores.

The checkpoint has the recovery point of each store. If a store is new in a topology that has run,
it is rebuilt first, up to the last batch of the other stores. The command ``oriel rebuild`` does
the same for stores that exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oriel.pipeline.commit import (
    RecoveryPoint,
    SinkDefinition,
    StoreBatches,
    StoreTables,
    check_log,
    remove_old_generations,
    removed_stores,
    topology_recovery_point,
)
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.batches import check_readers
from oriel.pipeline.run.changes import Change, changes, refuse_changes
from oriel.pipeline.run.opened import OpenPipeline
from oriel.pipeline.run.rebuild import StoreRebuild, publish_all
from oriel.pipeline.run.replay import Replaying
from oriel.pipeline.run.reporting import note_rebuilt
from oriel.storage import is_sink_name, say


@dataclass(frozen=True)
class RecoveredStores:
    """The stores of a pipeline, ready for the next batch.

    Attributes:
        batches: Prepares and commits the batches of each store and sink.
        tables: The tables of each store.
        last: The last batch that was prepared, None before the first one.
    """

    batches: dict[str, StoreBatches]
    tables: dict[str, StoreTables]
    last: RecoveryPoint | None

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """The counters of each store at the end of the last committed batch."""
        if self.last is None:
            return {}
        batch = self.last.batch if self.last.is_done else self.last.batch - 1
        before = {name: store.prepared(batch) for name, store in self.batches.items()}
        return {name: dict(b.record.counters) for name, b in before.items() if b is not None}


def recover(pipeline: OpenPipeline) -> RecoveredStores:
    """Return all stores after their last batch. Compute stores that are new in the topology.

    Raises:
        CheckpointError, ForeignCheckpoint, IncompatibleStore: The pipeline cannot continue with the
            content of the data directory.
    """
    check_log_identity(pipeline)
    # All stores are checked before the first one is computed, which can be slow.
    check_definitions(pipeline)
    opened = {name: pipeline.tables(name) for name in pipeline.plans}
    for name, tables in opened.items():
        last = pipeline.checkpoint.versions(tables.definition.state_name).last_prepared()
        pipeline.log.refuse_changed(name, last.blocks if last else {})
    # In the order of the topology, a store follows the stores whose rows it reads.
    batches: dict[str, StoreBatches] = {}
    stores: dict[str, StoreTables] = {}
    for name, existing in opened.items():
        tables = existing
        # Spark does not repeat the batches before the last one. So a store without a batch must be
        # rebuilt if the pipeline has run.
        versions = pipeline.checkpoint.versions(existing.definition.state_name)
        newest = pipeline.last_prepared()
        is_empty = existing.recorded_batch() < 0 and versions.newest() < 0
        if is_empty and newest is not None and newest.batch > 0:
            _rebuild(pipeline, name)
            tables = pipeline.tables(name)
        remove_old_generations(pipeline.layout, pipeline.checkpoint, tables.definition)
        if isinstance(tables, StoreTables):
            stores[name] = tables
        batches[name] = StoreBatches(
            pipeline.plans[name],
            tables,
            pipeline.checkpoint.versions(tables.definition.state_name),
            tasks=pipeline.settings.tasks,
            on_cluster=pipeline.settings.on_cluster,
        )
    _log_removed(pipeline, batches)
    last_prepared = topology_recovery_point(batches.values())
    pipeline.checkpoint.prepare_spark(pipeline.topics, last_prepared)
    return RecoveredStores(batches, stores, last_prepared)


def rebuild(pipeline: OpenPipeline, stores: Sequence[str]) -> None:
    """Compute stores again, up to the last batch of the pipeline.

    A rebuild reads the whole log again, so it is also a solution if the log has changed.

    Raises:
        CheckpointError, ForeignCheckpoint, IncompatibleStore: A store cannot be computed again.
    """
    check_log_identity(pipeline)
    for name in pipeline.plans:
        if name in stores:
            note_rebuilt(pipeline.checkpoint.directory, name, _rebuild(pipeline, name, stores))
    if changed := _changes(pipeline, stores):
        names = ", ".join(changed)
        line = f"rebuild: the topology also changes {names}. Rebuild them before the next run"
        say("rebuild", line, level="warning")


def check_log_identity(pipeline: OpenPipeline) -> None:
    """Check that the checkpoint belongs to the log, and record the log of a new checkpoint."""
    identity = pipeline.log.identity(pipeline.spark)
    check_log(pipeline.checkpoint.directory, identity, sync=pipeline.settings.sync)


def check_definitions(pipeline: OpenPipeline, excluded: Sequence[str] = ()) -> None:
    """Check that the topology changes no existing store, except the ``excluded`` ones.

    Raises:
        IncompatibleStore: a store changes. The message names each store and each difference.
    """
    refuse_changes(_changes(pipeline, excluded), pipeline.topology)


def _changes(pipeline: OpenPipeline, excluded: Sequence[str]) -> dict[str, Change]:
    """Return the changes of the topology to its existing stores, without the ``excluded`` ones."""
    plans = {name: each for name, each in pipeline.plans.items() if name not in excluded}
    defined = ((each.store, pipeline.definition(name)) for name, each in plans.items())
    return changes(pipeline.layout, pipeline.checkpoint, defined)


def _rebuild(pipeline: OpenPipeline, name: str, rebuilt: Sequence[str] = ()) -> PreparedBatch:
    """Compute a store up to the last batch of the pipeline. ``rebuilt`` are also rebuilt."""
    last = pipeline.last_prepared()
    if last is None:
        message = f"store {name!r}: the pipeline has not run. Use `oriel run` first"
        raise CheckpointError(message)
    readers = pipeline.topology.readers_of(name)
    check_readers(pipeline.layout, pipeline.checkpoint, name, readers, last.batch)
    common = replaying(pipeline)
    plans, definition = pipeline.plans[name], pipeline.definition(name)
    if isinstance(definition, SinkDefinition):
        publish = pipeline.publish_of(name)
        prepared = publish_all(common, plans, definition, publish, last.batch, last.ends)
    else:
        with StoreRebuild(common, plans, definition) as store:
            prepared = store.replace_store(pipeline.checkpoint, last.batch, last.ends)
    log_old_readers(pipeline, name, rebuilt)
    return prepared


def replaying(pipeline: OpenPipeline) -> Replaying:
    """Return what the replays of the stores of a pipeline share."""
    return Replaying(
        pipeline.spark,
        pipeline.log,
        pipeline.computation,
        pipeline.layout,
        pipeline.checkpoint,
        pipeline.settings.tasks,
        pipeline.settings.sync,
        # A partition can become idle from now on, and was not idle before.
        pipeline.wall_clock(pipeline.since_ms),
    )


def log_old_readers(pipeline: OpenPipeline, name: str, rebuilt: Sequence[str]) -> None:
    """Log the stores that have read the old rows of a rebuilt store."""
    others = [reader for reader in pipeline.topology.readers_of(name) if reader not in rebuilt]
    if others:
        line = (
            f"rebuild {name}: stores {', '.join(others)} still use the rows from before the "
            "rebuild. If the rows changed, rebuild these stores also"
        )
        say("rebuild", line)


def _log_removed(pipeline: OpenPipeline, stores: Mapping[str, StoreBatches]) -> None:
    """Log the stores that the topology does not have any more."""
    for store in removed_stores(pipeline.checkpoint, stores):
        line = f"store {store} is not in the topology: its table stays as it is"
        if is_sink_name(store):
            line = f"{store} is not in the topology: no more records are written to the topic"
        say("store-left", line, level="warning", store=store)
