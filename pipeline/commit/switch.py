"""Replace the content of a store, its state or both in one commit (docs/decisions/0035).

A store's table names the generation of its state, ``state/<store>@<generation>`` in the checkpoint.
New files are created next to the old ones: data files that no version of the table references, and
the state in the directory of the next generation. One commit of the table then adds the new rows
and the new generation. Before this commit, everything is old. After it, everything is new. If the
process is killed before the commit, nothing references its files, and the next attempt removes
them.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.commit.checkpoint import Checkpoint, StateVersions, is_locked
from oriel.pipeline.commit.differences import refuse_foreign, with_recorded_values
from oriel.pipeline.commit.sink_topic import SinkDefinition
from oriel.pipeline.commit.store_tables import open_dead_letters, recorded_definition
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    DataLayout,
    StoreDefinition,
    current_files,
    sync_directories,
)
from oriel.storage.delta import (
    DEAD_LETTER_SCHEMA,
    AddedFile,
    TableContent,
    open_table,
    open_with_files,
    replace_rows,
    write_file,
)

#: The columns that identify a dead letter.
_DEAD_LETTER_ID = ["topic", "partition", "offset", "store", "reason"]


class Replacement:
    """The next generation of one store, until the table switches to it."""

    def __init__(
        self,
        layout: DataLayout,
        checkpoint: Checkpoint,
        defined: StoreDefinition,
        schema: pa.Schema,
        *,
        sync: bool,
    ) -> None:
        """Start the next generation of the store of ``defined``, with an empty state.

        Create the table of the store if it does not exist.

        Raises:
            ForeignCheckpoint: the table belongs to another application.
            IncompatibleStore: Oriel did not write the table.
        """
        self.table_directory = layout.table(defined.name)
        self._layout = layout
        self._schema = schema
        self._sync = sync
        properties = {STORE_PROPERTY: defined.to_json()}
        table = open_table(self.table_directory, schema, properties, sync=sync)
        recorded = recorded_definition(table, defined.name)
        refuse_foreign(recorded, defined)
        #: The definition that the table has after the switch.
        self.definition = replace(
            with_recorded_values(recorded, defined), generation=recorded.generation + 1
        )
        # Delete files of a process that was killed before its switch.
        current_files().delete_directory(checkpoint.versions(self.definition.state_name).directory)
        self.versions: StateVersions = checkpoint.versions(self.definition.state_name)

    def add_state(self, directory: Path, prepared: PreparedBatch) -> None:
        """Copy the state files of ``prepared`` from ``directory``, and write its state version."""
        for name in prepared.state_files:
            # On a local disk, the copy is a second name of the same file, so it costs no space.
            current_files().copy(directory / name, self.versions.directory / name, sync=self._sync)
        # The directory of the generation is new, so its name must also be on disk.
        directories = [self.versions.directory.parent, self.table_directory]
        self.versions.prepare(prepared.record.batch, prepared, directories)

    def add_dead_letters(self, directory: Path, batch: int) -> None:
        """Commit the new dead letters of the table in ``directory``. See ``add_dead_letters``."""
        own = self.definition
        add_dead_letters(self._layout, own.application, own.name, directory, batch, sync=self._sync)

    def add_files(self, directory: Path, files: Sequence[AddedFile], batch: int) -> list[AddedFile]:
        """Copy data files from ``directory``, and return them as files of the table.

        Their names contain ``batch``. So no process deletes them before the switch, because the
        table does not have a later batch.
        """
        added = []
        for file in files:
            name = re.sub(r"^part-\d{12}", f"part-{batch:012d}", file.path)
            current_files().copy(
                directory / file.path, self.table_directory / name, sync=self._sync
            )
            added.append(replace(file, path=name))
        return added

    def switch_to(self, files: Sequence[AddedFile], prepared: PreparedBatch) -> int:
        """Replace the rows and the generation of the table in one commit. Return its version."""
        # The entry of the table refers to these files, so their names must be on disk before.
        if self._sync:
            sync_directories([self.table_directory])
        return replace_rows(
            self.table_directory,
            TableContent(files, self._schema, {STORE_PROPERTY: self.definition.to_json()}),
            self.definition.application,
            prepared.record.batch,
            {COMMIT_INFO_KEY: prepared.record.to_json()},
            sync=self._sync,
        )


def add_dead_letters(
    layout: DataLayout, application: str, store: str, directory: Path, batch: int, *, sync: bool
) -> None:
    """Commit the dead letters of the table in ``directory`` that the table of the layout lacks."""
    # Most rebuilds have no dead letters. Then only one row is read.
    if not len(open_with_files(directory).to_pyarrow_dataset().head(1, columns=_DEAD_LETTER_ID)):
        return
    open_dead_letters(directory, sync=sync)
    found = open_with_files(directory).to_pyarrow_table()
    target_directory = layout.dead_letters
    table = open_dead_letters(target_directory, sync=sync)
    # Most dead letters existed before the rebuild, and a record must not have two. The comparison
    # also keeps a second attempt harmless, after a crash between this commit and the switch.
    known = open_with_files(target_directory).to_pyarrow_dataset().to_table(columns=_DEAD_LETTER_ID)
    known_ids = _dead_letter_ids(known).group_by(_DEAD_LETTER_ID).aggregate([])
    # A join does not keep the order of rows.
    numbered = _dead_letter_ids(found).append_column("row", pa.array(range(len(found))))
    new = (
        numbered.join(known_ids, _DEAD_LETTER_ID, join_type="left anti")["row"]
        .combine_chunks()
        .sort()
    )
    if not len(new):
        return
    dead_letters = found.take(new).drop_columns(["revision"])
    revisions = pa.repeat(pa.scalar(batch, pa.int64()), len(dead_letters))
    dead_letters = dead_letters.append_column("revision", revisions)
    dead_letters = dead_letters.select(DEAD_LETTER_SCHEMA.names).cast(DEAD_LETTER_SCHEMA)
    file = write_file(target_directory, dead_letters, f"dead-{store[:128]}-{batch:012d}", sync=sync)
    if sync:
        sync_directories([target_directory])
    # With the id of the store, ``txn`` would already have this batch, so the table would reject the
    # commit. A rebuild has its own id, which counts its commits.
    application = f"{application}/{store}/rebuild"
    recorded = table.recorded_batch(application)
    table.commit([file], application, 0 if recorded is None else recorded + 1, {})


def as_committed_batch(computed: PreparedBatch, batch: int) -> PreparedBatch:
    """Return the last batch of a rebuild as batch ``batch``, without files to commit."""
    record = replace(computed.record, batch=batch)
    # The commit of the switch adds the rows, and ``add_dead_letters`` adds the dead letters. So a
    # start must not find anything else to commit for this batch.
    return replace(computed, record=record, files=[], dead_letters=[])


def remove_old_generations(
    layout: DataLayout, checkpoint: Checkpoint, definition: StoreDefinition | SinkDefinition
) -> None:
    """Remove the files that a switch leaves: earlier generations, and the directory of the rebuild.

    A process of this machine that still computes the rebuild keeps its directory. Later generations
    stay, because a process that was suspended during a takeover can have an old definition.
    """
    for generation in range(definition.generation):
        name = replace(definition, generation=generation).state_name
        current_files().delete_directory(checkpoint.directory / "state" / name)
    scratch = DataLayout(layout.rebuild(definition.name))
    if not is_locked(scratch.checkpoint("rebuild")):
        current_files().delete_directory(scratch.root)


def removed_stores(checkpoint: Checkpoint, stores: Iterable[str]) -> list[str]:
    """Return the stores with a state in ``checkpoint`` that are not in ``stores``."""
    found = current_files().names(checkpoint.directory / "state")
    names = {name.partition("@")[0] for name in found}
    return sorted(names.difference(stores))


def _dead_letter_ids(dead_letters: pa.Table) -> pa.Table:
    """Return the columns that identify dead letters. A null store becomes an empty string.

    A dead letter of all stores has a null store.
    """
    # A join does not match null with null. So each rebuild would add these dead letters again.
    known_ids = dead_letters.select(_DEAD_LETTER_ID)
    number = known_ids.schema.get_field_index("store")
    return known_ids.set_column(number, "store", known_ids["store"].fill_null(""))
