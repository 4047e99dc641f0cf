"""The write side of a Delta table: create it, and commit batches to it.

Tasks write Parquet files to the directory of the table (``data_files``) and return their names and
statistics. The driver commits all files of a batch in one Delta transaction. It also records
(application, batch id), so a repeated batch is recognized. Nothing is visible before the commit.

delta-rs opens tables and writes their checkpoints. The entries of the log are written here, because
delta-rs reads the list of all files and lists the log for each commit (docs/decisions/0025).

Only plain Delta features are used (no column mapping, no deletion vectors, no table features), so
that Spark, delta-rs, DuckDB and Polars read the same rows.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from oriel.storage.delta.data_files import AddedFile, statistics_columns
from oriel.storage.delta.entries import (
    Action,
    create_entry,
    damaged_entry,
    entry_content,
    entry_name,
    read_actions,
    read_actions_of_table,
    sealed_entry,
)
from oriel.storage.delta.log import DeltaLog
from oriel.storage.delta.opening import (
    LOG_DIRECTORY,
    DamagedCheckpoint,
    digest_path,
    log_files,
    open_delta,
    record_checkpoint,
)
from oriel.storage.delta.replacement import change_metadata, changed_metadata, create_table
from oriel.storage.delta.retention import (
    DELETED_FILE_RETENTION,
    DELETED_FILE_RETENTION_MS,
    EXPIRED_LOG_CLEANUP,
    LOG_RETENTION,
    LOG_RETENTION_MS,
    interval,
)
from oriel.storage.errors import CorruptLog, ForeignCheckpoint
from oriel.storage.files import current_files
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: Versions between two Delta checkpoints. Each checkpoint needs a read of the whole file list.
CHECKPOINT_INTERVAL = 100

#: The version of Delta's writer protocol that only knows appends. These writers do not implement
#: the features of later versions (constraints, column mapping, table features).
_WRITER_VERSION = 2


class Table:
    """A Delta table that one application appends to.

    Other processes can commit to it as well. For example, pipelines share the dead-letter table,
    and any program can compact. So every existing version is read before the next one is written.
    """

    def __init__(self, delta: DeltaTable, directory: Path, *, sync: bool) -> None:
        """Use an open table. Call ``open_table`` to open or create one.

        Raises:
            CorruptLog: the table has features that this writer does not have.
        """
        self._directory = directory
        self._log = directory / LOG_DIRECTORY
        self._sync = sync
        #: The table as delta-rs has read it, with the list of all files. None after the first
        #: commit.
        self._opened: DeltaTable | None = None
        #: Application -> its last batch, for applications that were requested or seen.
        self._batches: dict[str, int | None] = {}
        self._properties: Mapping[str, str] = {}
        self._version, self._table_id = -1, ""
        self._take(delta)

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties as last read."""
        return self._properties

    @property
    def version(self) -> int:
        """The version that was last read or written."""
        return self._version

    def set_property(self, name: str, value: str) -> None:
        """Change one table property in its own commit."""
        while True:
            delta = _open_existing(self._directory)
            metadata = changed_metadata(delta, {name: value})
            if self._change(delta, metadata, "SET TBLPROPERTIES"):
                return

    def _change(self, delta: DeltaTable, metadata: Action, operation: str) -> bool:
        """Commit changed metadata. Return False if another process was faster."""
        try:
            change_metadata(self._directory, delta, metadata, operation, sync=self._sync)
        except FileExistsError:
            return False
        self._take(_open_existing(self._directory))
        return True

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns of ``schema`` that the table does not have, in their own commit.

        Existing rows have null in them. Other processes can add the same columns at the same time.
        """
        while True:
            delta = _open_existing(self._directory)
            known = delta.schema().fields
            names = {field.name for field in known}
            fields = [f for f in Schema.from_arrow(schema).fields if f.name not in names]
            if not fields:
                self._take(delta)
                return
            metadata = changed_metadata(delta, {}, Schema([*known, *fields]))
            if self._change(delta, metadata, "ADD COLUMN"):
                return

    def recorded_batch(self, application: str) -> int | None:
        """Return the last batch id that ``application`` committed to the table, or None."""
        self._follow()
        if application not in self._batches:
            delta = self._opened or _open_existing(self._directory)
            self._batches[application] = delta.transaction_version(application)
        return self._batches[application]

    def commit(
        self, files: Sequence[AddedFile], application: str, batch: int, info: Mapping[str, Any]
    ) -> int:
        """Append files in one transaction and return the new version.

        A commit without files only moves the position. With ``sync``, the entry is on disk when
        this method returns. Before that, nothing is acknowledged.

        Args:
            files: The files.
            application: The application that commits.
            batch: The batch to record.
            info: Fields of ``commitInfo``.

        Raises:
            ForeignCheckpoint: the table has this batch of the application, or a later one.
        """
        commit_info = {
            "timestamp": time.time_ns() // 1_000_000,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": "[]"},
            "isBlindAppend": True,
            "engineInfo": "oriel",
            **info,
            COMMIT_APPLICATION_KEY: application,
        }
        actions: list[Action] = [
            {"commitInfo": commit_info},
            *(file.to_action() for file in files),
            # This must be the last line: an entry without it was cut off (see read_actions).
            {"txn": {"appId": application, "version": batch}},
        ]
        while True:
            self._follow()
            self._reject_committed(application, batch)
            content = sealed_entry(actions, self._version + 1, self._table_id)
            try:
                create_entry(self._log, self._version + 1, content, sync=self._sync)
                break
            except FileExistsError:
                # Another process was faster. The appended rows do not depend on its rows, so they
                # are committed after them.
                continue
        self._version += 1
        self._batches[application] = batch
        self._opened = None
        return self._version

    def _take(self, delta: DeltaTable) -> None:
        """Start from the version that delta-rs has read."""
        reject_protocol(self._directory, delta.protocol().min_writer_version)
        self._opened = delta
        self._version = delta.version()
        self._properties = dict(delta.metadata().configuration)
        self._table_id = str(delta.metadata().id)
        self._batches = {}

    def _follow(self) -> None:
        """Read the entries of other writers. Without any, this is one lookup of a missing file."""
        while True:
            path = self._log / entry_name(self._version + 1)
            try:
                _, actions = read_actions_of_table(path, self._table_id)
            except FileNotFoundError:
                break
            if actions is None:
                raise damaged_entry(path, "it is empty or cut off")
            self._version += 1
            for action in actions:
                self._apply(action)
        if not current_files().exists(self._log / entry_name(self._version)):
            # Old entries are deleted once a Delta checkpoint has their content. If this one was
            # deleted, later ones can be deleted also, and the next version is unknown.
            self._take(_open_existing(self._directory))

    def _apply(self, action: Action) -> None:
        if "txn" in action:
            self._batches[action["txn"]["appId"]] = action["txn"]["version"]
        elif "metaData" in action:
            self._properties = action["metaData"].get("configuration", {})
            self._table_id = str(action["metaData"]["id"])
        elif "protocol" in action:
            reject_protocol(self._directory, action["protocol"]["minWriterVersion"])

    def _reject_committed(self, application: str, batch: int) -> None:
        recorded = self._batches.get(application)
        if recorded is not None and recorded >= batch:
            message = (
                f"{self._directory} has batch {recorded} of application {application}, so batch "
                f"{batch} cannot be committed. Another process runs the same pipeline. "
                "Stop it first"
            )
            raise ForeignCheckpoint(message)


def reject_protocol(directory: Path, writer_version: int) -> None:
    """Reject a table with features that these writers do not have.

    Raises:
        CorruptLog: the table requires a later version of Delta's writer protocol.
    """
    if writer_version > _WRITER_VERSION:
        message = (
            f"{directory} requires version {writer_version} of Delta's writer protocol, but stores "
            f"must have version {_WRITER_VERSION}, so a feature was turned on. Restore the table "
            "from a backup, or start with an empty data directory"
        )
        raise CorruptLog(message)


def open_table(
    directory: Path, schema: pa.Schema, properties: Mapping[str, str], *, sync: bool
) -> Table:
    """Open the Delta table in ``directory``. If it does not exist, create it.

    If a power loss left the newest log entry empty or torn, the entry is renamed. It was never
    acknowledged, so its batch is committed again.

    Raises:
        CorruptLog: an entry other than the newest is damaged, or the table has features that stores
            must not have.
    """
    current_files().make_directory(directory, sync=False)
    log = directory / LOG_DIRECTORY
    _rename_torn_entry(log)
    try:
        return Table(_open_existing(directory), directory, sync=sync)
    except TableNotFoundError:
        pass
    all_properties = {
        "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
        LOG_RETENTION: interval(LOG_RETENTION_MS),
        DELETED_FILE_RETENTION: interval(DELETED_FILE_RETENTION_MS),
        EXPIRED_LOG_CLEANUP: "false",
        "delta.dataSkippingNumIndexedCols": str(statistics_columns(schema)),
        **properties,
    }
    current_files().make_directory(log, sync=sync)
    with suppress(FileExistsError):
        create_table(directory, schema, all_properties, sync=sync)
    return Table(_open_existing(directory), directory, sync=sync)


def existing_table(directory: Path, *, sync: bool) -> Table:
    """Open an existing table.

    Raises:
        CorruptLog: the log can't be read, or the table has features that stores must not have.
        TableNotFoundError: the table does not exist.
    """
    return Table(_open_existing(directory), directory, sync=sync)


def _rename_torn_entry(log: Path) -> None:
    """Rename the newest entry if it is torn, so that its batch is committed again.

    This loses nothing. An entry is forced to disk before its batch is acknowledged, and the next
    entry is written after that. So a power loss can only tear the newest entry, whose batch is not
    acknowledged. Two torn entries show other damage. The content of the older one is unknown, so
    this is an error.
    """
    files = current_files()
    newest = [log / entry_name(version) for version in DeltaLog(log.parent).versions()[-2:]]
    torn = [path for path in newest if read_actions(path, entry_content(path)) is None]
    if not newest or newest[-1] not in torn:
        return
    if len(newest) == 1 and not any(name.endswith(".parquet") for name in files.names(log)):
        # Version 0 was never acknowledged, so the table is created again.
        files.delete(newest[-1])
        return
    if len(torn) == 2:
        message = (
            f"the two newest entries of {log} are damaged, {newest[-2].name} and "
            f"{newest[-1].name}. Restore the table from a backup, or remove the table and its "
            "checkpoint and let the pipeline rebuild it from the log"
        )
        raise CorruptLog(message)
    _rename_damaged(newest[-1])


def _rename_damaged(path: Path) -> None:
    """Rename a file instead of deleting it, so that an operator can examine it."""
    files, torn_copy = current_files(), path.with_name(f"{path.name}.torn")
    files.delete(torn_copy)
    files.copy(path, torn_copy, sync=False)
    files.delete(path)


def _open_existing(directory: Path) -> DeltaTable:
    """Open an existing table, without its Delta checkpoints if only they are damaged."""
    try:
        return open_delta(directory)
    except TableNotFoundError:
        raise
    except DamagedCheckpoint as damaged:
        try:
            log_files(directory, None, ignored=damaged.version)
        except CorruptLog:
            # Only the checkpoint has some of the entries.
            raise damaged from None
        _rename_checkpoint(directory / LOG_DIRECTORY, damaged.version)
    except DeltaError:
        log, files = directory / LOG_DIRECTORY, current_files()
        # A checkpoint only saves reads. If every entry exists, it is not needed.
        if files.exists(log / entry_name(0)):
            for name in files.names(log):
                if fnmatch(name, "*.checkpoint*.parquet") or name == "_last_checkpoint":
                    _rename_damaged(log / name)
    try:
        return open_delta(directory)
    except DeltaError as error:
        first_line = str(error).partition("\n")[0][:200]
        message = (
            f"the log of {directory} cannot be read: {first_line}. Restore the table from a "
            "backup, or start with an empty data directory"
        )
        raise CorruptLog(message) from error


def _rename_checkpoint(log: Path, version: int) -> None:
    """Rename a version's checkpoint, and delete the files that refer to it."""
    with suppress(FileNotFoundError):
        _rename_damaged(log / f"{version:020d}.checkpoint.parquet")
    current_files().delete(log / "_last_checkpoint")
    current_files().delete(digest_path(log, version))


def add_checkpoint(directory: Path, version: int | None = None) -> None:
    """Write a Delta checkpoint, which saves reading each entry.

    It reads the whole file list, so write it between batches, every ``CHECKPOINT_INTERVAL``
    versions.

    Args:
        directory: The directory of the table.
        version: The version. None: the newest. Set it if other writers can commit at the same time,
            because a listing of the log can miss an entry and have a later one. delta-rs treats
            this as a gap.
    """
    delta = open_delta(directory, version)
    log = directory / LOG_DIRECTORY
    current_files().delete(digest_path(log, delta.version()))
    delta.create_checkpoint()
    record_checkpoint(log, delta.version())
