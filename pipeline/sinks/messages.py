"""Rows of stores and records of streams as messages of Kafka.

For a row:

    key        {"key": ..., "window_start_ms": ..., "window_end_ms": ...}, or {"key": ...}
    value      the window as the API returns it, with its ``revision``, or null if it was removed
    headers    ``store`` and ``revision``
    time       the timestamp of the row

For a record:

    key        its key, or null
    value      all columns of its value as JSON, or null
    headers    ``source``, which record it is (``TOPIC/PARTITION/OFFSET``), ``timestamp_ms``, and
               columns of its value (``KStream.to``), as text
    time       the time of the record

All messages of a window have the same key bytes. So Kafka keeps them in order, and a compacted
topic keeps the newest message. A batch always has the same messages, except for times that are
replaced because they are in the future.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.language import OWN_HEADERS, Publication
from oriel.pipeline.plan import InputSource, header_texts, record_sources
from oriel.pipeline.sinks.record_json import record_json
from oriel.pipeline.state import open_segment
from oriel.pipeline.windows import NULL_VALUE
from oriel.storage import StoreDefinition
from oriel.storage.index import row_identity_json, row_json

#: At most this many messages are created at a time.
_CHUNK_ROWS = 20_000
#: Brokers reject times more than an hour ahead (``message.timestamp.after.max.ms``). Half of it
#: allows for different times of the driver and the brokers.
_MAX_AHEAD_MS = 30 * 60_000


class Messages(NamedTuple):
    """Messages as columns of one length.

    Attributes:
        keys: The keys.
        values: The values.
        times_ms: The times, in ms since 1970.
        header_names: The names of the headers that each message has.
        headers: Their values, one column per name.
    """

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times_ms: Sequence[int]
    header_names: tuple[str, ...]
    headers: tuple[Sequence[bytes | None], ...]

    def after(self, count: int) -> "Messages":
        """Return the messages without the first ``count``."""
        return Messages(
            self.keys[count:], self.values[count:], self.times_ms[count:], self.header_names,
            tuple(column[count:] for column in self.headers),
        )  # fmt: skip


def row_messages(
    rows: pa.Table, publication: Publication, definition: StoreDefinition
) -> Iterator[Messages]:
    """Yield the messages of all rows that a batch changed, including removed windows.

    They are in the order of keys and windows, because the marker of a transaction counts messages.
    The order of a table's rows would change if the table is compacted.
    """
    if publication.final_only:
        rows = rows.filter(rows["final"])
    window = [name for name in ("key", "window_start", "window_end") if name in rows.column_names]
    rows = rows.sort_by([(name, "ascending") for name in window])
    store = definition.name.encode()
    for batch in rows.to_batches(max_chunksize=_CHUNK_ROWS):
        chunk = pa.table(batch)
        value = row_json(chunk, definition, with_revision=True)
        removed = chunk["deleted"].combine_chunks()
        times_ms = chunk["timestamp"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        yield Messages(
            keys=row_identity_json(chunk).to_pylist(),
            values=pc.if_else(removed, pa.scalar(None, pa.binary()), value).to_pylist(),
            times_ms=message_times(np.asarray(times_ms)),
            header_names=("store", "revision"),
            headers=([store] * len(chunk), header_texts(chunk["revision"])),
        )


def record_messages(
    directory: Path,
    names: Sequence[str],
    values: pa.Schema,
    inputs: Sequence[InputSource],
    publication: Publication,
) -> Iterator[Messages]:
    """Yield the messages of the records in state segments, in their order.

    Args:
        directory: The directory of the segments.
        names: The segments.
        values: The columns of a record's value.
        inputs: The inputs of the sink, which identify its records.
        publication: The topic and its headers.
    """
    headers = dict(publication.headers)
    in_value = [name for name in values.names if name not in headers.values()]
    for name in names:
        for batch in open_segment(directory, name).to_batches(max_chunksize=_CHUNK_ROWS):
            rows = pa.table(batch)
            columns = [rows[each].cast(values.field(each).type) for each in in_value]
            value = record_json(in_value, [_flat(each) for each in columns], len(rows))
            is_null = _flat(rows[NULL_VALUE.name])
            yield Messages(
                keys=_flat(rows["key"]).cast(pa.binary()).to_pylist(),
                values=pc.if_else(is_null, pa.scalar(None, pa.binary()), value).to_pylist(),
                times_ms=message_times(np.asarray(rows["timestamp_ms"])),
                header_names=(*OWN_HEADERS, *headers),
                headers=(
                    record_sources(rows, inputs).cast(pa.binary()).to_pylist(),
                    header_texts(rows["timestamp_ms"]),
                    *(header_texts(rows[each]) for each in headers.values()),
                ),
            )


def message_times(times_ms: npt.NDArray[np.int64]) -> list[int]:
    """Return the times of messages for times of records, in ms since 1970.

    The least time is 1, because librdkafka reads 0 as "no time". Brokers reject times in the far
    future, so the present replaces a time that is more than ``_MAX_AHEAD_MS`` after it.
    """
    now_ms = time.time_ns() // 1_000_000
    times_ms = np.where(times_ms > now_ms + _MAX_AHEAD_MS, now_ms, times_ms)
    found: list[int] = np.maximum(times_ms, 1).tolist()
    return found


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
