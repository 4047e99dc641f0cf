"""The rows of one version of a store's table, read from its files.

Which files and row groups can have rows of a key and a span of time, Delta's statistics and
Parquet's footers say; the others are not opened, or not read. Which row of a window counts is the
rule of the index (docs/decisions/0030): a condition on keys and window times leaves all rows of a
window or none, so it may stand before the rule.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from oriel.storage.definition import StoreDefinition
from oriel.storage.delta import TIMESTAMP, TableSnapshot, arrow_type, store_schema
from oriel.storage.errors import CorruptLog, MissingDataFile
from oriel.storage.index import IndexState, Kept, newest_of_each, row_json, table_batches
from oriel.storage.table_store.budget import ReadBudget

#: Rows that are read at once.
_BATCH_ROWS = 1 << 16
#: Columns of which Delta's statistics say the least and the greatest value.
_BOUNDED = ("key", "window_start", "window_end")

#: Times beyond these can't be said in microseconds, so no row has them.
_TIME_MS_MAX = (2**63 - 1) // 1000


class LiveRows:
    """The rows that count, one of each window, in order of their record keys.

    ``starts_ms`` and ``ends_ms`` are the windows' times, both 0 in a store without windows.
    """

    def __init__(self, rows: pa.Table, definition: StoreDefinition) -> None:
        """Take rows that are already one a window and in order."""
        self._rows = rows
        self._definition = definition
        self.starts_ms = window_times_ms(rows, "window_start")
        self.ends_ms = window_times_ms(rows, "window_end")

    @property
    def timestamps_ms(self) -> npt.NDArray[np.int64]:
        """The time of each window's newest record."""
        return window_times_ms(self._rows, "timestamp")

    @property
    def is_final(self) -> npt.NDArray[np.bool_]:
        """Whether no record can change the window any more."""
        flags: npt.NDArray[np.bool_] = self._rows["final"].to_numpy()
        return flags

    def key_column(self) -> Any:
        """The key of each window, an Arrow array."""
        return self._rows["key"].combine_chunks()

    def __len__(self) -> int:
        """Number of windows."""
        return len(self._rows)

    def keys(self) -> list[str]:
        """The distinct keys, in order of their record keys."""
        keys: list[str] = pc.unique(self._rows["key"]).to_pylist()
        return keys

    def json(self, places: npt.NDArray[np.int64]) -> list[bytes]:
        """The windows at these places, as the API answers them."""
        rows = self._rows.take(pa.array(places)).combine_chunks()
        texts: list[bytes] = row_json(rows, self._definition).to_pylist()
        return texts


@dataclass(frozen=True)
class VersionRows:
    """The rows of one version; ``state`` says which, as an index would.

    ``files`` are paths below the table. ``dataset`` has those that are in the version as they are,
    ``masked`` says of those with a deletion vector which of their rows are left.
    """

    table: Path
    state: IndexState
    files: tuple[str, ...]
    dataset: Any
    masked: Mapping[str, Kept]

    def live(self, condition: Any, budget: ReadBudget) -> LiveRows:
        """The windows that count among the rows of a condition on keys and window times.

        Raises:
            MissingDataFile: a file was vacuumed.
            CorruptLog: a file can't be read as rows of the store.
            TableReadTooLarge, TableReadTimeout: it is more than the budget allows.
        """
        definition = self.state.definition
        rows = self.read(condition, budget)
        if len(rows):
            rows = rows.take(newest_of_each(rows, definition))
            rows = rows.filter(pc.invert(rows["deleted"]))
        return LiveRows(rows.combine_chunks(), definition)

    def read(self, condition: Any, budget: ReadBudget, columns: list[str] | None = None) -> Any:
        """All rows of a condition, superseded and removed ones included, in no order.

        Raises as ``live`` does.
        """
        held: list[Any] = []
        held_bytes = 0
        for batch in self.batches(condition, budget, columns):
            held.append(batch)
            held_bytes += batch.nbytes
            budget.check_size(held_bytes)
        schema = self.dataset.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        return pa.Table.from_batches(held, schema=schema)

    def batches(
        self, condition: Any, budget: ReadBudget, columns: list[str] | None = None
    ) -> Iterator[Any]:
        """The same in batches that are not empty.

        Raises:
            MissingDataFile: a file was vacuumed.
            CorruptLog: a file can't be read as rows of the store.
            TableReadTimeout: the time is over.
        """
        names = columns or self.dataset.schema.names
        try:
            # One thread, which reads little ahead: the service answers others beside it.
            for batch in self.dataset.to_batches(
                columns=names, filter=condition, batch_size=_BATCH_ROWS, batch_readahead=1,
                fragment_readahead=1, use_threads=False,
            ):  # fmt: skip
                budget.check_time()
                if batch.num_rows:
                    _refuse_missing_values(batch, self.table)
                    yield batch
        except FileNotFoundError as error:
            message = f"a data file of version {self.state.version} is not there ({error.args[-1]})"
            raise MissingDataFile(message) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise _unreadable(self.table, error) from error
        for name, kept in self.masked.items():
            for rows in table_batches(self.table / name, self.state.definition, kept):
                budget.check_time()
                yield from rows.filter(condition).select(names).to_batches()


