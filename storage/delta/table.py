"""The write side of a Delta table: make it, write its Parquet files, commit a batch.

Tasks write Parquet files into the table's folder and hand back add actions; the driver
commits all of a batch as one Delta transaction that also records (application, batch
id), so that a replayed batch is recognised. Nothing is visible before the commit.

Only plain Delta features are used (no column mapping, no deletion vectors, no table
features), so that Spark, delta-rs, DuckDB and Polars read the tables alike.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from oriel.storage.delta.log import is_whole
from oriel.storage.errors import CorruptLog
from oriel.storage.files import sync_file, sync_folder
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: Versions between two Delta checkpoints; each costs a read of the whole file list.
CHECKPOINT_INTERVAL = 100

#: How many leading columns get statistics: key, window start and window end. A store without
#: windows has its aggregates right after the key, which may be lists: only the key gets them.
_STATISTICS_COLUMNS = 3
_STATISTICS_COLUMNS_WITHOUT_WINDOWS = 1

_LOG = "_delta_log"


@dataclass(frozen=True)
class AddedFile:
    """A Parquet file that a task wrote, not yet part of the table."""

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int

    def to_action(self) -> AddAction:
        """The Delta add action."""
        return AddAction(
            self.path, self.size, {}, self.modified_ms, data_change=True, stats=self.stats
        )


def write_file(folder: Path, rows: pa.Table, name: str, *, sync: bool) -> AddedFile:
    """Write ``rows`` as one Parquet file into a table's folder.

    ``name`` becomes part of the file name; the file gets a unique suffix, so an attempt
    that is repeated never overwrites what another may have committed.
    """
    path = folder / f"{name}-{uuid.uuid4()}.parquet"
    dictionaries = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    pq.write_table(rows, path, compression="zstd", compression_level=1, use_dictionary=dictionaries)
    if sync:
        sync_file(path)
        sync_folder(folder)
    status = path.stat()
    modified_ms = status.st_mtime_ns // 1_000_000
    return AddedFile(path.name, status.st_size, len(rows), _statistics(rows), modified_ms)


class Table:
    """A Delta table that one application appends to."""

    def __init__(self, delta: DeltaTable, folder: Path, *, sync: bool) -> None:
        """Use ``open_table`` instead."""
        self._delta = delta
        self._folder = folder
        self._sync = sync

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties as last read."""
        return dict(self._delta.metadata().configuration)

    @property
    def version(self) -> int:
        """The version that was last read or written."""
        return self._delta.version()

    def set_property(self, name: str, value: str) -> None:
        """Change one table property, as a commit of its own."""
        self._delta.alter.set_table_properties({name: value}, raise_if_not_exists=False)
        self._delta.update_incremental()
        self._sync_entry()

    def recorded_batch(self, application: str) -> int | None:
        """The last batch id that ``application`` committed here, None before the first."""
        self._delta.update_incremental()
        return self._delta.transaction_version(application)

    def commit(
        self, files: Sequence[AddedFile], application: str, batch: int, info: Mapping[str, Any]
    ) -> int:
        """Append ``files`` in one transaction that records (application, batch) and ``info``.

        Returns the new version. A commit without files is fine: it moves the position.
        """
        self._delta.create_write_transaction(
            [file.to_action() for file in files],
            mode="append",
            schema=self._delta.schema(),
            commit_properties=CommitProperties(
                custom_metadata={**info, COMMIT_APPLICATION_KEY: application},
                app_transactions=[Transaction(application, batch)],
            ),
            # The hook would checkpoint while the batch waits; see add_checkpoint().
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=False, cleanup_expired_logs=False
            ),
        )
        self._delta.update_incremental()
        self._sync_entry()
        return self._delta.version()

    def _sync_entry(self) -> None:
        """Force the entry just written to disk: only then is it acknowledged."""
        if self._sync:
            sync_file(self._folder / _LOG / f"{self._delta.version():020d}.json")
            sync_folder(self._folder / _LOG)


