"""A store's content, its state or both replaced as a whole, in one step (docs/decisions/0035).

A store's table names the generation of its state, ``state/<store>@<generation>`` in the checkpoint.
So everything new is made beside what is there: files that no version of the table names, the state
in a folder of the next generation. One commit of the table then says the new generation and has
the new rows: before it all is as it was, behind it all is new. Whoever is killed leaves what
nothing refers to, which the next one removes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.commit.checkpoint import Checkpoint
from oriel.pipeline.commit.differences import as_table_knows, refuse_foreign
from oriel.pipeline.commit.sink_topic import SinkDefinition
from oriel.pipeline.commit.store_tables import open_dead_letters, recorded_definition
from oriel.pipeline.commit.versions import StateVersions
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    DataLayout,
    StoreDefinition,
    current_files,
    sync_folders,
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

#: What a dead letter is known by.
_LETTER = ["topic", "partition", "offset", "store", "reason"]


class Replacement:
    """The next generation of one store, until it is in its place."""

    def __init__(
        self,
        layout: DataLayout,
        checkpoint: Checkpoint,
        defined: StoreDefinition,
        schema: pa.Schema,
        *,
        sync: bool,
    ) -> None:
        """Begin the next generation of the store that ``defined`` tells, with an empty state.

        Its table is made where there is none.

        Raises:
            ForeignCheckpoint: the table belongs to another application.
            IncompatibleStore: it is no table of a store.
        """
        self.table_folder = layout.table(defined.name)
        self._layout = layout
        self._schema = schema
        self._sync = sync
        properties = {STORE_PROPERTY: defined.to_json()}
        table = open_table(self.table_folder, schema, properties, sync=sync)
        recorded = recorded_definition(table, defined.name)
        refuse_foreign(recorded, defined)
        #: What the table says of itself behind the switch.
        self.definition = replace(
            as_table_knows(recorded, defined), generation=recorded.generation + 1
        )
        # What a process left that was killed before its switch.
        current_files().delete_folder(checkpoint.versions(self.definition.state_name).folder)
        self.versions: StateVersions = checkpoint.versions(self.definition.state_name)

    def take_state(self, folder: Path, prepared: PreparedBatch) -> None:
        """Take the state files of ``prepared`` from ``folder``, and it as the state's version."""
        for name in prepared.state_files:
            current_files().copy(folder / name, self.versions.folder / name, sync=self._sync)
        # The generation's folder is new: its name has to be on disk, too.
        folders = [self.versions.folder.parent, self.table_folder]
        self.versions.decide(prepared.record.batch, prepared, folders)

    def add_dead_letters(self, folder: Path, batch: int) -> None:
        """See the function of this name."""
        own = self.definition
        add_dead_letters(self._layout, own.application, own.name, folder, batch, sync=self._sync)

    def switch_to(self, files: Sequence[AddedFile], prepared: PreparedBatch) -> int:
        """Let the table have ``files`` and the new generation, in one commit; its version."""
        if self._sync:
            sync_folders([self.table_folder])
        return replace_rows(
            self.table_folder,
            TableContent(files, self._schema, {STORE_PROPERTY: self.definition.to_json()}),
            self.definition.application,
            prepared.record.batch,
            {COMMIT_INFO_KEY: prepared.record.to_json()},
            sync=self._sync,
        )


def add_dead_letters(
    layout: DataLayout, application: str, store: str, folder: Path, batch: int, *, sync: bool
) -> None:
    """Commit the dead letters of the table in ``folder`` that are not in the real one yet."""
    if not len(open_with_files(folder).to_pyarrow_dataset().head(1, columns=_LETTER)):
        return
    open_dead_letters(folder, sync=sync)
    found = open_with_files(folder).to_pyarrow_table()
    known_folder = layout.dead_letters
    table = open_dead_letters(known_folder, sync=sync)
    known = open_with_files(known_folder).to_pyarrow_dataset().to_table(columns=_LETTER)
    places = _letter_places(known).group_by(_LETTER).aggregate([])
    # A join has no order of its own.
    numbered = _letter_places(found).append_column("row", pa.array(range(len(found))))
    new = numbered.join(places, _LETTER, join_type="left anti")["row"].combine_chunks().sort()
    if not len(new):
        return
    letters = found.take(new).drop_columns(["revision"])
    revisions = pa.repeat(pa.scalar(batch, pa.int64()), len(letters))
    letters = letters.append_column("revision", revisions)
    letters = letters.select(DEAD_LETTER_SCHEMA.names).cast(DEAD_LETTER_SCHEMA)
    file = write_file(known_folder, letters, f"dead-{store[:128]}-{batch:012d}", sync=sync)
    if sync:
        sync_folders([known_folder])
    application = f"{application}/{store}/rebuild"
    recorded = table.recorded_batch(application)
    table.commit([file], application, 0 if recorded is None else recorded + 1, {})


def as_version(computed: PreparedBatch, batch: int) -> PreparedBatch:
    """What a rebuild computed last, as batch ``batch`` of its application, already committed."""
    record = replace(computed.record, batch=batch)
    return replace(computed, record=record, files=[], dead_letters=[])


def remove_left(
    layout: DataLayout, checkpoint: Checkpoint, definition: StoreDefinition | SinkDefinition
) -> None:
    """Remove what a switch made useless: earlier generations, and what was computed for it.

    Never later ones: a process that slept while another took over may hold an old definition.
    """
    for generation in range(definition.generation):
        name = replace(definition, generation=generation).state_name
        current_files().delete_folder(checkpoint.folder / "state" / name)
    current_files().delete_folder(layout.rebuild(definition.name))


def stores_left(checkpoint: Checkpoint, stores: Iterable[str]) -> list[str]:
    """The stores that have a state in ``checkpoint`` and are none of ``stores``."""
    found = current_files().names(checkpoint.folder / "state")
    names = {name.partition("@")[0] for name in found}
    return sorted(names.difference(stores))


def _letter_places(letters: pa.Table) -> pa.Table:
    """What letters are known by; those of all stores, whose ``store`` is null, have ""."""
    places = letters.select(_LETTER)
    number = places.schema.get_field_index("store")
    return places.set_column(number, "store", places["store"].fill_null(""))
