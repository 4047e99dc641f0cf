"""Read the rows of a store that a batch wrote, and the final rows for stores that read them.

The rows of a batch are read from the files that its ``PreparedBatch`` names. If a crash left the
batch prepared for a store but not for its readers, the next start reads the same rows again
(decision 0066).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.commit import (
    Checkpoint,
    SinkDefinition,
    StoreBatches,
    StoreTables,
    rows_of_files,
)
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.language import Source
from oriel.pipeline.plan import PreparedBatch, final_records
from oriel.storage import DataLayout, Offsets, StoreDefinition, current_files, is_sink_name
from oriel.storage.delta import (
    DeltaLog,
    arrow_type,
    has_table,
    open_with_files,
)

#: The only partition of a stream of a store's rows.
_PARTITION = "0"


def rows_of_batch(
    table: Path, definition: StoreDefinition, prepared: PreparedBatch
) -> Iterator[pa.Table]:
    """Yield the rows that a committed batch wrote to ``table``, in its columns."""
    if all(current_files().exists(table / file.path) for file in prepared.files):
        yield from rows_of_files(table, definition, prepared.files)
        return
    # The batch was committed long ago, and its files have been compacted and removed.
    rows = open_with_files(table).to_pyarrow_dataset()
    yield rows.to_table(filter=pc.field("revision") == prepared.record.batch)


class FinalRows:
    """Reads the final rows of stores that other stores read, batch by batch."""

    def __init__(
        self, tables: Mapping[str, StoreTables], stores: Mapping[str, StoreBatches]
    ) -> None:
        """Read the ``tables`` of ``stores``, by name."""
        self._tables = tables
        self._stores = stores

    def of_batch(
        self, batch: int, prepared: Mapping[str, PreparedBatch], readers: Iterable[str]
    ) -> tuple[dict[Source, pa.Table], Offsets]:
        """Return the rows that ``batch`` made final, as records for ``readers``, and their ends.

        ``prepared`` has the prepared batches of the stores that they read.
        """
        records: dict[Source, pa.Table] = {}
        ends: Offsets = {}
        for source in {s for name in readers for s in self._stores[name].plans.store.reads_stores}:
            # A rebuilt reader can have counted fewer rows, if rows of the table had expired. So the
            # readers continue at the greatest offset.
            first = max(
                store.ends_before(batch).get(source.topic, {}).get(_PARTITION, 0)
                for store in self._stores.values()
                if source in store.plans.store.reads_stores
            )
            records[source] = self._records(source, prepared[source.store_name], first)
            ends |= stream_ends(source, first + len(records[source]))
        return records, ends

    def _records(self, source: Source, prepared: PreparedBatch, first: int) -> pa.Table:
        tables = self._tables[source.store_name]
        rows = rows_of_batch(tables.table_directory, tables.definition, prepared)
        return _as_records(rows, tables.definition, first)


def stream_ends(source: Source, offset: int) -> Offsets:
    """Return the offsets of the stream of a store's rows, after rows up to ``offset`` were read."""
    return {source.topic: {_PARTITION: offset}}


def final_rows_up_to(table: Path, batch: int, prepared_version: PreparedBatch | None) -> pa.Table:
    """Return all final rows of a store up to ``batch``, as records with offsets from 0.

    ``prepared_version`` is the batch as the store has prepared it. The table of the store can still
    lack it.

    Raises:
        CheckpointError: the store has not prepared this batch.
    """
    snapshot = DeltaLog(table).snapshot()
    dataset = open_with_files(table).to_pyarrow_dataset()
    rows = [dataset.to_table(filter=pc.field("final") & (pc.field("revision") <= batch))]
    if snapshot.batch < batch:
        if prepared_version is None:
            message = (
                f"store {snapshot.definition.name!r} has not prepared batch {batch} yet, but the "
                "new store reads it up to this batch. Run the pipeline once without the new store, "
                "then with it"
            )
            raise CheckpointError(message)
        rows += rows_of_files(table, snapshot.definition, prepared_version.files)
    return _as_records(rows, snapshot.definition, 0)


def check_readers(
    layout: DataLayout, checkpoint: Checkpoint, store: str, readers: Iterable[str], batch: int
) -> None:
    """Check that all ``readers`` of a store have read its rows of ``batch``, before a rebuild.

    After a rebuild, the rows of a single batch are not known any more.

    Raises:
        CheckpointError: a reader has not prepared ``batch``.
    """
    for reader in readers:
        definition = _definition(layout, checkpoint, reader)
        if definition is None:
            continue
        versions = checkpoint.versions(definition.state_name)
        # A reader without a batch is rebuilt later, from all rows. Only if this is the first batch,
        # it reads the rows of the batch.
        has_begun = versions.newest() >= 0 or batch == 0
        if has_begun and versions.prepared(batch) is None:
            message = (
                f"store {store!r}: store {reader!r} reads its rows, but does not have batch "
                f"{batch} yet. Run the pipeline until it does, and rebuild {store!r} then"
            )
            raise CheckpointError(message)


def _definition(
    layout: DataLayout, checkpoint: Checkpoint, name: str
) -> StoreDefinition | SinkDefinition | None:
    """Return the recorded definition of a store or a sink, None if it does not exist."""
    if is_sink_name(name):
        return SinkDefinition.recorded(checkpoint.directory, name)
    table = layout.table(name)
    return DeltaLog(table).snapshot().definition if has_table(table) else None


def _as_records(rows: Iterable[pa.Table], definition: StoreDefinition, first: int) -> pa.Table:
    aggregates = {each.name: arrow_type(each.type) for each in definition.aggregates}
    times = {"window_start_ms": "window_start", "window_end_ms": "window_end"}
    times["timestamp_ms"] = "timestamp"
    # The columns and times of the engine.
    changes = (
        pa.table({
            **{name: table[name] for name in ("key", *aggregates, "final", "deleted")},
            **{name: pc.divide(table[of].cast(pa.int64()), 1000) for name, of in times.items()},
        })
        for table in rows
    )  # fmt: skip
    return final_records(changes, aggregates, first)
