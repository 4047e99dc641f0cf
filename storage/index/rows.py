"""Table rows as index records: record keys and finished JSON, each window once, in key order.

The index keeps each window as the JSON that the API answers, so an answer is a join of bytes.
Keys and JSON are built with Arrow kernels, column by column; no Python runs per row.

Rules of the JSON: strings escape the quote, the backslash and control characters; integers keep
all digits; doubles are the shortest text that reads back equal, whole ones as ``12.0``; NaN,
the infinities and null are ``null``; arrays follow the rules of their items.
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

from oriel.storage.definition import StoreDefinition, StoreKind
from oriel.storage.delta import arrow_type, open_data_file, store_schema
from oriel.storage.errors import CorruptLog, ObjectStoreFailed
from oriel.storage.index.state import NOTHING_OBSERVED_MS, Extent
from oriel.storage.key_codec import record_keys
from oriel.storage.key_types import TEXT
from oriel.storage.shards import ALL_KEYS, Shard

#: Rows that are encoded at once: bounds the memory of reading a big file.
_BATCH_ROWS = 1 << 17

_CONTROL_CHARACTERS = [chr(code) for code in range(32)]
#: How often a string has to be there, on average, for its text to be made only once.
_REPEATS = 4
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'

#: Of a file's rows, which are in the table: those that its deletion vector leaves.
Kept = npt.NDArray[np.bool_]

#: Chooses the row groups of an open file that are worth reading, by their numbers.
RowGroups = Callable[[pq.ParquetFile], list[int]]


class IndexRows(NamedTuple):
    """Rows of a table file; each window once, by the row that counts, in key order.

    The first four have one length. ``values`` are windows as JSON; where ``deleted`` is true the
    window is to be removed. ``extent`` is of all rows, removed and superseded ones included.
    """

    keys: list[bytes]
    values: list[bytes]
    deleted: npt.NDArray[np.bool_]
    revisions: npt.NDArray[np.int64]
    extent: Extent


class _WindowTimes(NamedTuple):
    """Starts and ends of rows' windows in ms; both 0 in a store without windows."""

    starts_ms: npt.NDArray[np.int64]
    ends_ms: npt.NDArray[np.int64]

    def extent(self, kind: StoreKind) -> Extent:
        """How far these windows reach."""
        clock_ms = self.retention_clock(kind).max(initial=NOTHING_OBSERVED_MS)
        longest_ms = (self.ends_ms - self.starts_ms).max(initial=0) if kind.is_session else 0
        return Extent(int(clock_ms), int(longest_ms))

    def retention_clock(self, kind: StoreKind) -> npt.NDArray[np.int64]:
        """The time of each window by which retention counts."""
        return self.ends_ms if kind.expires_by_end else self.starts_ms


def file_rows(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int = 0,
    kept: Kept | None = None,
    shard: Shard = ALL_KEYS,
    digest: str | None = None,
) -> Iterator[IndexRows]:
    """Read a table file as index records, in batches of bounded size that are not empty.

    Windows that start (sessions: end) before ``earliest_ms`` are left out, and rows that ``kept``
    says are deleted, and keys of other shards. A window that is in several batches comes several
    times. ``digest`` is that of the file in the table's log, None if the log has none.

    Raises:
        MissingDataFile: the file was vacuumed or deleted, or its table is gone.
        CorruptLog: it is no Parquet file with the store's columns, or it is damaged.
    """
    for rows in _visible(path, definition, earliest_ms, kept, shard, digest):
        counting = counting_rows(_encoded(rows, definition))
        yield IndexRows(
            keys=_bytes_list(_flat(counting["record"])),
            values=_bytes_list(_flat(counting["json"])),
            deleted=~_flat(counting["stands"]).to_numpy(zero_copy_only=False),
            revisions=_flat(counting["revision"]).to_numpy(),
            extent=_window_times(rows).extent(definition.window.kind),
        )


def file_tables(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int = 0,
    kept: Kept | None = None,
    shard: Shard = ALL_KEYS,
    digest: str | None = None,
) -> Iterator[Any]:
    """Read a table file as encoded rows, which ``counting_rows`` takes; see ``file_rows``.

    An encoded row has ``record`` (the record key), ``json``, ``stands`` (false: the window is
    removed) and ``revision``. All rows of the file and shard are there, in its order.
    """
    for rows in _visible(path, definition, earliest_ms, kept, shard, digest):
        yield _encoded(rows, definition)


