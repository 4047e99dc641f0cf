"""The append-only table of the final rows of a store (``materialize(final_table=True)``).

Each window has one row in it, which never changes. So ``SELECT *`` needs no condition, and Spark
reads new rows with ``readStream``.

The table follows the table of the store. A batch adds its final rows after its commit, in one Delta
transaction with the number of the batch. If the process is killed between the two commits, the next
start adds the missing rows. It reads them from the table of the store, whose rows have the number
of their batch. In the same way, the table is created for a store that already has rows.

A rebuild can change final rows. Then one commit replaces the rows of this table. A stream that
reads the table fails with Spark's error about deleted rows, and needs a new checkpoint.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage import PARTIALS_COLUMN, DataLayout, StoreDefinition, sync_directories
from oriel.storage.delta import (
    DIGEST_TAG,
    AddedFile,
    DeltaLog,
    Table,
    TableContent,
    has_table,
    open_table,
    replace_rows,
    run_revisions,
    write_file,
)
from oriel.storage.index import table_batches

#: The table property with the generation of the store whose rows the table has.
_GENERATION = "oriel.generation"
#: The most rows of a file.
_FILE_ROWS = 1 << 20
#: Columns of the store's table that final rows do not have: ``final`` and ``deleted`` are the same
#: for all, and only merged reads use partial aggregates.
_LEFT_OUT = ("final", "deleted", PARTIALS_COLUMN)


class FinalTable:
    """The table of the final rows of one store."""

    def __init__(
        self, layout: DataLayout, definition: StoreDefinition, schema: pa.Schema, *, sync: bool
    ) -> None:
        """Open the table. Create a missing table, without rows.

        Args:
            layout: The data directory.
            definition: The definition of the store.
            schema: The columns of the store's table.
            sync: Whether files are forced to disk before a commit.
        """
        self.directory = layout.final_table(definition.name)
        self._store_table = layout.table(definition.name)
        self._definition = definition
        self._schema = pa.schema([each for each in schema if each.name not in _LEFT_OUT])
        self._sync = sync
        self._table = self._open()

    def complete(self, batch: int) -> None:
        """Add the final rows of the store's table up to ``batch`` that this table lacks."""
        definition = self._definition
        is_current = self._table.properties.get(_GENERATION) == str(definition.generation)
        recorded = self._table.recorded_batch(definition.application) if is_current else None
        after = -1 if recorded is None else recorded
        if is_current and after >= batch:
            return
        revision = pc.field("revision")
        is_missing = (revision > after) & (revision <= batch)
        rows = (table.filter(is_missing) for table in self._rows_after(after))
        files = list(self._written(rows, batch))
        if is_current:
            self._append(files, batch)
            return
        if self._sync:
            sync_directories([self.directory])
        content = TableContent(files, self._schema, {_GENERATION: str(definition.generation)})
        replace_rows(self.directory, content, definition.application, batch, {}, sync=self._sync)
        self._table = self._open()

    def add(self, files: Iterable[AddedFile], batch: int) -> None:
        """Add the final rows of a batch, whose files the store's table has."""
        rows = rows_of_files(self._store_table, self._definition, files)
        self._append(list(self._written(rows, batch)), batch)

    def _open(self) -> Table:
        properties = {_GENERATION: str(self._definition.generation)}
        return open_table(self.directory, self._schema, properties, sync=self._sync)

    def _rows_after(self, batch: int) -> Iterator[pa.Table]:
        """Yield the rows of the store's table in files that can have a later batch."""
        snapshot = DeltaLog(self._store_table).snapshot()
        for path in snapshot.files:
            run = snapshot.runs.get(path)
            if run is None or run_revisions(run)[1] > batch:
                yield from table_batches(
                    self._store_table / path, self._definition, snapshot.kept.get(path),
                    digest=snapshot.digests.get(path),
                )  # fmt: skip

    def _written(self, tables: Iterable[pa.Table], batch: int) -> Iterator[AddedFile]:
        """Write the final rows of tables to files, and yield the files."""
        # The cleanup of tables knows from this name that a file without a commit is not used.
        name = f"part-{batch:012d}-0000"
        waiting: list[pa.Table] = []
        rows = 0
        for table in tables:
            final = table.filter(table["final"]).select(self._schema.names)
            waiting.append(final)
            rows += len(final)
            if rows >= _FILE_ROWS:
                yield write_file(self.directory, self._joined(waiting), name, sync=self._sync)
                waiting, rows = [], 0
        if rows:
            yield write_file(self.directory, self._joined(waiting), name, sync=self._sync)

    def _joined(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables(table.cast(self._schema) for table in tables).combine_chunks()

    def _append(self, files: list[AddedFile], batch: int) -> None:
        # A batch without final rows has no entry. So the log of the table only has new rows.
        if not files:
            return
        if self._sync:
            sync_directories([self.directory])
        self._table.commit(files, self._definition.application, batch, {})


def rows_of_files(
    table: Path, definition: StoreDefinition, files: Iterable[AddedFile]
) -> Iterator[pa.Table]:
    """Yield the rows of files that a batch adds to the table of a store, in its columns."""
    for file in files:
        yield from table_batches(table / file.path, definition, digest=file.tags.get(DIGEST_TAG))


def keep_final_rows(layout: DataLayout, definition: StoreDefinition, *, sync: bool) -> None:
    """Note in the final table of a store that a new generation of the store has the same rows."""
    directory = layout.final_table(definition.name)
    if has_table(directory):
        # The table exists, so its schema is not used.
        table = open_table(directory, pa.schema([]), {}, sync=sync)
        table.set_property(_GENERATION, str(definition.generation))
