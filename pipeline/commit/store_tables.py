"""The Delta tables to which the pipeline writes a store: its rows, and its dead letters."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from oriel.pipeline.commit.differences import settled
from oriel.pipeline.commit.final_table import FinalTable
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.tasks import DirectoryFiles
from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    CommitRecord,
    DataLayout,
    IncompatibleStore,
    StoreDefinition,
)
from oriel.storage.delta import (
    DEAD_LETTER_SCHEMA,
    AddedFile,
    DeltaLog,
    Table,
    open_table,
    store_schema,
)


class DeadLetterTable:
    """The dead-letter table, for the dead letters of one store or sink."""

    def __init__(self, layout: DataLayout, application: str, name: str, *, sync: bool) -> None:
        """Open the dead-letter table for store or sink ``name``. Create a missing table."""
        self.dead_letters_directory = layout.dead_letters
        self._dead_letters = open_dead_letters(self.dead_letters_directory, sync=sync)
        # All stores of all pipelines share the table. So the id of its transactions also has the
        # store.
        self._dead_letter_id = f"{application}/{name}"

    def commit_dead_letters(self, files: Sequence[AddedFile], batch: int) -> None:
        """Commit the dead letters of a batch if it has any and they are not committed yet."""
        if not files:
            return
        # After a crash between the commits, the entry can exist. Its ``txn`` action shows it.
        if self.dead_letters_batch() < batch:
            self._dead_letters.commit(files, self._dead_letter_id, batch, {})

    def dead_letters_batch(self) -> int:
        """Return the last batch of this store that committed dead letters, -1 before the first."""
        recorded = self._dead_letters.recorded_batch(self._dead_letter_id)
        return -1 if recorded is None else recorded


class StoreTables(DeadLetterTable):
    """The tables of one store, opened for one application."""

    #: The class with which the tasks of the store read and write files.
    task_files = DirectoryFiles

    def __init__(
        self,
        layout: DataLayout,
        definition: StoreDefinition,
        aggregates: Mapping[str, pa.DataType],
        *,
        sync: bool,
        has_final_table: bool = False,
    ) -> None:
        """Open the tables. Create missing tables.

        Args:
            layout: The data directory.
            definition: The definition of the store.
            aggregates: The Arrow type of each aggregate column.
            sync: Whether files are forced to disk before a commit.
            has_final_table: Whether the store has a table of its final rows.

        Raises:
            IncompatibleStore: the table has another definition.
            ForeignCheckpoint: the table belongs to another application.
        """
        self.table_directory = layout.table(definition.name)
        properties = {STORE_PROPERTY: definition.to_json()}
        schema = store_schema(aggregates, windowed=definition.window.has_window_columns)
        self._table = open_table(self.table_directory, schema, properties, sync=sync)
        self.definition = _reconciled(self._table, definition)
        super().__init__(layout, definition.application, definition.name, sync=sync)
        self._final: FinalTable | None = None
        if has_final_table:
            self._final = FinalTable(layout, self.definition, schema, sync=sync)
            # After a crash between the two commits of a batch, its final rows are missing.
            self._final.complete(self.recorded_batch())

    def recorded_batch(self) -> int:
        """Return the last batch in the store's table, -1 before the first."""
        recorded = self._table.recorded_batch(self.definition.application)
        return -1 if recorded is None else recorded

    def newest_record(self) -> CommitRecord | None:
        """Return the commit record of the last batch in the table, None before the first."""
        return DeltaLog(self.table_directory).snapshot().record

    def commit(self, prepared: PreparedBatch, batch: int) -> None:
        """Commit the batch to the store's table."""
        # The position is in the log entry of the rows. So each version of the table has one
        # position (guarantees.md#4).
        info = {COMMIT_INFO_KEY: prepared.record.to_json()}
        self._table.commit(prepared.files, self.definition.application, batch, info)
        if self._final is not None:
            self._final.add(prepared.files, batch)


def open_dead_letters(directory: Path, *, sync: bool) -> Table:
    """Open the dead-letter table. Add columns that an older table lacks."""
    table = open_table(directory, DEAD_LETTER_SCHEMA, {}, sync=sync)
    table.add_columns(DEAD_LETTER_SCHEMA)
    return table


def _reconciled(table: Table, defined: StoreDefinition) -> StoreDefinition:
    """Return the definition to run with, and write it to the table if it differs."""
    definition = settled(recorded_definition(table, defined.name), defined)
    # Only a retention can differ here, or a field that an older format of the definition lacks.
    # Without a difference, a start adds no version to the table.
    if definition.to_json() != table.properties[STORE_PROPERTY]:
        table.set_property(STORE_PROPERTY, definition.to_json())
    return definition


def recorded_definition(table: Table, store: str) -> StoreDefinition:
    """Return the definition of ``store`` in the properties of ``table``.

    Raises:
        IncompatibleStore: Oriel did not write the table.
    """
    text = table.properties.get(STORE_PROPERTY)
    if text is None:
        message = (
            f"store {store!r}: Oriel did not write the Delta table of this name. Use another store "
            "name or another data directory"
        )
        raise IncompatibleStore(message)
    return StoreDefinition.from_json(text)
