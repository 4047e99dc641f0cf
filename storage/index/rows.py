"""Encode table rows as index records: record keys and JSON, each window once, in key order.

The index keeps each window as the JSON of the API, so a response only joins bytes. Arrow kernels
build keys and JSON column by column.

Rules of the JSON:

- Strings escape the quote, the backslash and control characters.

- Integers keep all digits.

- Doubles have the shortest text that parses to an equal value. Whole numbers have a fraction, for
  example ``12.0``. NaN and infinities are ``null``.

- Null is ``null``. Arrays follow the rules of their items.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.definition import PARTIALS_COLUMN, StoreDefinition, StoreKind
from oriel.storage.delta import arrow_type, open_data_file, store_schema
from oriel.storage.errors import CorruptLog, ObjectStoreFailed
from oriel.storage.index.state import NOTHING_OBSERVED_MS, Extent
from oriel.storage.key_codec import record_keys
from oriel.storage.key_types import TEXT
from oriel.storage.shards import ALL_KEYS, Shard

#: Rows that are encoded at once. This bounds the memory for a large file.
_BATCH_ROWS = 1 << 17

_CONTROL_CHARACTERS = [chr(code) for code in range(32)]
#: How often each string must occur on average, so that its JSON is built only once.
_MIN_REPEATS = 4
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'

#: Mask of the rows of a file that its deletion vector does not delete.
LiveRowMask = npt.NDArray[np.bool_]

#: Selects the row groups of an open file to read, by index.
RowGroups = Callable[[pq.ParquetFile], list[int]]


class IndexRows(NamedTuple):
    """Rows of a table file in key order, with the row that counts for each window.

    Attributes:
        keys: The record keys.
        values: The windows as JSON.
        deleted: True for each window to remove.
        revisions: The revision of each row.
        extent: The extent of all rows, including removed and superseded rows.
        partials: The partial aggregates of each window, if the store keeps them.
    """

    keys: list[bytes]
    values: list[bytes]
    deleted: npt.NDArray[np.bool_]
    revisions: npt.NDArray[np.int64]
    extent: Extent
    partials: list[bytes] | None = None


class _WindowTimes(NamedTuple):
    """Starts and ends of windows in ms. In a store without windows, both are 0."""

    starts_ms: npt.NDArray[np.int64]
    ends_ms: npt.NDArray[np.int64]

    def extent(self, kind: StoreKind) -> Extent:
        """Return the extent of the windows."""
        retention_ms = self.retention_times(kind).max(initial=NOTHING_OBSERVED_MS)
        longest_ms = (self.ends_ms - self.starts_ms).max(initial=0) if kind.is_session else 0
        return Extent(int(retention_ms), int(longest_ms))

    def retention_times(self, kind: StoreKind) -> npt.NDArray[np.int64]:
        """Return the time of each window that retention uses."""
        return self.ends_ms if kind.expires_by_end else self.starts_ms


def file_rows(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int = 0,
    live_rows: LiveRowMask | None = None,
    shard: Shard = ALL_KEYS,
    digest: str | None = None,
) -> Iterator[IndexRows]:
    """Read a table file as index records, in batches of bounded size that are not empty.

    Args:
        path: The file.
        definition: The definition of the store.
        earliest_ms: Windows that start (sessions: end) before this time are skipped.
        live_rows: Mask of the rows that are not deleted. None: all rows.
        shard: The keys to read.
        digest: The digest of the file in the table's log. None if the log does not have one.

    Returns:
        The batches. A window can occur once in each batch.

    Raises:
        MissingDataFile: the file was vacuumed or deleted, or its table was deleted.
        CorruptLog: it is not a Parquet file with the store's columns, or it is damaged.
    """
    for rows in _visible(path, definition, earliest_ms, live_rows, shard, digest):
        counting = newest_rows(_encoded(rows, definition))
        yield IndexRows(
            keys=_bytes_list(_flat(counting["record"])),
            values=_bytes_list(_flat(counting["json"])),
            deleted=~_flat(counting["stands"]).to_numpy(zero_copy_only=False),
            revisions=_flat(counting["revision"]).to_numpy(),
            extent=_window_times(rows).extent(definition.window.kind),
            partials=_bytes_list(_flat(counting["partials"])) if definition.partials else None,
        )


def file_tables(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int = 0,
    live_rows: LiveRowMask | None = None,
    shard: Shard = ALL_KEYS,
    digest: str | None = None,
) -> Iterator[Any]:
    """Read a table file as encoded rows for ``newest_rows``. See ``file_rows`` for the arguments.

    The rows are in the order of the file, including superseded rows and removals. An encoded row
    has these columns:

        record     the record key
        json       the window as JSON
        stands     false if the row removes its window
        revision   the revision of the row
        partials   the partial aggregates, if the store keeps them
    """
    for rows in _visible(path, definition, earliest_ms, live_rows, shard, digest):
        yield _encoded(rows, definition)


def _visible(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int,
    live_rows: LiveRowMask | None,
    shard: Shard,
    digest: str | None,
) -> Iterator[Any]:
    kind = definition.window.kind
    columns = table_columns(definition).names if definition.partials else None
    for rows in table_batches(path, definition, live_rows, digest=digest, columns=columns):
        visible = rows
        if earliest_ms > 0:
            retention_ms = _window_times(rows).retention_times(kind)
            visible = rows.filter(pa.array(retention_ms >= earliest_ms))
        if not shard.is_all:
            visible = visible.filter(pa.array(shard.mask(visible["key"])))
        if len(visible):
            yield visible


def file_extent(
    path: Path,
    definition: StoreDefinition,
    live_rows: LiveRowMask | None = None,
    digest: str | None = None,
) -> Extent:
    """Return the extent of the windows of a table file, including removed ones (semantics.md#7).

    Raises:
        MissingDataFile: the file was vacuumed or deleted, or its table was deleted.
        CorruptLog: it is not a Parquet file with windows of a store.
    """
    if not definition.window.kind.is_windowed:
        return Extent()
    with _opened(path, digest) as file:
        windows = file.read(["window_start", "window_end"])
        times = _window_times(windows if live_rows is None else windows.filter(pa.array(live_rows)))
    return times.extent(definition.window.kind)


@contextmanager
def _opened(path: Path, digest: str | None, *, once: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file of a table. An error names the file in one line."""
    try:
        # Spark writes times as INT96. By default, Arrow reads them as nanoseconds, which end in
        # 2262.
        with (
            open_data_file(path, digest, verify_once=once) as source,
            pq.ParquetFile(
                source, coerce_int96_timestamp_unit="us", page_checksum_verification=True
            ) as file,
        ):
            yield file
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, KeyError) as error:
        raise _unreadable(path, error) from error
    except ObjectStoreFailed:
        raise
    except OSError as error:
        # Arrow raises an OSError without a number if a page can't be decoded. System errors have
        # one.
        if error.errno is not None:
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> CorruptLog:
    first_line = str(error).partition("\n")[0]
    return CorruptLog(
        f"the data file {path} cannot be read as rows of the store ({first_line}). Put it back "
        "from a backup, or remove the rows that others appended (DELETE or RESTORE with Spark)"
    )


