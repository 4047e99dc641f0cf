"""The write side of a Delta table: make it, and commit batches to it.

Tasks write Parquet files into the table's folder (``data_files``) and hand back what they are;
the driver commits all of a batch as one Delta transaction that also records (application, batch
id), so that a replayed batch is recognised. Nothing is visible before the commit.

delta-rs makes, opens and checkpoints tables. A batch's entry is written here: delta-rs reads the
list of all files and lists the log for each commit (docs/decisions/0025).

Only plain Delta features are used (no column mapping, no deletion vectors, no table
features), so that Spark, delta-rs, DuckDB and Polars read the tables alike.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from oriel.storage.delta.data_files import AddedFile, statistics_columns
from oriel.storage.delta.log import Action, DeltaLog, entry_name, read_actions
from oriel.storage.delta.opening import LOG_FOLDER, open_delta
from oriel.storage.delta.retention import (
    DELETED_FILE_RETENTION,
    DELETED_FILE_RETENTION_MS,
    EXPIRED_LOG_CLEANUP,
    LOG_RETENTION,
    LOG_RETENTION_MS,
    interval,
)
from oriel.storage.errors import CorruptLog, ForeignCheckpoint
from oriel.storage.files import create_file, current_files, sync_file, sync_folder, uri
from oriel.storage.position import COMMIT_APPLICATION_KEY

#: Versions between two Delta checkpoints; each costs a read of the whole file list.
CHECKPOINT_INTERVAL = 100

#: The writer's version of Delta's protocol that knows no more than appends: what later ones ask
#: of a commit (constraints, column mapping, table features) is not done here.
_WRITER_VERSION = 2

_ONE_ENTRY = threading.RLock()


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
        self._version = -1
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
        delta = _open_existing(self._folder)
        delta.alter.set_table_properties({name: value}, raise_if_not_exists=False)
        self._taken_on_disk()

    def _taken_on_disk(self) -> None:
        """Start from what delta-rs has committed, once it is on disk."""
        self._take(_open_existing(self._folder))
        if self._sync:
            # Only an entry that is on disk is acknowledged.
            sync_file(self._log / entry_name(self._version))
            sync_folder(self._log)

    def add_columns(self, schema: pa.Schema) -> None:
        """Add the columns of ``schema`` that the table lacks, in a commit of their own.

        Rows that are there have null in them. Others may do the same at the same time.
        """
        for last in (False, True):
            delta = _open_existing(self._folder)
            known = {field.name for field in delta.schema().fields}
            fields = [f for f in Schema.from_arrow(schema).fields if f.name not in known]
            if not fields:
                break
            try:
                delta.alter.add_columns(fields)
                break
            except DeltaError:
                # Somebody else's commit was faster; it may have been this one.
                if last:
                    raise
        self._taken_on_disk()

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
        content = b"\n".join(map(orjson.dumps, actions))
        while True:
            self._follow()
            self._refuse_committed(application, batch)
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
        self._batches = {}

    def _follow(self) -> None:
        """Read the entries of others, if there are any: one look at a file that isn't there."""
        while True:
            try:
                content = current_files().read(self._log / entry_name(self._version + 1))
            except FileNotFoundError:
                break
            actions = read_actions(content)
            if actions is None:
                message = f"entry {self._version + 1} of {self._log} is damaged"
                raise CorruptLog(message)
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
        elif "protocol" in action:
            refuse_protocol(self._folder, action["protocol"]["minWriterVersion"])

    def _refuse_committed(self, application: str, batch: int) -> None:
        recorded = self._batches.get(application)
        if recorded is not None and recorded >= batch:
            message = (
                f"{self._folder} has batch {recorded} of application {application}, so batch "
                f"{batch} can't be committed: another process runs the same pipeline"
            )
            raise ForeignCheckpoint(message)


def create_entry(log: Path, version: int, content: bytes, *, sync: bool) -> None:
    """Write a version's entry, which is seen whole or not at all, and never overwritten.

    Raises:
        FileExistsError: somebody else has taken the version.
    """
    # Threads of one process would write one draft: batches, and the upkeep beside them.
    with _ONE_ENTRY:
        create_file(log / entry_name(version), content, sync=sync)


def refuse_protocol(folder: Path, writer_version: int) -> None:
    """Refuse a table with features that the writers of this room don't have.

    Raises:
        CorruptLog: it asks for a later version of Delta's writer protocol.
    """
    if writer_version > _WRITER_VERSION:
        message = (
            f"{folder} asks for version {writer_version} of Delta's writer protocol: a "
            f"feature was turned on that stores must not have, which are of version "
            f"{_WRITER_VERSION}. Restore the table from a backup, or start anew with an empty "
            "data folder"
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
    delta = DeltaTable.create(
        uri(folder),
        schema=schema,
        configuration={
            "delta.checkpointInterval": str(CHECKPOINT_INTERVAL),
            LOG_RETENTION: interval(LOG_RETENTION_MS),
            DELETED_FILE_RETENTION: interval(DELETED_FILE_RETENTION_MS),
            EXPIRED_LOG_CLEANUP: "false",
            "delta.dataSkippingNumIndexedCols": str(statistics_columns(schema)),
            **properties,
        },
        raise_if_key_not_exists=False,
    )
    if sync:
        sync_file(log / entry_name(0))
        sync_folder(log)
        sync_folder(folder)
    return Table(delta, folder, sync=sync)


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
    torn = [path for path in newest if read_actions(files.read(path)) is None]
    if not newest or newest[-1] not in torn:
        return
    if len(newest) == 1 and not any(name.endswith(".parquet") for name in files.names(log)):
        # Version 0 was never acknowledged: the table is made anew.
        files.delete(newest[-1])
        return
    if len(torn) == 2:
        message = (
            f"two newest entries of {log} are damaged, {newest[-2].name} and "
            f"{newest[-1].name}: restore the table from a backup, or remove it together with "
            "its checkpoint and let the pipeline rebuild it from the log"
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
        message = (
            f"the log of {folder} can't be read: {error}. Restore the table from a backup, or "
            "start anew with an empty data folder"
        )
        raise CorruptLog(message) from error


def add_checkpoint(folder: Path, version: int | None = None) -> None:
    """Write a Delta checkpoint of ``version`` (None: the newest), which saves reading each entry.

    It reads the whole file list: for the time between batches, every ``CHECKPOINT_INTERVAL``.
    Beside a writer ``version`` is needed: a listing of the log may miss an entry that comes while
    it runs and have a later one, which delta-rs takes for a gap.
    """
    open_delta(folder, version).create_checkpoint()
