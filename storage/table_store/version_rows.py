"""The rows of one version of a store's table, read from its files.

With the statistics of Delta and the footers of Parquet, a read skips files and row groups that
cannot have matching rows. The same rule as in the index determines the row of a window that counts
(docs/decisions/0030).
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
from oriel.storage.index import IndexState, LiveRowMask, newest_row_indices, row_json, table_batches
from oriel.storage.key_codec import key_prefix, record_keys
from oriel.storage.table_store.budget import ReadBudget
from oriel.storage.table_store.conditions import Bounds, Condition

#: Columns whose bounds skip files and row groups. A store without windows has only the first one.
_BOUNDED = ("key", "window_start", "window_end")


class LiveRows:
    """The rows that count, one per window, in order of their record keys.

    Attributes:
        starts_ms: The starts of the windows, 0 in a store without windows.
        ends_ms: The ends of the windows, 0 in a store without windows.
    """

    def __init__(self, rows: pa.Table, definition: StoreDefinition) -> None:
        """Wrap rows that are already in order, with one row per window."""
        self._rows = rows
        self._definition = definition
        self.starts_ms = window_times_ms(rows, "window_start")
        self.ends_ms = window_times_ms(rows, "window_end")

    @property
    def timestamps_ms(self) -> npt.NDArray[np.int64]:
        """Return the time of each window's newest record in ms."""
        return window_times_ms(self._rows, "timestamp")

    @property
    def is_final(self) -> npt.NDArray[np.bool_]:
        """Return, for each window, whether no record can change it any more."""
        flags: npt.NDArray[np.bool_] = self._rows["final"].to_numpy()
        return flags

    def key_column(self) -> Any:
        """Return the key of each window as an Arrow array."""
        return self._rows["key"].combine_chunks()

    def __len__(self) -> int:
        return len(self._rows)

    def record_keys(self) -> Any:
        """Return the record key of each window as an Arrow array."""
        return record_keys(self.key_column(), self.starts_ms, self.ends_ms, self._definition.keys)

    def key_prefix(self, place: int) -> bytes:
        """Return the key prefix of the window with index ``place``."""
        return key_prefix(self._rows["key"][place].as_py(), self._definition.keys)

    def keys(self) -> list[str]:
        """Return the distinct keys, in order of their record keys."""
        keys: list[str] = pc.unique(self._rows["key"]).to_pylist()
        return keys

    def json(self, places: npt.NDArray[np.int64]) -> list[bytes]:
        """Return the windows with these indexes as JSON of the API."""
        rows = self._rows.take(pa.array(places)).combine_chunks()
        texts: list[bytes] = row_json(rows, self._definition).to_pylist()
        return texts


@dataclass(frozen=True)
class TableFile:
    """A data file of a version.

    Attributes:
        path: The path, relative to the table.
        bounds: The bounds of columns in Delta's statistics.
        kept: The remaining rows if the file has a deletion vector, otherwise None.
        digest: The digest of the file, None if the log does not have it.
        run: The run of the file, None if the log does not have it.
        rows: The number of rows in Delta's statistics, None if they do not have it.
    """

    path: str
    bounds: Bounds = field(default_factory=dict)
    kept: LiveRowMask | None = None
    digest: str | None = None
    run: str | None = None
    rows: int | None = None