def table_batches(
    path: Path,
    definition: StoreDefinition,
    live_rows: LiveRowMask | None = None,
    *,
    digest: str | None = None,
    columns: Sequence[str] | None = None,
    row_groups: RowGroups | None = None,
) -> Iterator[Any]:
    """Read a table file as Arrow tables with the columns and types of the definition.

    Other writers (compaction) can use another Arrow type for the same Delta type. A file that is
    older than a column does not have it, so its values are null.

    Args:
        path: The file.
        definition: The definition of the store.
        live_rows: Mask of the rows that are not deleted. None: all rows.
        digest: The digest of the file in the table's log. If only a part of the file is read, the
            digest is verified the first time.
        columns: The columns to read. None: all columns except partial aggregates.
        row_groups: Selects the row groups to read. Do not combine it with ``live_rows``.
    """
    # A read with the partial aggregates reads all columns.
    is_whole = columns is None or PARTIALS_COLUMN in columns
    is_part = not is_whole or row_groups is not None
    schema = table_columns(definition)
    if columns is None and definition.partials:
        columns = [name for name in schema.names if name != PARTIALS_COLUMN]
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    read = 0
    with _opened(path, digest, once=is_part) as file:
        groups = None if row_groups is None else row_groups(file)
        for batch in file.iter_batches(_BATCH_ROWS, groups, columns):
            rows = pa.Table.from_batches([batch])
            if live_rows is not None:
                rows = rows.filter(pa.array(live_rows[read : read + len(batch)]))
                read += len(batch)
            columns = [
                rows.column(field.name).cast(field.type)
                if field.name in rows.column_names
                else pa.nulls(len(rows), field.type)
                for field in schema
            ]
            _reject_missing_values(columns, schema)
            typed_rows = pa.table(columns, schema=schema)
            _reject_invalid_keys(typed_rows, definition)
            yield typed_rows


