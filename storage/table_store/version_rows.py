"""The rows of one version of a store's table, read from its files.

Which files and row groups can have rows of a key and a span of time, Delta's statistics and
Parquet's footers say; the others are not opened, or not read. Which row of a window counts is the
rule of the index (docs/decisions/0030).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from oriel.storage.definition import StoreDefinition
from oriel.storage.delta import (
    TIMESTAMP,
    LogEntry,
    Range,
    TableSnapshot,
    arrow_type,
    group_range,
    store_schema,
)
from oriel.storage.index import IndexState, Kept, newest_of_each, row_json, table_batches
from oriel.storage.key_codec import key_prefix, record_keys
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import Bounds, Condition

#: Columns by which files and row groups are skipped; a store without windows has the first.
_BOUNDED = ("key", "window_start", "window_end")


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
        return len(self._rows)

    def record_keys(self) -> Any:
        """The record key of each window, an Arrow array."""
        return record_keys(self.key_column(), self.starts_ms, self.ends_ms, self._definition.keys)

    def key_prefix(self, place: int) -> bytes:
        """The key prefix of the window at this place."""
        return key_prefix(self._rows["key"][place].as_py(), self._definition.keys)

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
class TableFile:
    """A file of a version: its path below the table, and what Delta's statistics say of it.

    ``kept`` says which rows are left where it has a deletion vector. ``digest`` is that of the
    file, None if the log has none.
    """

    path: str
    bounds: Bounds = field(default_factory=dict)
    kept: Kept | None = None
    digest: str | None = None


@dataclass(frozen=True)
class VersionRows:
    """The rows of one version, or of files of one; ``state`` says which, as an index would."""

    table: Path
    state: IndexState
    files: tuple[TableFile, ...]

    def live(self, condition: Condition, budget: ReadBudget) -> LiveRows:
        """The windows that count among the rows of a condition.

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

    def read(
        self, condition: Condition, budget: ReadBudget, columns: list[str] | None = None
    ) -> Any:
        """All rows of a condition, superseded and removed ones included, in no order.

        Raises as ``live`` does.
        """
        schema = store_columns(self.state.definition)
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        held = [schema.empty_table()]
        held_bytes = 0
        for rows in self.batches(condition, budget, columns):
            held.append(rows)
            held_bytes += rows.nbytes
            budget.check_size(held_bytes)
        return pa.concat_tables(held)

    def batches(
        self, condition: Condition, budget: ReadBudget, columns: list[str] | None = None
    ) -> Iterator[Any]:
        """The same as tables that are not empty.

        The condition may be of ``columns`` only. Raises as ``live`` does, but for the size.
        """

        def worth_reading(file: pq.ParquetFile) -> list[int]:
            return [
                number
                for number in range(file.metadata.num_row_groups)
                if condition.may_hold(_group_bounds(file, number))
            ]

        for file in self.files:
            budget.check_time()
            if not condition.may_hold(file.bounds):
                continue
            for rows in table_batches(
                self.table / file.path, self.state.definition, file.kept, columns=columns,
                digest=file.digest, row_groups=worth_reading if file.kept is None else None,
            ):  # fmt: skip
                budget.check_time()
                wanted = condition.filtered(rows)
                if len(wanted):
                    yield wanted


def version_rows(table: Path, snapshot: TableSnapshot, state: IndexState) -> VersionRows:
    """Prepare to read a version; no file is opened."""
    adds = snapshot.adds
    # Two columns a bound: least and greatest, as the footer of a file would have them.
    bounds = {
        name: [_comparable(adds[f"{side}.{name}"]) for side in ("min", "max")]
        for name in _BOUNDED
        if {f"min.{name}", f"max.{name}"} <= set(adds.column_names)
    }
    files = []
    for place, path in enumerate(map(unquote, adds["path"].to_pylist())):
        of_file = {name: Range(*(side[place] for side in both)) for name, both in bounds.items()}
        known = {name: found for name, found in of_file.items() if None not in found}
        files.append(TableFile(path, known, snapshot.kept.get(path), snapshot.digests.get(path)))
    return VersionRows(table, state, tuple(files))


def added_rows(table: Path, state: IndexState, entry: LogEntry) -> VersionRows:
    """Prepare to read the files that one entry of the log added."""
    files = [TableFile(path, digest=entry.digests.get(path)) for path in entry.added]
    return VersionRows(table, state, tuple(files))


def store_columns(definition: StoreDefinition) -> pa.Schema:
    """The columns of a store's table."""
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    return store_schema(aggregates, windowed=definition.window.kind.is_windowed)


def window_times_ms(rows: Any, column: str) -> npt.NDArray[np.int64]:
    """Starts or ends of windows in ms; 0 in a store without windows, which lacks the column."""
    if column not in rows.column_names:
        return np.zeros(len(rows), np.int64)
    microseconds = np.asarray(rows[column].cast(pa.int64()), np.int64)
    return microseconds // 1000


def _comparable(values: Any) -> list[Any]:
    """Bounds of Delta's statistics: keys as UTF-8, times in microseconds, None where unknown."""
    if pa.types.is_timestamp(values.type):
        times: list[Any] = values.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
        return times
    keys: list[Any] = values.cast(pa.string()).cast(pa.binary()).to_pylist()
    return keys


def _group_bounds(file: pq.ParquetFile, number: int) -> Bounds:
    """The bounds of a row group, as far as the footer says them."""
    group, schema = file.metadata.row_group(number), file.schema_arrow
    found = {
        name: group_range(group, schema.names.index(name), name, schema)
        for name in _BOUNDED
        if name in schema.names
    }
    return {name: bounds for name, bounds in found.items() if bounds is not None}