def version_rows(table: Path, snapshot: TableSnapshot, state: IndexState) -> VersionRows:
    """Prepare to read a version; no file is opened."""
    bounds = dict(_bounds_of_files(snapshot.adds, store_columns(snapshot.definition)))
    whole = {name: bounds[name] for name in snapshot.files if name not in snapshot.kept}
    return VersionRows(table, state, snapshot.files, _dataset(table, state, whole), snapshot.kept)


def added_rows(table: Path, state: IndexState, names: Iterable[str]) -> VersionRows:
    """Prepare to read files that one entry of the log added."""
    files = dict.fromkeys(names, pc.scalar(value=True))
    return VersionRows(table, state, tuple(files), _dataset(table, state, files), {})


def store_columns(definition: StoreDefinition) -> pa.Schema:
    """The columns of a store's table."""
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    return store_schema(aggregates, windowed=definition.window.kind.is_windowed)


def _dataset(table: Path, state: IndexState, files: Mapping[str, Any]) -> Any:
    """Files of a table as a dataset, each with what is promised of all its rows."""
    # Spark writes times as INT96, which Arrow would take for nanoseconds: those end in 2262.
    parquet = ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    )
    filesystem = fs.LocalFileSystem()
    fragments = [
        parquet.make_fragment(str(table / name), filesystem, partition_expression=bounds)
        for name, bounds in files.items()
    ]
    schema = store_columns(state.definition)
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def of_key(key: str) -> Any:
    """The condition that a row is of this key."""
    return pc.field("key") == pa.scalar(key, pa.string())


def of_keys(after: str | None, to: str | None) -> Any:
    """The condition that a key comes behind ``after`` (exclusive), up to ``to`` (inclusive).

    Keys are in the order of their UTF-8 bytes; None: no bound.
    """
    condition = pc.scalar(value=True)
    if after is not None:
        condition &= pc.field("key") > pa.scalar(after, pa.string())
    if to is not None:
        condition &= pc.field("key") <= pa.scalar(to, pa.string())
    return condition


def from_key(key: str) -> Any:
    """The condition that a key is this one or comes behind it."""
    return pc.field("key") >= pa.scalar(key, pa.string())


def of_prefix(prefix: str) -> Any:
    """The condition that a key begins so."""
    condition = pc.field("key") >= pa.scalar(prefix, pa.string())
    # The least text that is greater than all that begin so: code points and UTF-8 have one order.
    last = prefix.rstrip("\U0010ffff")
    if not last:
        return condition
    following = ord(last[-1]) + 1
    # Surrogates are no characters.
    following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
    return condition & (pc.field("key") < pa.scalar(last[:-1] + chr(following), pa.string()))


def of_times(column: str, from_ms: int, to_ms: int) -> Any:
    """The condition that a time of the window lies within these bounds, both inclusive."""
    if from_ms > min(to_ms, _TIME_MS_MAX) or to_ms < -_TIME_MS_MAX:
        return pc.scalar(value=False)
    condition = pc.field(column) >= _timestamp(max(from_ms, -_TIME_MS_MAX))
    if to_ms <= _TIME_MS_MAX:
        condition &= pc.field(column) <= _timestamp(to_ms)
    return condition


def window_times_ms(rows: Any, column: str) -> npt.NDArray[np.int64]:
    """Starts or ends of windows in ms; 0 in a store without windows, which lacks the column."""
    if column not in rows.column_names:
        return np.zeros(len(rows), np.int64)
    microseconds = np.asarray(rows[column].cast(pa.int64()), np.int64)
    return microseconds // 1000


def _timestamp(time_ms: int) -> Any:
    return pa.scalar(time_ms * 1000, pa.int64()).cast(TIMESTAMP)


def _bounds_of_files(adds: Any, schema: pa.Schema) -> Iterator[tuple[str, Any]]:
    """Each file with what Delta's statistics promise of all its rows."""
    bounded = [
        (pc.field(name), schema.field(name).type, adds[f"min.{name}"], adds[f"max.{name}"])
        for name in _BOUNDED
        if name in schema.names and {f"min.{name}", f"max.{name}"} <= set(adds.column_names)
    ]
    for place, path in enumerate(adds["path"].to_pylist()):
        promises = [
            (column >= least[place].cast(kind)) & (column <= greatest[place].cast(kind))
            for column, kind, least, greatest in bounded
            if least[place].is_valid and greatest[place].is_valid
        ]
        yield unquote(path), reduce(and_, promises, pc.scalar(value=True))


def _refuse_missing_values(batch: Any, table: Path) -> None:
    for field in batch.schema:
        if not field.nullable and batch.column(field.name).null_count:
            message = f"{table} has rows without {field.name}: remove what others appended"
            raise CorruptLog(message)


def _unreadable(table: Path, error: Exception) -> CorruptLog:
    first_line = str(error).partition("\n")[0]
    return CorruptLog(f"a data file of {table} can't be read as rows of the store: {first_line}")
