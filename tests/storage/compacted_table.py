"""A store's table, written as the pipeline writes it, with its expected windows in a dictionary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from oriel.storage import COMMIT_INFO_KEY, STORE_PROPERTY, WindowRange, WindowSpec
from oriel.storage.delta import (
    DeltaLog,
    Limits,
    MaintenanceSettings,
    TableMaintenance,
    arrow_type,
    open_table,
    run_name,
    store_schema,
    write_file,
)
from oriel.storage.delta.maintenance.compaction import Compaction
from oriel.storage.delta.maintenance.live_files import TableFiles
from oriel.storage.index import (
    IndexDirectory,
    IndexReader,
    KeyValueSnapshot,
    WindowSnapshot,
    build_generation,
)
from tests.storage.store_tables import Row, make_definition, make_record, window_fields, window_row

#: Small enough that a few rows need several pieces and row groups.
TINY = Limits(small_files=4, small_size=1 << 11, piece_rows=3, group_rows=2)

#: Key, start and end of a window. Start and end are 0 in a store without windows.
Window = tuple[str, int, int]


class CompactedTable:
    """A table and the newest row of each of its windows."""

    def __init__(
        self, data: Path, window: WindowSpec, retention_ms: int | None = None, name: str = "store"
    ) -> None:
        """Create the table in the data directory."""
        self.definition = make_definition(name, retention_ms=retention_ms, window=window)
        self.data = data
        self.directory = data / "tables" / name
        types = {a.name: arrow_type(a.type) for a in self.definition.aggregates}
        self.schema = store_schema(types, windowed=window.is_windowed)
        self.properties = {STORE_PROPERTY: self.definition.to_json()}
        self.table = open_table(self.directory, self.schema, self.properties, sync=False)
        self.batch = -1
        self._newest: dict[Window, Row] = {}
        self._observed_ms = -1
        #: The stream time in the last commit record. -1: the rows determine the stream time.
        self.recorded_ms = -1

    def commit(self, *tasks: Sequence[Row], observed_ms: int = -1) -> int:
        """Append the next batch with the rows of each task.

        Args:
            tasks: The rows that each task writes.
            observed_ms: The stream time in the commit record. -1: none.

        Returns:
            The version of the commit.
        """
        self.batch += 1
        files = [
            write_file(
                self.directory,
                self.rows(rows),
                self.part(task),
                sync=False,
                run=run_name(self.batch, self.batch),
            )
            for task, rows in enumerate(tasks)
            if rows
        ]
        for rows in tasks:
            for row in rows:
                self._put(row)
        self.recorded_ms = observed_ms
        info = {COMMIT_INFO_KEY: make_record(self.batch, observed_ms=observed_ms).to_json()}
        return self.table.commit(files, self.definition.application, self.batch, info)

    def part(self, task: int = 0, batch: int | None = None) -> str:
        """Return the name of a task's file without its suffix."""
        return f"part-{self.batch if batch is None else batch:012d}-{task:04d}"

    def rows(self, rows: Sequence[Row]) -> pa.Table:
        """Return rows of the current batch with the columns of the table."""
        complete = [window_row(row, self.definition, self.batch) for row in rows]
        plain = pa.schema([
            pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type)
            for f in self.schema
        ])  # fmt: skip
        return pa.Table.from_pylist(complete, plain).cast(self.schema)

    def compaction(self, limits: Limits = TINY) -> Compaction:
        """Return a compaction of the table, as another process would create it."""
        return Compaction(TableFiles(self.directory), limits, sync=False)

    def maintenance(self, limits: Limits = TINY, **changes: Any) -> TableMaintenance:
        """Return maintenance of the table, as another process would create it."""
        return TableMaintenance(
            self.directory, MaintenanceSettings(sync=False, limits=limits, **changes)
        )

    def names(self) -> set[str]:
        """Return the names of all data files in the directory, also of files without a version."""
        return {path.name for path in self.directory.glob("*.parquet")}

    def live(self) -> set[str]:
        """Return the names of the data files of the newest version, as delta-rs lists them."""
        return {Path(uri).name for uri in DeltaTable(self.directory).file_uris()}

    def expected(self) -> list[dict[str, Any]]:
        """Return all visible windows as API objects, from the dictionary."""
        retention_ms = self.definition.retention_ms
        observed_ms = self._observed_ms if self.recorded_ms < 0 else self.recorded_ms
        earliest_ms = 0 if retention_ms is None else observed_ms - retention_ms + 1
        return [
            window_fields(row, self.definition)
            for window, row in sorted(self._newest.items(), key=lambda i: (i[0][0].encode(), i[0]))
            if not row.get("deleted") and self._clock_ms(window) >= earliest_ms
        ]

    def by_delta(self) -> list[dict[str, Any]]:
        """Return all visible windows from the rows of the table, which delta-rs reads."""
        rows = DeltaTable(self.directory).to_pyarrow_table()
        plain = rows.cast(pa.schema([
            pa.field(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type)
            for f in rows.schema
        ])).to_pylist()  # fmt: skip
        model = CompactedModel(self)
        for row in sorted(plain, key=lambda row: row["revision"]):
            model.put(row)
        return model.expected()

    def by_index(self, name: str = "built") -> list[dict[str, Any]]:
        """Return all visible windows from an index that is built from the newest version."""
        directory = IndexDirectory(self.data / name)
        generation = directory.new_generation()
        build_generation(self.directory, DeltaLog(self.directory).snapshot(), generation)
        directory.publish(generation)
        reader = IndexReader(directory)
        with reader.snapshot() as snapshot:
            if isinstance(snapshot, KeyValueSnapshot):
                pages = [snapshot.get(key) for key in snapshot.keys("", 1000).keys]
                windows = [orjson.loads(page) for page in pages if page is not None]
            else:
                assert isinstance(snapshot, WindowSnapshot)
                windows = [
                    orjson.loads(window)
                    for key in snapshot.keys("", 1000).keys
                    for window in snapshot.fetch(WindowRange(key, limit=1000)).windows
                ]
        reader.close()
        directory.remove()
        return windows

    def assert_unchanged(self) -> None:
        """Check that the table and a new index have the windows of the dictionary."""
        assert self.by_delta() == self.expected()
        assert self.by_index() == self.expected()

    def _put(self, row: Row) -> None:
        full = window_row(row, self.definition, self.batch)
        window = (full["key"], full.get("window_start", 0), full.get("window_end", 0))
        self._newest[window] = row
        self._observed_ms = max(self._observed_ms, self._clock_ms(window))

    def _clock_ms(self, window: Window) -> int:
        """Return the time that retention uses. The times of ``window`` are in microseconds."""
        _key, start, end = window
        return (end if self.definition.window.kind.expires_by_end else start) // 1000


class CompactedModel(CompactedTable):
    """The same dictionary, filled from the rows of a table instead of from batches."""

    def __init__(self, table: CompactedTable) -> None:
        """Use the definition of a table, without rows."""
        self.definition = table.definition
        self.batch = -1
        self.recorded_ms = table.recorded_ms
        self._newest = {}
        self._observed_ms = -1

    def put(self, row: Row) -> None:
        """Add a row with times in microseconds."""
        self._put({
            **row, "timestamp": row["timestamp"] // 1000,
            "start": row.get("window_start", 0) // 1000, "end": row.get("window_end", 0) // 1000,
        })  # fmt: skip
