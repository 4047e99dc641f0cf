"""The rows of a store's table that a batch wrote, and the final ones for the stores that read them.

A batch's rows are read from the files that its ``PreparedBatch`` names. So a start that finds the
batch decided for the store, but not for one behind it, reads the same rows again (decision 0066).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.commit import Checkpoint, SinkDefinition, StoreBatches, StoreTables
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import Source, StoreSource
from oriel.pipeline.plan import PreparedBatch, final_records
from oriel.storage import DataLayout, Offsets, StoreDefinition, current_files, is_sink_name
from oriel.storage.delta import (
    DIGEST_TAG,
    AddedFile,
    DeltaLog,
    arrow_type,
    has_table,
    open_with_files,
)
from oriel.storage.index import table_batches

#: The only partition of a stream of a store's rows.
_PARTITION = "0"


def rows_of_batch(
    table: Path, definition: StoreDefinition, prepared: PreparedBatch
) -> Iterator[pa.Table]:
    """The rows that a committed batch wrote to ``table``, in its columns."""
    if all(current_files().exists(table / file.path) for file in prepared.files):
        yield from _rows_of_files(table, definition, prepared.files)
        return
    # A batch that is read again long after it was committed: its files were compacted.
    rows = open_with_files(table).to_pyarrow_dataset()
    yield rows.to_table(filter=pc.field("revision") == prepared.record.batch)


class FinalRows:
    """Final rows of the stores that others read, batch by batch."""

    def __init__(
        self, tables: Mapping[str, StoreTables], stores: Mapping[str, StoreBatches]
    ) -> None:
        """Read the ``tables`` of ``stores``, by name."""
        self._tables = tables
        self._stores = stores

    def of_batch(
        self, batch: int, prepared: Mapping[str, PreparedBatch], readers: Iterable[str]
    ) -> tuple[dict[Source, pa.Table], Offsets]:
        """What ``batch`` made final, as records, for the stores ``readers``; and where it ends.

        ``prepared`` has what the stores that they read have decided.
        """
        records: dict[Source, pa.Table] = {}
        ends: Offsets = {}
        for source in {s for name in readers for s in self._stores[name].plans.store.reads_stores}:
            first = self._first_offset(source, batch)
            records[source] = self._records(source, prepared[source.store], first)
            ends |= ends_at(source, first + len(records[source]))
        return records, ends

    def _records(self, source: StoreSource, prepared: PreparedBatch, first: int) -> pa.Table:
        tables = self._tables[source.store]
        rows = rows_of_batch(tables.table_folder, tables.definition, prepared)
        return _as_records(rows, tables.definition, first)

    def _first_offset(self, source: StoreSource, batch: int) -> int:
        """Where the readers of a store go on.

        One that was computed anew may have counted less, of a table from which rows have expired.
        """
        ends = (
            store.ends_before(batch).get(source.topic, {}).get(_PARTITION, 0)
            for store in self._stores.values()
            if source in store.plans.store.reads_stores
        )
        return max(ends)


def ends_at(source: StoreSource, offset: int) -> Offsets:
    """Where a stream of a store's rows is that has been read up to ``offset``."""
    return {source.topic: {_PARTITION: offset}}


def final_rows_up_to(table: Path, batch: int, decided: PreparedBatch | None) -> pa.Table:
    """All final rows of a store up to ``batch``, as records from offset 0 on.

    ``decided`` is what it has decided of ``batch``, which its table may not have yet.

    Raises:
        CheckpointError: the store has not decided that batch.
    """
    snapshot = DeltaLog(table).snapshot()
    dataset = open_with_files(table).to_pyarrow_dataset()
    rows = [dataset.to_table(filter=pc.field("final") & (pc.field("revision") <= batch))]
    if snapshot.batch < batch:
        if decided is None:
            message = (
                f"store {snapshot.definition.name!r} has not prepared batch {batch} yet, but the "
                "new store reads it up to this batch. Run the pipeline once without the new store, "
                "then with it"
            )
            raise CheckpointError(message)
        rows += _rows_of_files(table, snapshot.definition, decided.files)
    return _as_records(rows, snapshot.definition, 0)


def refuse_readers_behind(
    layout: DataLayout, checkpoint: Checkpoint, store: str, readers: Iterable[str], batch: int
) -> None:
    """Refuse to compute a store anew whose rows of ``batch`` one of its ``readers`` has not read.

    A store that is computed anew has rows, and none that are of one batch.

    Raises:
        CheckpointError: there is such a reader.
    """
    for reader in readers:
        definition = _definition(layout, checkpoint, reader)
        if definition is None:
            continue
        versions = checkpoint.versions(definition.state_name)
        # One that has nothing yet is computed anew itself; of a first batch it takes what is new.
        has_begun = versions.newest() >= 0 or batch == 0
        if has_begun and versions.decided(batch) is None:
            message = (
                f"store {store!r}: store {reader!r} reads its rows, but does not have batch "
                f"{batch} yet. Run the pipeline until it does, and rebuild {store!r} then"
            )
            raise CheckpointError(message)


def _definition(
    layout: DataLayout, checkpoint: Checkpoint, unit: str
) -> StoreDefinition | SinkDefinition | None:
    """What is recorded of a store or a sink, None if nothing is."""
    if is_sink_name(unit):
        return SinkDefinition.recorded(checkpoint.folder, unit)
    table = layout.table(unit)
    return DeltaLog(table).snapshot().definition if has_table(table) else None


def _rows_of_files(
    table: Path, definition: StoreDefinition, files: Iterable[AddedFile]
) -> Iterator[pa.Table]:
    for file in files:
        yield from table_batches(table / file.path, definition, digest=file.tags.get(DIGEST_TAG))


def _as_records(rows: Iterable[pa.Table], definition: StoreDefinition, first: int) -> pa.Table:
    aggregates = {each.name: arrow_type(each.type) for each in definition.aggregates}
    changes = (_in_ms(table, list(aggregates)) for table in rows)
    return final_records(changes, aggregates, first)


def _in_ms(rows: pa.Table, aggregates: list[str]) -> pa.Table:
    """Rows of a table with the engine's columns and times."""
    times = {"window_start_ms": "window_start", "window_end_ms": "window_end"}
    times["timestamp_ms"] = "timestamp"
    return pa.table({
        **{name: rows[name] for name in ("key", *aggregates, "final", "deleted")},
        **{name: pc.divide(rows[of].cast(pa.int64()), 1000) for name, of in times.items()},
    })  # fmt: skip
