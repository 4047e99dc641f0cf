"""The write side of a Delta table: make it, write its Parquet files, commit a batch.

Tasks write Parquet files into the table's folder and hand back add actions; the driver
commits all of a batch as one Delta transaction that also records (application, batch
id), so that a replayed batch is recognised. Nothing is visible before the commit.

Only plain Delta features are used (no column mapping, no deletion vectors, no table
features), so that Spark, delta-rs, DuckDB and Polars read the tables alike.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from oriel.storage.delta.log import LOG_FOLDER, entry_name, read_actions
from oriel.storage.errors import CorruptLog
from oriel.storage.files import sync_file, sync_folder
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: Versions between two Delta checkpoints; each costs a read of the whole file list.
CHECKPOINT_INTERVAL = 100

#: How many leading columns get statistics: key, window start and window end, which readers
#: filter by. A store without windows has its aggregates right after the key. These may be lists,
#: of which Delta has no statistics, so there only the key gets them.
_STATISTICS_COLUMNS = 3
_STATISTICS_COLUMNS_WITHOUT_WINDOWS = 1


@dataclass(frozen=True)
class AddedFile:
    """A Parquet file that a task wrote, not yet part of the table.

    ``path`` is relative to the table, ``size`` in bytes, ``stats`` Delta's statistics as JSON.
    """

    path: str
    size: int
    rows: int
    stats: str
    modified_ms: int

    def to_action(self) -> AddAction:
        """The Delta add action, of new rows."""
        return AddAction(
            self.path, self.size, {}, self.modified_ms, data_change=True, stats=self.stats
        )


def write_file(folder: Path, rows: pa.Table, name: str, *, sync: bool) -> AddedFile:
    """Write ``rows`` as one Parquet file into a table's folder.

    ``name`` becomes part of the file name; the file gets a unique suffix, so an attempt
    that is repeated never overwrites what another may have committed.
    """
    path = folder / f"{name}-{uuid.uuid4()}.parquet"
    # Texts repeat, a key as often as it has windows; numbers and times rarely do.
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    pq.write_table(rows, path, compression="zstd", compression_level=1, use_dictionary=texts)
    if sync:
        sync_file(path)
        sync_folder(folder)
    status = path.stat()
    modified_ms = status.st_mtime_ns // 1_000_000
    return AddedFile(path.name, status.st_size, len(rows), _statistics(rows), modified_ms)


class Table:
    """A Delta table that one application appends to."""

    def __init__(self, delta: DeltaTable, folder: Path, *, sync: bool) -> None:
        """Wrap a table that is open and whole; ``open_table`` sees to both."""
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

        Returns the new version. A commit without files is fine: it moves the position. With
        ``sync`` the entry is on disk when this returns; before that nothing is acknowledged.
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
            log = self._folder / LOG_FOLDER
            sync_file(log / entry_name(self._delta.version()))
            sync_folder(log)


def open_table(
    folder: Path, schema: pa.Schema, properties: Mapping[str, str], *, sync: bool
) -> Table:
    """Open the Delta table in ``folder``, making it first where there is none.

    A newest log entry that a power loss left empty or torn is moved aside: it was never
    acknowledged, so the batch it belonged to is committed again.

    Raises:
        CorruptLog: the log is damaged beyond its newest entry.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / LOG_FOLDER
    _set_aside_torn_entry(log)
    try:
        return Table(_open_existing(folder), folder, sync=sync)
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
        sync_file(log / entry_name(0))
        sync_folder(log)
        sync_folder(folder)
    return Table(delta, folder, sync=sync)


def _set_aside_torn_entry(log: Path) -> None:
    """Move the newest entry out of the log if it is torn, so that its batch is committed again.

    That loses nothing: an entry is forced to disk before its batch is acknowledged, and the
    next is written after that. So a power loss can tear the newest one only, and only one whose
    batch is still to be committed. Two torn entries are some other damage: nothing says what
    the older one held, so this is an error and never guessed around.
    """
    entries = sorted(log.glob("[0-9]*.json"))
    torn = [path for path in entries[-2:] if read_actions(path.read_bytes()) is None]
    if not entries or entries[-1] not in torn:
        return
    if len(entries) == 1 and not list(log.glob("*.parquet")):
        # Version 0 was never acknowledged: the table is made anew.
        entries[-1].unlink()
        return
    if len(torn) == 2:
        message = (
            f"two newest entries of {log} are damaged, {entries[-2].name} and "
            f"{entries[-1].name}: restore the table from a backup, or remove it together with "
            "its checkpoint and let the pipeline rebuild it from the log"
        )
        raise CorruptLog(message)
    # Renamed and not removed, so that somebody can look at it.
    entries[-1].rename(entries[-1].with_suffix(".json.torn"))


def _open_existing(folder: Path) -> DeltaTable:
    """Open a table that is there; without its Delta checkpoints if they are what is damaged."""
    try:
        return DeltaTable(folder)
    except TableNotFoundError:
        raise
    except DeltaError:
        log = folder / LOG_FOLDER
        # A checkpoint only saves reading: as long as every entry is there it isn't needed.
        if (log / entry_name(0)).exists():
            for path in [*log.glob("*.checkpoint*.parquet"), *log.glob("_last_checkpoint")]:
                path.rename(path.with_name(f"{path.name}.torn"))
    try:
        return DeltaTable(folder)
    except DeltaError as error:
        message = (
            f"the log of {folder} can't be read: {error}. Restore the table from a backup, or "
            "start anew with an empty data folder"
        )
        raise CorruptLog(message) from error


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
            least[name] = _statistics_value(bounds["min"])
            greatest[name] = _statistics_value(bounds["max"])
            nulls[name] = rows.column(name).null_count
    except OverflowError:
        # A window that ends after the year 9999, which the statistics can't say.
        return orjson.dumps({"numRecords": len(rows)}).decode()
    statistics = {
        "numRecords": len(rows), "minValues": least, "maxValues": greatest, "nullCount": nulls,
    }  # fmt: skip
    return orjson.dumps(statistics).decode()


def _statistics_value(bound: pa.Scalar) -> object:
    """Times as Delta's statistics write them (UTC, ms), the rest as it is.

    Raises:
        OverflowError: the time is after the year 9999.
    """
    value = bound.as_py()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value


def add_checkpoint(folder: Path) -> None:
    """Write a Delta checkpoint of the newest version, so that readers needn't read each entry.

    It reads the whole file list: for the time between batches, every ``CHECKPOINT_INTERVAL``.
    """
    DeltaTable(folder).create_checkpoint()
