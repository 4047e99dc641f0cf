"""Change the number of key groups of a store while its pipeline does not run.

The state has the key group of each row. So it is written again next to the old one, as the next
generation. The commit of the table with the new number also has the new generation (see
``switch``).
"""

from collections.abc import Mapping
from dataclasses import replace

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.final_table import keep_final_rows
from oriel.pipeline.commit.pipeline_names import pipelines
from oriel.pipeline.commit.switch import remove_old_generations
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch, Segments
from oriel.pipeline.state import write_regrouped
from oriel.storage import (
    STORE_PROPERTY,
    DataLayout,
    StoreDefinition,
    UnknownStore,
    current_files,
    is_sink_name,
)
from oriel.storage.delta import DeltaLog, has_table, open_table, store_schema


def rescale(layout: DataLayout, store: str, key_groups: int, *, sync: bool) -> StoreDefinition:
    """Divide the keys of ``store`` into ``key_groups`` key groups. Return its new definition.

    Raises:
        UnknownStore: the store does not exist, or is an output topic.
        AlreadyRunning: its pipeline runs.
        CheckpointError: its checkpoint does not exist, or does not have a complete state.
    """
    if is_sink_name(store):
        message = (
            f"{store!r} is an output topic, whose number of key groups cannot change. Name a store "
            "with a table"
        )
        raise UnknownStore(message)
    directory = layout.table(store)
    if not has_table(directory):
        message = f"store {store!r} does not exist in {layout.tables}"
        raise UnknownStore(message)
    definition = DeltaLog(directory).snapshot().definition
    # The pipeline of the application that writes the store.
    name = pipelines(layout).get(definition.application)
    if name is None:
        message = (
            f"store {definition.name!r}: the checkpoint of its application "
            f"{definition.application} is not in {layout.checkpoints}. Restore the checkpoint "
            "from a backup"
        )
        raise CheckpointError(message)
    # A checkpoint has an epoch. So if the pipeline runs on another machine, where the lock has no
    # effect, its next effect raises ``Fenced``.
    with Checkpoint(layout.checkpoint(name), sync=sync) as checkpoint:
        return _rescaled(layout, checkpoint, key_groups, store, sync=sync)


def _rescaled(
    layout: DataLayout, checkpoint: Checkpoint, key_groups: int, store: str, *, sync: bool
) -> StoreDefinition:
    # Read again, because a process that just ended can have changed the definition.
    snapshot = DeltaLog(layout.table(store)).snapshot()
    definition = snapshot.definition
    # The next generation has its own directory, so the old state stays complete until the table
    # names the new one.
    rescaled = replace(definition, key_groups=key_groups, generation=definition.generation + 1)
    old = checkpoint.versions(definition.state_name)
    # Delete files of a process that was killed before the switch.
    current_files().delete_directory(checkpoint.versions(rescaled.state_name).directory)
    new = checkpoint.versions(rescaled.state_name)
    # If the table is newer than the state, the newest state is lost. Then the version before it is
    # enough, because the next start computes the batch again.
    newest = max(old.newest(), snapshot.batch)
    batches = [] if newest < 0 else [newest, newest - 1]
    # Spark can offer the newest batch again, which then starts from the version before it.
    versions = {batch: old.load(batch) for batch in batches}
    found = {batch: version for batch, version in versions.items() if version is not None}
    if batches and not found:
        message = (
            f"store {store!r} has no state of batch {newest}, because it is new, or it was "
            f"removed from the topology. Compute it from its topics with `oriel rebuild {store}`"
        )
        raise CheckpointError(message)
    names = {
        name: write_regrouped(old.directory, new.directory, name, key_groups, sync=sync)
        # Both versions can name one segment, which is written once.
        for name in {name for version in found.values() for name in version.state_files}
    }
    # A crash between these writes leaves a directory that no table names. The next attempt deletes
    # it.
    for batch, version in found.items():
        # The directory of the generation is new, so its own name must also be on disk.
        new.prepare(
            batch, _without_task_assignment(version, key_groups, names), [new.directory.parent]
        )
    # The table exists, so its schema is not used.
    schema = store_schema({}, windowed=rescaled.window.has_window_columns)
    table = open_table(layout.table(store), schema, {}, sync=sync)
    # This commit is the switch. Before it, a start reads the old state with the old number of key
    # groups. After it, a start reads the new state with the new number. A crash after it leaves the
    # old state, which the next start deletes. Rows of the table have no key group, so they stay.
    table.set_property(STORE_PROPERTY, rescaled.to_json())
    # After a crash before this line, the next start replaces the final rows by the same rows.
    keep_final_rows(layout, rescaled, sync=sync)
    remove_old_generations(layout, checkpoint, rescaled)
    return rescaled


def _without_task_assignment(
    version: PreparedBatch, key_groups: int, names: Mapping[str, str]
) -> PreparedBatch:
    """Return a version with the files ``names``, for a number of tasks that no run can have.

    The keys of a file now belong to several tasks. As after each change of the number of tasks,
    each task of the next batch reads all files and uses the rows of its own keys.
    """

    def reassigned(segments: Segments) -> Segments:
        # A run has at most one task per key group. So no run has this number of tasks, and
        # ``own_files`` returns None for each task.
        tasks = max(len(segments), key_groups + 1) if segments else 0
        return {task: [names[name] for name in segments.get(task, [])] for task in range(tasks)}

    joins = {number: reassigned(segments) for number, segments in version.join_segments.items()}
    return replace(version, segments=reassigned(version.segments), join_segments=joins)