def _visible(
    path: Path,
    definition: StoreDefinition,
    earliest_ms: int,
    kept: Kept | None,
    shard: Shard,
    digest: str | None,
) -> Iterator[Any]:
    kind = definition.window.kind
    for rows in table_batches(path, definition, kept, digest=digest):
        visible = rows
        if earliest_ms > 0:
            clock_ms = _window_times(rows).retention_clock(kind)
            visible = rows.filter(pa.array(clock_ms >= earliest_ms))
        if not shard.is_all:
            visible = visible.filter(pa.array(shard.mask(visible["key"])))
        if len(visible):
            yield visible


def file_extent(
    path: Path, definition: StoreDefinition, kept: Kept | None = None, digest: str | None = None
) -> Extent:
    """How far the windows of a table file reach, removed ones included (semantics.md#7).

    Raises:
        MissingDataFile: the file was vacuumed or deleted, or its table is gone.
        CorruptLog: it is no Parquet file with a store's windows.
    """
    if not definition.window.kind.is_windowed:
        return Extent()
    with _opened(path, digest) as file:
        windows = file.read(["window_start", "window_end"])
        times = _window_times(windows if kept is None else windows.filter(pa.array(kept)))
    return times.extent(definition.window.kind)


@contextmanager
def _opened(path: Path, digest: str | None, *, once: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a file of a table; what is wrong with it is told in one line that names it."""
    try:
        # Spark writes times as INT96, which Arrow would take for nanoseconds: those end in 2262.
        with (
            open_data_file(path, digest, once=once) as source,
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
        # Arrow's word for a page that can't be decoded; the system's errors have a number.
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
    kept: Kept | None = None,
    *,
    digest: str | None = None,
    columns: Sequence[str] | None = None,
    row_groups: RowGroups | None = None,
) -> Iterator[Any]:
    """Read a table file as Arrow tables with the columns and types that the definition says.

    ``columns`` are all that are wanted, ``row_groups`` chooses which are read; not with ``kept``.
    ``digest`` is that of the file in the log. If a part of the file is read, it is verified once.

    Other writers (compaction) may leave other Arrow types for the same Delta type, and a file
    that is older than a column lacks it: its values are null.
    """
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    schema = store_schema(aggregates, windowed=definition.window.kind.is_windowed)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    read = 0
    is_part = columns is not None or row_groups is not None
    with _opened(path, digest, once=is_part) as file:
        groups = None if row_groups is None else row_groups(file)
        for batch in file.iter_batches(_BATCH_ROWS, groups, columns):
            rows = pa.Table.from_batches([batch])
            if kept is not None:
                rows = rows.filter(pa.array(kept[read : read + len(batch)]))
                read += len(batch)
            columns = [
                rows.column(field.name).cast(field.type)
                if field.name in rows.column_names
                else pa.nulls(len(rows), field.type)
                for field in schema
            ]
            _refuse_missing_values(columns, schema)
            typed_rows = pa.table(columns, schema=schema)
            _refuse_unfit_keys(typed_rows, definition)
            yield typed_rows


def _refuse_missing_values(columns: Sequence[Any], schema: pa.Schema) -> None:
    """Refuse rows without what tells their window and revision; others may append such rows."""
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            message = f"each row must have a value in the column {field.name}"
            raise pa.ArrowInvalid(message)


def _refuse_unfit_keys(rows: Any, definition: StoreDefinition) -> None:
    """Refuse rows whose key is none of the store's type; others may append such rows."""
    if definition.keys is TEXT or "key" not in rows.column_names:
        return
    is_unfit = pc.invert(definition.keys.fitting(_flat(rows["key"])))
    if pc.any(is_unfit).as_py():
        unfit = rows["key"].filter(is_unfit)[0].as_py()
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
    return pa.table(columns)


def _window_times(rows: Any) -> _WindowTimes:
    if "window_start" in rows.column_names:
        return _WindowTimes(_times_ms(rows, "window_start"), _times_ms(rows, "window_end"))
    zeros = np.zeros(len(rows), np.int64)
    return _WindowTimes(zeros, zeros)


def counting_rows(encoded: Any) -> Any:
    """The encoded row that counts of each window, in order of their record keys.

    That is the row of the highest revision; of equal ones the greatest in the order that
    ``oriel.storage.index.revisions`` defines.
    """
    rows = encoded.combine_chunks()
    ordered = rows.take(_ascending(rows, "record", "revision"))
    # Sorted so, the last row of each run of one key has its highest revision.
    keys, revisions = _flat(ordered["record"]), _flat(ordered["revision"]).to_numpy()
    ends_run = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    ends_run = ends_run.to_numpy(zero_copy_only=False)
    if (~ends_run & (revisions[1:] == revisions[:-1])).any():
        # Rare, so only then the texts are compared.
        ordered = rows.take(_ascending(rows, "record", "revision", "stands", "json"))
    elif ends_run.all():
        return ordered
    return ordered.filter(pa.array(np.append(ends_run, np.True_)))


def newest_of_each(rows: Any, definition: StoreDefinition) -> Any:
    """Indices of the rows that count, among rows with the table's columns, as ``counting_rows``."""
    encoded = _encoded(rows, definition)
    return counting_rows(encoded.append_column("row", pa.array(np.arange(len(rows)))))["row"]


def _ascending(rows: Any, *columns: str) -> Any:
    """Indices that sort rows by all of these columns, in their order."""
    return pc.sort_indices(rows, [(name, "ascending") for name in columns])


def row_json(rows: Any, definition: StoreDefinition, *, with_revision: bool = False) -> Any:
    """Each row as the API answers it, a binary array; ``rows`` have the table's columns."""
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
    """What says of each row which window it is of, or which key: a binary array of JSON."""
    columns = [("key", _flat(rows["key"]))]
    if "window_start" in rows.column_names:
        times = _window_times(rows)
        columns += [
            ("window_start_ms", pa.array(times.starts_ms)),
            ("window_end_ms", pa.array(times.ends_ms)),
        ]
    return window_json(columns)


def _times_ms(rows: Any, name: str) -> npt.NDArray[np.int64]:
    # Tables hold microseconds; our times are whole ms, so nothing is cut off.
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
    """One flat JSON object per row, with these named columns in this order.

    Takes Arrow arrays of one length and gives a binary array.
    """
    pieces: list[Any] = []
    opening = "{"
    for name, column in columns:
        pieces += [pa.scalar(f"{opening}{_quote(name)}:"), json_texts(column)]
        opening = ","
    pieces.append(pa.scalar("}"))
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def json_texts(column: Any) -> Any:
    """The JSON text of each value of an Arrow array, a string array; null becomes ``null``.

    Raises:
        TypeError: the column is of a type that no store has.
    """
    column_type = column.type
    if pa.types.is_string(column_type):
        texts = _string_texts(column)
    elif pa.types.is_floating(column_type):
        texts = _double_texts(column)
    elif pa.types.is_integer(column_type) or pa.types.is_boolean(column_type):
        texts = column.cast(pa.string())
    elif pa.types.is_list(column_type):
        texts = _list_texts(column)
    else:
        message = f"no JSON form is defined for columns of type {column_type}"
        raise TypeError(message)
    return texts.fill_null("null")


def _string_texts(column: Any) -> Any:
    distinct = column.dictionary_encode()
    if _REPEATS * len(distinct.dictionary) <= len(column):
        # Keys repeat: the text of each is made once.
        return _quoted(distinct.dictionary).take(distinct.indices)
    return _quoted(column)


def _quoted(column: Any) -> Any:
    if pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py():
        # The backslash goes first: the others bring new ones.
        for character in ("\\", '"', *_CONTROL_CHARACTERS):
            if pc.any(pc.match_substring(column, character)).as_py():
                column = pc.replace_substring(column, character, _quote(character)[1:-1])
    return pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")


def _double_texts(column: Any) -> Any:
    texts = pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    # Arrow writes 12.0 as 12: without a point or an exponent it would read back as an integer.
    # Texts are looked at only where there is such a number, for they are many.
    if not pc.any(pc.equal(column, pc.trunc(column))).as_py():
        return texts
    is_whole = pc.invert(pc.match_substring_regex(texts, "[.e]"))
    return pc.if_else(is_whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _list_texts(column: Any) -> Any:
    # flatten() leaves out what null lists hide, and what is before a slice; the lengths of the
    # other lists count up to exactly it.
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    items = pa.ListArray.from_arrays(offsets, json_texts(column.flatten()))
    texts = pc.binary_join_element_wise("[", pc.binary_join(items, ","), "]", "")
    return pc.if_else(column.is_valid(), texts, None)


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()