@dataclass(frozen=True)
class VersionRows:
    """The rows of a version, or of some files of it.

    Attributes:
        table: The directory of the table.
        state: The version, its definition and its position.
        files: The data files to read.
    """

    table: Path
    state: IndexState
    files: tuple[TableFile, ...]

    def live(self, condition: Condition, budget: ReadBudget) -> LiveRows:
        """Return the windows that count among the matching rows.

        Raises:
            MissingDataFile: VACUUM deleted a file.
            CorruptLog: A file cannot be read as rows of the store.
            TableReadTooLarge, TableReadTimeout: The read exceeds the budget.
        """
        definition = self.state.definition
        rows = self.read(condition, budget)
        if len(rows):
            rows = rows.take(newest_row_indices(rows, definition))
            rows = rows.filter(pc.invert(rows["deleted"]))
        return LiveRows(rows.combine_chunks(), definition)

    def read(
        self, condition: Condition, budget: ReadBudget, columns: list[str] | None = None
    ) -> Any:
        """Return all matching rows unordered, also superseded and removed ones.

        Raises:
            Exception: The same exceptions as ``live``.
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
        """Yield the rows of ``read`` as non-empty Arrow tables.

        The condition must use only ``columns``. The same exceptions as in ``live`` are raised,
        except ``TableReadTooLarge``.
        """

        def matching_row_groups(file: pq.ParquetFile) -> list[int]:
            return [
                number
                for number in range(file.metadata.num_row_groups)
                if condition.can_match(_group_bounds(file, number))
            ]

        for file in self.files:
            budget.check_time()
            if not condition.can_match(file.bounds):
                continue
            for rows in table_batches(
                self.table / file.path, self.state.definition, file.kept, columns=columns,
                digest=file.digest, row_groups=matching_row_groups if file.kept is None else None,
            ):  # fmt: skip
                budget.check_time()
                wanted = condition.filtered(rows)
                if len(wanted):
                    yield wanted


def version_rows(table: Path, snapshot: TableSnapshot, state: IndexState) -> VersionRows:
    """Return the rows of a version as an object that has opened no file yet."""
    adds = snapshot.adds
    # Each bounded column has two columns of statistics: least and greatest.
    bounds = {
        name: [_comparable(adds[f"{side}.{name}"]) for side in ("min", "max")]
        for name in _BOUNDED
        if {f"min.{name}", f"max.{name}"} <= set(adds.column_names)
    }
    counts = adds["num_records"].to_pylist()
    files = []
    for place, path in enumerate(map(unquote, adds["path"].to_pylist())):
        bounds_of_file = {
            name: Range(*(side[place] for side in both)) for name, both in bounds.items()
        }
        known = {name: found for name, found in bounds_of_file.items() if None not in found}
        files.append(
            TableFile(
                path, known, snapshot.kept.get(path), snapshot.digests.get(path),
                snapshot.runs.get(path), counts[place],
            )
        )  # fmt: skip
    return VersionRows(table, state, tuple(files))


def added_rows(table: Path, state: IndexState, entry: LogEntry) -> VersionRows:
    """Return the rows of the files that a log entry added. No file is opened yet."""
    files = [TableFile(path, digest=entry.digests.get(path)) for path in entry.added]
    return VersionRows(table, state, tuple(files))


def store_columns(definition: StoreDefinition) -> pa.Schema:
    """Return the columns of a store's table."""
    aggregates = {a.name: arrow_type(a.type) for a in definition.aggregates}
    return store_schema(aggregates, windowed=definition.window.has_window_columns)


def window_times_ms(rows: Any, column: str) -> npt.NDArray[np.int64]:
    """Return a time column of windows in ms. If the rows lack the column, all times are 0."""
    if column not in rows.column_names:
        return np.zeros(len(rows), np.int64)
    microseconds = np.asarray(rows[column].cast(pa.int64()), np.int64)
    return microseconds // 1000


def _comparable(values: Any) -> list[Any]:
    """Convert Delta's statistics: keys to UTF-8, times to microseconds. Unknown ones are None."""
    if pa.types.is_timestamp(values.type):
        times: list[Any] = values.cast(TIMESTAMP).cast(pa.int64()).to_pylist()
        return times
    keys: list[Any] = values.cast(pa.string()).cast(pa.binary()).to_pylist()
    return keys


def _group_bounds(file: pq.ParquetFile, number: int) -> Bounds:
    """Return the known bounds of a row group from the footer."""
    group, schema = file.metadata.row_group(number), file.schema_arrow
    found = {
        name: group_range(group, schema.names.index(name), name, schema)
        for name in _BOUNDED
        if name in schema.names
    }
    return {name: bounds for name, bounds in found.items() if bounds is not None}