def open_table(
    folder: Path, schema: pa.Schema, properties: Mapping[str, str], *, sync: bool
) -> Table:
    """Open the Delta table in ``folder``, making it first where there is none.

    A newest log entry that a power loss left empty or torn is moved aside: it was never
    acknowledged, so the batch it belonged to is committed again.

    Raises:
        CorruptLog: the newest entry is torn and there is no version before it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _set_aside_torn_entry(folder / _LOG)
    try:
        return Table(_opened(folder), folder, sync=sync)
    except TableNotFoundError:
        pass
    delta = DeltaTable.create(
        folder,
        schema=schema,
        configuration={
            "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
            "delta.dataSkippingNumIndexedCols": str(_statistics_columns(schema)),
            **properties,
        },
        raise_if_key_not_exists=False,
    )
    if sync:
        sync_file(folder / _LOG / f"{0:020d}.json")
        sync_folder(folder / _LOG)
        sync_folder(folder)
    return Table(delta, folder, sync=sync)


def _opened(folder: Path) -> DeltaTable:
    """Open a table that is there; without its Delta checkpoints if they are what is damaged."""
    try:
        return DeltaTable(folder)
    except TableNotFoundError:
        raise
    except DeltaError:
        _set_aside_checkpoints(folder / _LOG)
    try:
        return DeltaTable(folder)
    except DeltaError as error:
        message = (
            f"the log of {folder} can't be read: {error}. Restore the table from a backup, or "
            "start anew with an empty data folder"
        )
        raise CorruptLog(message) from error


def _set_aside_checkpoints(log: Path) -> None:
    """A Delta checkpoint only saves reading: as long as every entry is there it isn't needed."""
    if not (log / f"{0:020d}.json").exists():
        return
    for path in [*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")]:
        path.rename(path.with_name(f"{path.name}.torn"))


def _set_aside_torn_entry(log: Path) -> None:
    entries = sorted(log.glob("[0-9]*.json"))
    if not entries or _is_whole(entries[-1]):
        return
    if len(entries) == 1 and not list(log.glob("*.parquet")):
        # Version 0 was never acknowledged: the table is made anew.
        entries[-1].unlink()
        return
    if len(entries) > 1 and not _is_whole(entries[-2]):
        message = (
            f"two newest entries of {log} are damaged, {entries[-2].name} and "
            f"{entries[-1].name}: restore the table from a backup, or remove it together with "
            "its checkpoint and let the pipeline rebuild it from the log"
        )
        raise CorruptLog(message)
    entries[-1].rename(entries[-1].with_suffix(".json.torn"))


def _is_whole(entry: Path) -> bool:
    """Whether a log entry has all of its lines."""
    try:
        return is_whole([json.loads(line) for line in entry.read_bytes().splitlines()])
    except ValueError:
        return False


def _statistics_columns(schema: pa.Schema) -> int:
    key_alone = schema.names[0] == "key" and "window_start" not in schema.names
    return _STATISTICS_COLUMNS_WITHOUT_WINDOWS if key_alone else _STATISTICS_COLUMNS


def _statistics(rows: pa.Table) -> str:
    """Delta's file statistics: row count, and least and greatest of the leading columns.

    The bounds are whole, however long a key is, and of all columns or of none: a reader
    that finds one column without bounds may skip the file (delta-rs does).
    """
    least, greatest, nulls = {}, {}, {}
    try:
        for name in rows.column_names[: _statistics_columns(rows.schema)]:
            bounds = pc.min_max(rows.column(name))
            least[name] = _stat_value(bounds["min"])
            greatest[name] = _stat_value(bounds["max"])
            nulls[name] = rows.column(name).null_count
    except OverflowError:
        # A window that ends after the year 9999, which the statistics can't say.
        return json.dumps({"numRecords": len(rows)})
    bounds = {"minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps({"numRecords": len(rows), **bounds})


def _stat_value(bound: pa.Scalar) -> object:
    """Times as Delta's statistics write them, the rest as it is.

    Raises:
        OverflowError: the time is after the year 9999.
    """
    value = bound.as_py()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value


def add_checkpoint(folder: Path) -> None:
    """Write a Delta checkpoint, so that readers needn't read each log entry."""
    DeltaTable(folder).create_checkpoint()