def table_columns(definition: StoreDefinition) -> pa.Schema:
    """Return the columns of a store's table, with the partial aggregates if it keeps them."""
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    if not definition.partials:
        return store_schema(aggregates, windowed=definition.window.has_window_columns)
    schema = store_schema({**aggregates, PARTIALS_COLUMN: pa.binary()})
    place = schema.get_field_index(PARTIALS_COLUMN)
    return schema.set(place, pa.field(PARTIALS_COLUMN, pa.binary(), nullable=False))


def _reject_missing_values(columns: Sequence[Any], schema: pa.Schema) -> None:
    """Reject rows without a value in a required column. Other programs can append such rows."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            message = f"each row must have a value in the column {field.name}"
            raise pa.ArrowInvalid(message)


def _reject_invalid_keys(rows: Any, definition: StoreDefinition) -> None:
    """Reject rows whose key does not have the store's type. Other programs can append such rows."""
    if definition.keys is TEXT or "key" not in rows.column_names:
        return
    is_invalid = pc.invert(definition.keys.fitting(_flat(rows["key"])))
    if pc.any(is_invalid).as_py():
        unfit = rows["key"].filter(is_invalid)[0].as_py()
        message = (
            f"it has rows whose key does not have the type {definition.key_type}, for example "
            f"{unfit!r}"
        )
        raise pa.ArrowInvalid(message)


def _encoded(rows: Any, definition: StoreDefinition) -> Any:
    times = _window_times(rows)
    columns = {
        "record": record_keys(_flat(rows["key"]), times.starts_ms, times.ends_ms, definition.keys),
        "json": row_json(rows, definition),
        "stands": pc.invert(_flat(rows["deleted"])),
        "revision": _flat(rows["revision"]),
    }
    if PARTIALS_COLUMN in rows.column_names:
        columns["partials"] = _flat(rows[PARTIALS_COLUMN])
    return pa.table(columns)


def _window_times(rows: Any) -> _WindowTimes:
    if "window_start" in rows.column_names:
        return _WindowTimes(_times_ms(rows, "window_start"), _times_ms(rows, "window_end"))
    zeros = np.zeros(len(rows), np.int64)
    return _WindowTimes(zeros, zeros)


def newest_rows(encoded: Any) -> Any:
    """Return the encoded row that counts for each window, in key order.

    It is the row with the highest revision. If several rows have this revision,
    ``oriel.storage.index.revisions`` defines which one counts.
    """
    rows = encoded.combine_chunks()
    ordered = rows.take(_ascending(rows, "record", "revision"))
    # After this sort, the last row of each key has the key's highest revision.
    keys, revisions = _flat(ordered["record"]), _flat(ordered["revision"]).to_numpy()
    is_last_of_key = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    is_last_of_key = is_last_of_key.to_numpy(zero_copy_only=False)
    if (~is_last_of_key & (revisions[1:] == revisions[:-1])).any():
        # Equal revisions are rare, so the JSON is compared only in this case.
        ordered = rows.take(_ascending(rows, "record", "revision", "stands", "json"))
    elif is_last_of_key.all():
        return ordered
    return ordered.filter(pa.array(np.append(is_last_of_key, np.True_)))


def newest_row_indices(rows: Any, definition: StoreDefinition) -> Any:
    """Return the indices of the rows that count, for rows with the columns of the table."""
    encoded = _encoded(rows, definition)
    return newest_rows(encoded.append_column("row", pa.array(np.arange(len(rows)))))["row"]


def _ascending(rows: Any, *columns: str) -> Any:
    """Return the indices that sort rows by these columns, in the order of the columns."""
    return pc.sort_indices(rows, [(name, "ascending") for name in columns])


