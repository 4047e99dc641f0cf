"""The write side of a Delta table: make it, and commit batches to it.

Tasks write Parquet files into the table's folder (``data_files``) and hand back what they are;
the driver commits all of a batch as one Delta transaction that also records (application, batch
id), so that a replayed batch is recognised. Nothing is visible before the commit.

delta-rs makes, opens and checkpoints tables. A batch's entry is written here: delta-rs reads the
list of all files and lists the log for each commit (docs/decisions/0025).

Only plain Delta features are used (no column mapping, no deletion vectors, no table
features), so that Spark, delta-rs, DuckDB and Polars read the tables alike.
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
    TABLE_KEY,
    Action,
    create_entry,
    damaged_entry,
    entry_content,
    entry_name,
    first_action,
    read_actions,
    sealed_entry,
)
from oriel.storage.delta.log import DeltaLog
from oriel.storage.delta.opening import (
    LOG_FOLDER,
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

#: Versions between two Delta checkpoints; each costs a read of the whole file list.
CHECKPOINT_INTERVAL = 100

#: The writer's version of Delta's protocol that knows no more than appends: what later ones ask
#: of a commit (constraints, column mapping, table features) is not done here.
_WRITER_VERSION = 2


class Table:
    """A Delta table that one application appends to.

    Others may commit to it as well: pipelines share the dead-letter table, and anybody may
    compact. So every version that is there is read before the next one is written.
    """

    def __init__(self, delta: DeltaTable, folder: Path, *, sync: bool) -> None:
        """Wrap a table that is open and whole; ``open_table`` sees to both.

        Raises:
            CorruptLog: the table has features that this writer doesn't have.
        """
        self._folder = folder
        self._log = folder / LOG_FOLDER
        self._sync = sync
        #: What delta-rs has read, with the list of all files: until the first commit.
        self._opened: DeltaTable | None = None
        #: Application -> its last batch, as far as it was asked for or seen.
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
        """Change one table property, as a commit of its own."""
        while True:
            delta = _open_existing(self._folder)
            metadata = changed_metadata(delta, {name: value})
            if self._change(delta, metadata, "SET TBLPROPERTIES"):
                return

    def _change(self, delta: DeltaTable, metadata: Action, operation: str) -> bool:
        """Commit changed metadata; False if another process was faster."""
        try:
            change_metadata(self._folder, delta, metadata, operation, sync=self._sync)
        except FileExistsError:
            return False
        self._take(_open_existing(self._folder))
        return True

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns of ``schema`` that the table lacks, in a commit of their own.

        Rows that are there have null in them. Others may do the same at the same time.
        """
        while True:
            delta = _open_existing(self._folder)
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
        """The last batch id that ``application`` committed here, None before the first."""
        self._follow()
        if application not in self._batches:
            delta = self._opened or _open_existing(self._folder)
            self._batches[application] = delta.transaction_version(application)
        return self._batches[application]

    def commit(
        self, files: Sequence[AddedFile], application: str, batch: int, info: Mapping[str, Any]
    ) -> int:
        """Append ``files`` in one transaction that records (application, batch) and ``info``.

        Returns the new version. A commit without files is fine: it moves the position. With
        ``sync`` the entry is on disk when this returns; before that nothing is acknowledged.

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
            # The last line: an entry without it was cut off (see read_actions).
            {"txn": {"appId": application, "version": batch}},
        ]
        while True:
            self._follow()
            self._refuse_committed(application, batch)
            content = sealed_entry(actions, self._version + 1, self._table_id)
            try:
                create_entry(self._log, self._version + 1, content, sync=self._sync)
                break
            except FileExistsError:
                # Somebody was faster. What is appended here depends on no row of theirs, so it
                # comes after them.
                continue
        self._version += 1
        self._batches[application] = batch
        self._opened = None
        return self._version

    def _take(self, delta: DeltaTable) -> None:
        """Start from the version that delta-rs has read."""
        refuse_protocol(self._folder, delta.protocol().min_writer_version)
        self._opened = delta
        self._version = delta.version()
        self._properties = dict(delta.metadata().configuration)
        self._table_id = str(delta.metadata().id)
        self._batches = {}

    def _follow(self) -> None:
        """Read the entries of others, if there are any: one look at a file that isn't there."""
        while True:
            path = self._log / entry_name(self._version + 1)
            try:
                content = entry_content(path)
            except FileNotFoundError:
                break
            actions = read_actions(path, content)
            if actions is None:
                raise damaged_entry(path, "it is empty or cut off")
            if first_action(actions, "commitInfo", {}).get(TABLE_KEY) not in {None, self._table_id}:
                raise damaged_entry(path, "it belongs to another table")
            self._version += 1
            for action in actions:
                self._apply(action)
        if not current_files().exists(self._log / entry_name(self._version)):
            # Old entries go once a Delta checkpoint has what they say. If this one went, those
            # behind it may have gone too, and the number of the next one isn't known.
            self._take(_open_existing(self._folder))

    def _apply(self, action: Action) -> None:
        if "txn" in action:
            self._batches[action["txn"]["appId"]] = action["txn"]["version"]
        elif "metaData" in action:
            self._properties = action["metaData"].get("configuration", {})
            self._table_id = str(action["metaData"]["id"])
        elif "protocol" in action:
            refuse_protocol(self._folder, action["protocol"]["minWriterVersion"])

    def _refuse_committed(self, application: str, batch: int) -> None:
        recorded = self._batches.get(application)
        if recorded is not None and recorded >= batch:
            message = (
                f"{self._folder} has batch {recorded} of application {application}, so batch "
                f"{batch} cannot be committed. Another process runs the same pipeline. "
                "Stop it first"
            )
            raise ForeignCheckpoint(message)


