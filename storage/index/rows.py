"""Table rows as index records: encoded, deduplicated and sorted as the index sorts them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.definition import SESSION, StoreDefinition
from oriel.storage.delta import arrow_type, store_schema
from oriel.storage.index.key_columns import encode_columns
from oriel.storage.index.state import NOTHING_OBSERVED_MS, Extent
from oriel.storage.index.window_json import window_json

#: Rows that are encoded at once: bounds the memory of reading a big file.
_BATCH_ROWS = 1 << 17


class IndexRows(NamedTuple):
    """Rows of one or more files; each window once, by its highest revision, in key order."""

    keys: list[bytes]
    values: list[bytes]
    deleted: npt.NDArray[np.bool_]
    revisions: npt.NDArray[np.int64]
    extent: Extent


class _Times(NamedTuple):
    """Starts and ends of rows' windows; both 0 in a store without windows."""

    starts_ms: npt.NDArray[np.int64]
    ends_ms: npt.NDArray[np.int64]

    def extent(self, kind: str) -> Extent:
        if kind == SESSION:
            longest_ms = (self.ends_ms - self.starts_ms).max(initial=0)
            return Extent(int(self.ends_ms.max(initial=NOTHING_OBSERVED_MS)), int(longest_ms))
        return Extent(int(self.starts_ms.max(initial=NOTHING_OBSERVED_MS)))


def index_rows(rows: Any, definition: StoreDefinition) -> IndexRows | None:
    """Encode rows of a store's table (as ``read_batches`` gives them); None when there are none."""
    if not len(rows):
        return None
    times = _window_times(rows)
    encoded = encode_columns(_flat(rows["key"]), times.starts_ms, times.ends_ms)
    chosen = _newest_of_each(encoded, rows)
    return IndexRows(
        keys=_bytes_list(encoded.take(chosen)),
        values=_bytes_list(_json(rows.take(chosen), definition)),
        deleted=_flat(rows["deleted"]).take(chosen).to_numpy(zero_copy_only=False),
        revisions=_flat(rows["revision"]).take(chosen).to_numpy(),
        extent=times.extent(definition.window.kind),
    )


def read_batches(path: Path, definition: StoreDefinition) -> Iterator[Any]:
    """Read a table file as Arrow tables of bounded size, with the types the definition says.

    Other writers (compaction) may leave other Arrow types for the same Delta type.
    """
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    schema = store_schema(aggregates, windowed=definition.window.is_windowed)
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            yield pa.table([_column(rows, field) for field in schema], schema=schema)


def file_extent(path: Path, definition: StoreDefinition) -> Extent:
    """How far the windows of a table file reach, removed ones included."""
    if not definition.window.is_windowed:
        return Extent()
    with pq.ParquetFile(path) as file:
        times = _window_times(file.read(["window_start", "window_end"]))
    return times.extent(definition.window.kind)


def visible_rows(rows: Any, definition: StoreDefinition, earliest_ms: int) -> Any:
    """Only the rows of windows that start (sessions: end) at or after ``earliest_ms``."""
    if earliest_ms == 0:
        return rows
    times = _window_times(rows)
    by = times.ends_ms if definition.window.kind == SESSION else times.starts_ms
    return rows.filter(pa.array(by >= earliest_ms))


def _window_times(rows: Any) -> _Times:
    if "window_start" in rows.column_names:
        return _Times(_times_ms(rows, "window_start"), _times_ms(rows, "window_end"))
    zeros = np.zeros(len(rows), np.int64)
    return _Times(zeros, zeros)


def _newest_of_each(encoded: Any, rows: Any) -> Any:
    """Indices of the highest revision of each window, in key order."""
    table = pa.table({"key": encoded, "revision": rows["revision"]})
    order = pc.sort_indices(table, [("key", "ascending"), ("revision", "ascending")])
    in_order = encoded.take(order)
    differs = pc.not_equal(in_order.slice(1), in_order.slice(0, len(in_order) - 1))
    return order.filter(pa.concat_arrays([_flat(differs), pa.array([True])]))


def _json(rows: Any, definition: StoreDefinition) -> Any:
    columns = [
        ("key", _flat(rows["key"])),
        *((aggregate.name, _flat(rows[aggregate.name])) for aggregate in definition.aggregates),
        ("timestamp_ms", pa.array(_times_ms(rows, "timestamp"))),
    ]
    if definition.window.is_windowed:
        times = _window_times(rows)
        columns[1:1] = [
            ("window_start_ms", pa.array(times.starts_ms)),
            ("window_end_ms", pa.array(times.ends_ms)),
        ]
        columns.append(("final", _flat(rows["final"])))
    return window_json(columns)


def _column(rows: Any, field: Any) -> Any:
    """A column in the field's type; null where a file was written before the column was."""
    if field.name not in rows.column_names:
        return pa.nulls(len(rows), field.type)
    return rows.column(field.name).cast(field.type)


def _times_ms(rows: Any, name: str) -> npt.NDArray[np.int64]:
    # Tables hold microseconds; our times are whole ms, so nothing is cut off.
    times = rows.column(name).cast(pa.timestamp("ms", tz="UTC"), safe=False)
    return np.asarray(_flat(times.cast(pa.int64())), np.int64)


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _bytes_list(column: Any) -> list[bytes]:
    items: list[bytes] = column.to_numpy(zero_copy_only=False).tolist()
    return items
