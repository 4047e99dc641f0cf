"""Rows of stores and records of streams written to Kafka topics, behind each batch's decision.

Of a row:

    key        {"key": ..., "window_start_ms": ..., "window_end_ms": ...}; without windows the key
    value      the window as the API answers it, with its ``revision``; null: it was removed
    headers    ``store`` and ``revision``

A message of a window always has the same bytes as its key, so Kafka keeps a window's messages in
order, and a compacted topic keeps its newest row. A batch that a crash left half written is written
again by the next start, the same rows with the same revisions. Whoever remembers the
highest revision of each key and leaves out what is not above it sees each row exactly once.

Of a record:

    key        its key's text, null where it has none
    value      the columns of its value as JSON, all of them; null where it has none
    headers    ``source``, which record it is (``TOPIC/PARTITION/OFFSET``), and ``timestamp_ms``

Its ``source`` is the same whenever it is written. Spark's sink sets no times of messages, so the
record's own time is a header. Records are read, made messages of and sent by Spark's tasks, one for
each file that the batch has: all of a key are in one, so they are sent in their order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import Publication, Store
from oriel.pipeline.plan import (
    InputSource,
    PreparedBatch,
    StorePlans,
    input_sources,
    record_sources,
)
from oriel.pipeline.run.final_rows import rows_of_batch
from oriel.pipeline.state import open_segment
from oriel.pipeline.windows import NULL_VALUE
from oriel.storage import (
    StoreDefinition,
    current_files,
    replace_file,
    with_digest,
    without_digest,
)
from oriel.storage.index import row_identity_json, row_json

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MESSAGES = pa.schema([
    pa.field("topic", pa.string()),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", _HEADERS),
])  # fmt: skip

#: How values become JSON: with what is null, and with all digits of a time.
_JSON = {"ignoreNullFields": "false", "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
#: A record on its way to a message, in front of its value's columns. The dots keep them apart.
_RECORD = pa.schema([
    pa.field("oriel.key", pa.string()),
    pa.field("oriel.source", pa.string()),
    pa.field("oriel.timestamp_ms", pa.string()),
    pa.field("oriel.null_value", pa.bool_()),
])  # fmt: skip
#: So many records of a file are made messages of at a time.
_CHUNK_ROWS = 10_000


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
            return int(orjson.loads(without_digest(current_files().read(self._path)))["batch"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return -1

    def remember(self, batch: int) -> None:
        """All rows of ``batch`` are written."""
        replace_file(self._path, with_digest(orjson.dumps({"batch": batch})), sync=self._sync)

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
        with self._told(f"rows of store {definition.name!r}"):
            frame.write.format("kafka").options(**self._options).save()

    def publish_records(self, plans: StorePlans, folder: Path, prepared: PreparedBatch) -> None:
        """Write the records of a sink's batch, which is decided, from the files in ``folder``."""
        names = [name for of_task in prepared.segments.values() for name in of_task]
        values = pa.schema(list(plans.assembly.engine.aggregate_types.items()))
        reading = partial(_records, folder, names, values, input_sources(plans))
        rows = self._spark.range(0, len(names), 1, len(names)).mapInArrow(
            reading, from_arrow_schema(pa.schema([*_RECORD, *values]))
        )
        columns = (F.col("`" + name.replace("`", "``") + "`") for name in values.names)
        value = F.to_json(F.struct(*columns), _JSON)
        message = rows.select(
            F.col("`oriel.key`").cast("binary").alias("key"),
            F.when(~F.col("`oriel.null_value`"), value.cast("binary")).alias("value"),
            F.array(_header("source"), _header("timestamp_ms")).alias("headers"),
        )
        (publication,) = plans.store.publications
        options = {**self._options, "topic": publication.topic}
        with self._told(f"records for the topic {publication.topic!r}"):
            message.write.format("kafka").options(**options).save()

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Say of an error that it is about writing ``what``; the command's line begins with it."""
        try:
            yield
        except Exception as error:
            address = self._options["kafka.bootstrap.servers"]
            error.add_note(
                f"{what} cannot be written to Kafka at {address} (the next start writes them)"
            )
            raise


def refuse_publications(units: Iterable[Store]) -> None:
    """Refuse stores and streams that are to be written to Kafka where no cluster is known.

    Raises:
        InvalidTopology: there is one.
    """
    for unit in units:
        for publication in unit.publications:
            who = "a stream" if unit.is_sink else f"store {unit.name!r}"
            message = (
                f"{who} writes to the Kafka topic {publication.topic!r}, but no cluster is named. "
                "Name the cluster with --publish-to HOST:PORT"
            )
            raise InvalidTopology(message)


def _header(name: str) -> Column:
    value = F.col(f"`oriel.{name}`").cast("binary")
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _records(
    folder: Path,
    names: Sequence[str],
    values: pa.Schema,
    inputs: Sequence[InputSource],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The records of the files whose numbers come in, in their order, with ``values`` behind."""
    schema = pa.schema([*_RECORD, *values])
    for number in (number for batch in batches for number in batch["id"].to_pylist()):
        for rows in open_segment(folder, names[number]).to_batches(max_chunksize=_CHUNK_ROWS):
            table = pa.table(rows)
            columns = [
                table["key"],
                record_sources(table, inputs),
                pc.cast(table["timestamp_ms"], pa.string()),
                table[NULL_VALUE.name],
                *(table[name] for name in values.names),
            ]
            yield from pa.table(columns, schema=schema).combine_chunks().to_batches()


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