def row_json(rows: Any, definition: StoreDefinition, *, with_revision: bool = False) -> Any:
    """Return the JSON of the API for each row as a binary array.

    Args:
        rows: Rows with the columns of the table.
        definition: The definition of the store.
        with_revision: True to add the field ``revision``.
    """
    columns = [
        ("key", _flat(rows["key"])),
        *((aggregate.name, _flat(rows[aggregate.name])) for aggregate in definition.aggregates),
        ("timestamp_ms", pa.array(_times_ms(rows, "timestamp"))),
    ]
    if definition.window.kind.is_windowed:
        times = _window_times(rows)
        columns[1:1] = [
            ("window_start_ms", pa.array(times.starts_ms)),
            ("window_end_ms", pa.array(times.ends_ms)),
        ]
        columns.append(("final", _flat(rows["final"])))
    if with_revision:
        columns.append(("revision", _flat(rows["revision"])))
    return window_json(columns)


def row_identity_json(rows: Any) -> Any:
    """Return the key of each row, with its window if it has one, as a binary array of JSON."""
    columns = [("key", _flat(rows["key"]))]
    if "window_start" in rows.column_names:
        times = _window_times(rows)
        columns += [
            ("window_start_ms", pa.array(times.starts_ms)),
            ("window_end_ms", pa.array(times.ends_ms)),
        ]
    return window_json(columns)


def _times_ms(rows: Any, name: str) -> npt.NDArray[np.int64]:
    # Tables have microseconds, and Oriel writes whole ms, so nothing is cut off.
    times = rows.column(name).cast(pa.timestamp("ms", tz="UTC"), safe=False)
    return np.asarray(_flat(times.cast(pa.int64())), np.int64)


def _flat(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bytes_list(column: Any) -> list[bytes]:
    items: list[bytes] = column.to_numpy(zero_copy_only=False).tolist()
    return items


def window_json(columns: Sequence[tuple[str, Any]]) -> Any:
    """Return one flat JSON object per row as a binary array.

    Args:
        columns: The name and the Arrow array of each field, in the order of the fields. All arrays
            have one length.
    """
    pieces: list[Any] = []
    opening = "{"
    for name, column in columns:
        pieces += [pa.scalar(f"{opening}{_quote(name)}:"), json_strings(column)]
        opening = ","
    pieces.append(pa.scalar("}"))
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def json_strings(column: Any) -> Any:
    """Return the JSON of each value of an Arrow array as a string array. Null becomes ``null``.

    Raises:
        TypeError: no store can have a column of this type.
    """
    column_type = column.type
    if pa.types.is_string(column_type):
        json = _string_json(column)
    elif pa.types.is_floating(column_type):
        json = _double_json(column)
    elif pa.types.is_integer(column_type) or pa.types.is_boolean(column_type):
        json = column.cast(pa.string())
    elif pa.types.is_list(column_type):
        json = _list_json(column)
    else:
        message = f"no JSON form is defined for columns of type {column_type}"
        raise TypeError(message)
    return json.fill_null("null")


def _string_json(column: Any) -> Any:
    distinct = column.dictionary_encode()
    if _MIN_REPEATS * len(distinct.dictionary) <= len(column):
        # Keys repeat, so the JSON of each distinct key is built once.
        return _quoted(distinct.dictionary).take(distinct.indices)
    return _quoted(column)


def _quoted(column: Any) -> Any:
    if pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py():
        # Escape the backslash first, because the other escapes add backslashes.
        for character in ("\\", '"', *_CONTROL_CHARACTERS):
            if pc.any(pc.match_substring(column, character)).as_py():
                column = pc.replace_substring(column, character, _quote(character)[1:-1])
    return pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")


def _double_json(column: Any) -> Any:
    json = pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    # Arrow writes 12.0 as 12, which parses as an integer. The strings are checked only if the
    # column has a whole number, because there can be many.
    if not pc.any(pc.equal(column, pc.trunc(column))).as_py():
        return json
    is_whole = pc.invert(pc.match_substring_regex(json, "[.e]"))
    return pc.if_else(is_whole, pc.binary_join_element_wise(json, ".0", ""), json)


def _list_json(column: Any) -> Any:
    # `flatten()` skips values of null lists and values before a slice. So the lengths of the valid
    # lists add up to the number of its values.
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    items = pa.ListArray.from_arrays(offsets, json_strings(column.flatten()))
    json = pc.binary_join_element_wise("[", pc.binary_join(items, ","), "]", "")
    return pc.if_else(column.is_valid(), json, None)


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()