def refuse_protocol(folder: Path, writer_version: int) -> None:
    """Refuse a table with features that the writers of this room don't have.

    Raises:
        CorruptLog: it asks for a later version of Delta's writer protocol.
    """
    if writer_version > _WRITER_VERSION:
        message = (
            f"{folder} requires version {writer_version} of Delta's writer protocol, but stores "
            f"must have version {_WRITER_VERSION}, so a feature was turned on. Restore the table "
            "from a backup, or start with an empty data directory"
        )
        raise CorruptLog(message)


def open_table(
    folder: Path, schema: pa.Schema, properties: Mapping[str, str], *, sync: bool
) -> Table:
    """Open the Delta table in ``folder``, making it first where there is none.

    A newest log entry that a power loss left empty or torn is moved aside: it was never
    acknowledged, so the batch it belonged to is committed again.

    Raises:
        CorruptLog: the log is damaged beyond its newest entry, or the table has features that
            stores must not have.
    """
    current_files().make_folder(folder, sync=False)
    log = folder / LOG_FOLDER
    _set_aside_torn_entry(log)
    try:
        return Table(_open_existing(folder), folder, sync=sync)
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
    current_files().make_folder(log, sync=sync)
    with suppress(FileExistsError):
        create_table(folder, schema, all_properties, sync=sync)
    return Table(_open_existing(folder), folder, sync=sync)


def existing_table(folder: Path, *, sync: bool) -> Table:
    """Open a table that is there.

    Raises:
        CorruptLog: its log can't be read, or it has features that stores must not have.
        TableNotFoundError: there is none.
    """
    return Table(_open_existing(folder), folder, sync=sync)


def _set_aside_torn_entry(log: Path) -> None:
    """Move the newest entry out of the log if it is torn, so that its batch is committed again.

    That loses nothing: an entry is forced to disk before its batch is acknowledged, and the
    next is written after that. So a power loss can tear the newest one only, and only one whose
    batch is still to be committed. Two torn entries are some other damage: nothing says what
    the older one held, so this is an error and never guessed around.
    """
    files = current_files()
    newest = [log / entry_name(version) for version in DeltaLog(log.parent).versions()[-2:]]
    torn = [path for path in newest if read_actions(path, entry_content(path)) is None]
    if not newest or newest[-1] not in torn:
        return
    if len(newest) == 1 and not any(name.endswith(".parquet") for name in files.names(log)):
        # Version 0 was never acknowledged: the table is made again.
        files.delete(newest[-1])
        return
    if len(torn) == 2:
        message = (
            f"the two newest entries of {log} are damaged, {newest[-2].name} and "
            f"{newest[-1].name}. Restore the table from a backup, or remove the table and its "
            "checkpoint and let the pipeline rebuild it from the log"
        )
        raise CorruptLog(message)
    _set_aside(newest[-1])


def _set_aside(path: Path) -> None:
    """Give a file another name, and don't delete it, so that somebody can look at it."""
    files, aside = current_files(), path.with_name(f"{path.name}.torn")
    files.delete(aside)
    files.copy(path, aside, sync=False)
    files.delete(path)


def _open_existing(folder: Path) -> DeltaTable:
    """Open a table that is there; without its Delta checkpoints if they are what is damaged."""
    try:
        return open_delta(folder)
    except TableNotFoundError:
        raise
    except DamagedCheckpoint as damaged:
        try:
            log_files(folder, None, ignored=damaged.version)
        except CorruptLog:
            # Entries that only the checkpoint has.
            raise damaged from None
        _set_aside_checkpoint(folder / LOG_FOLDER, damaged.version)
    except DeltaError:
        log, files = folder / LOG_FOLDER, current_files()
        # A checkpoint only saves reading: as long as every entry is there it isn't needed.
        if files.exists(log / entry_name(0)):
            for name in files.names(log):
                if fnmatch(name, "*.checkpoint*.parquet") or name == "_last_checkpoint":
                    _set_aside(log / name)
    try:
        return open_delta(folder)
    except DeltaError as error:
        first_line = str(error).partition("\n")[0][:200]
        message = (
            f"the log of {folder} cannot be read: {first_line}. Restore the table from a backup, "
            "or start with an empty data directory"
        )
        raise CorruptLog(message) from error


def _set_aside_checkpoint(log: Path, version: int) -> None:
    """Set a version's checkpoint aside, with what refers to it."""
    with suppress(FileNotFoundError):
        _set_aside(log / f"{version:020d}.checkpoint.parquet")
    current_files().delete(log / "_last_checkpoint")
    current_files().delete(digest_path(log, version))


def add_checkpoint(folder: Path, version: int | None = None) -> None:
    """Write a Delta checkpoint of ``version`` (None: the newest), which saves reading each entry.

    It reads the whole file list: for the time between batches, every ``CHECKPOINT_INTERVAL``.
    Beside a writer ``version`` is needed: a listing of the log may miss an entry that comes while
    it runs and have a later one, which delta-rs takes for a gap.
    """
    delta = open_delta(folder, version)
    log = folder / LOG_FOLDER
    current_files().delete(digest_path(log, delta.version()))
    delta.create_checkpoint()
    record_checkpoint(log, delta.version())
