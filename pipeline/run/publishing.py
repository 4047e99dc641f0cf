"""Rows of stores written back to Kafka topics, behind the commit of each batch.

    key        {"key": ..., "window_start_ms": ..., "window_end_ms": ...}; without windows the key
    value      the window as the API answers it, with its ``revision``; null: it was removed
    headers    ``store`` and ``revision``

A message of a window always has the same bytes as its key, so Kafka keeps a window's messages in
order, and a compacted topic keeps its newest row. A batch that a crash left half written is written
again by the next start, the same rows with the same revisions. Whoever remembers the
highest revision of each key and leaves out what is not above it sees each row exactly once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from oriel.pipeline.language import Publication
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.final_rows import rows_of_batch
from oriel.storage import StoreDefinition, current_files, replace_file
from oriel.storage.index import row_identity_json, row_json

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MESSAGES = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", _HEADERS),
])  # fmt: skip


class Publisher:
    """Writes the rows of a run's stores to Kafka."""

    def __init__(
        self, spark: SparkSession, kafka_options: Mapping[str, str], checkpoint: Path, *, sync: bool
    ) -> None:
        """Write to the cluster of ``kafka_options``, as Spark names them (``kafka.*``).

        ``CHECKPOINT/published.json`` remembers the last batch of which all is written.
        """
        self._spark = spark
        self._options = kafka_options
        self._path = checkpoint / "published.json"
        self._sync = sync

    def published_batch(self) -> int:
        """The last batch of which all rows are written, -1 before the first or if it is lost."""
        try:
            return int(orjson.loads(current_files().read(self._path))["batch"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return -1

    def remember(self, batch: int) -> None:
        """All rows of ``batch`` are written."""
        replace_file(self._path, orjson.dumps({"batch": batch}), sync=self._sync)

    def publish(
        self,
        publications: Sequence[Publication],
        definition: StoreDefinition,
        table: Path,
        prepared: PreparedBatch,
    ) -> None:
        """Write what a committed batch changed in the ``table`` of a store."""
        if not publications or not prepared.changed:
            return
        batches = [
            messages(rows, publication, definition)
            for rows in rows_of_batch(table, definition, prepared)
            for publication in publications
        ]
        written = pa.concat_tables([_MESSAGES.empty_table(), *batches])
        if not len(written):
            return
        frame = self._spark.createDataFrame(written)
        try:
            frame.write.format("kafka").options(**self._options).save()
        except Exception as error:
            # The command's line begins with it.
            address = self._options["kafka.bootstrap.servers"]
            error.add_note(
                f"rows of store {definition.name!r} can't be written to Kafka at {address}, "
                "which the next start does"
            )
            raise


def messages(rows: pa.Table, publication: Publication, definition: StoreDefinition) -> pa.Table:
    """The messages of table rows, of removed windows too: topic, key, value, headers."""
    if publication.final_only:
        rows = rows.filter(rows["final"])
    value = row_json(rows, definition, with_revision=True)
    revisions = pc.cast(rows["revision"], pa.string()).combine_chunks().cast(pa.binary())
    stores = pa.repeat(pa.scalar(definition.name.encode()), len(rows))
    # Two headers a message, so their names and values lie in turn.
    numbers = np.arange(2 * len(rows))
    names = pa.array(["store", "revision"]).take(pa.array(numbers % 2))
    values = pa.concat_arrays([stores, revisions])
    values = values.take(pa.array(numbers // 2 + numbers % 2 * len(rows)))
    headers = pa.ListArray.from_arrays(
        pa.array(np.arange(len(rows) + 1, dtype=np.int32) * 2),
        pa.StructArray.from_arrays([names, values], fields=list(_HEADERS.value_type)),
    )
    columns = [
        pa.repeat(pa.scalar(publication.topic), len(rows)),
        row_identity_json(rows),
        pc.if_else(rows["deleted"].combine_chunks(), pa.scalar(None, pa.binary()), value),
        headers,
    ]
    return pa.table(columns, schema=_MESSAGES)
