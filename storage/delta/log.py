"""The Delta log of a store: entries one by one, or a whole version.

An entry, ``_delta_log/<version>.json``, has one JSON object (an *action*) per line. A power loss
can leave the newest entry empty or cut off (torn). It was not acknowledged, so the writer commits
its batch again. Reader and writer must agree on which entries are torn, so both call
``read_actions``. A reader that follows the log treats a torn entry as missing, because the writer
replaces it.

A follower reads one entry per batch: a small file, in well under a millisecond. A whole version is
read with delta-rs, which knows checkpoints. This is needed for the first build of an index, and
after a gap in the log.
"""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from oriel.storage.definition import STORE_PROPERTY, StoreDefinition
from oriel.storage.delta.data_files import RUN_TAG, file_digests
from oriel.storage.delta.entries import (
    TABLE_KEY,
    Action,
    damaged_entry,
    entry_content,
    entry_name,
    entry_version,
    first_action,
    missing_entry,
    read_actions,
)
from oriel.storage.delta.opening import LOG_DIRECTORY, open_verified
from oriel.storage.errors import CorruptLog, InvalidDefinition, StoreNotReady
from oriel.storage.files import FileIdentity, current_files
from oriel.storage.position import COMMIT_INFO_KEY, CommitRecord

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TableMetadata:
    """A ``metaData`` action.

    Attributes:
        table_id: The id of the table.
        definition_json: The store definition in the table's properties, or None.
        column_mapping: True if the columns have other names in the files than in the table.
    """

    table_id: str
    definition_json: str | None
    column_mapping: bool = False


@dataclass(frozen=True)
class LogEntry:
    """The changes that one version made to the table.

    Attributes:
        version: The version.
        digest: The digest of the entry's content.
        added: Files with new rows, as paths relative to the table.
        removes_rows: True if rows were removed, other than by compaction.
        metadata: The changed metadata, or None.
        record: The commit record with the position of the pipeline. Each batch has one, maintenance
            can repeat one, and commits of other programs do not have one (None).
        transactions: The batch that the entry commits, by application.
        restored: The version that a RESTORE went back to, or None.
        removed: Files that left the table, including by compaction.
        added_bytes: The size of the added files.
        committed_ms: The wall-clock time of the committer, or None if the entry does not have it.
        table_id: The table that Oriel wrote the entry for, or None for entries of other programs.
        digests: The digests of the added files that have one, by path.
    """

    version: int
    digest: str
    added: tuple[str, ...]
    removes_rows: bool
    metadata: TableMetadata | None
    record: CommitRecord | None
    transactions: Mapping[str, int] = field(default_factory=dict)
    restored: int | None = None
    removed: tuple[str, ...] = ()
    added_bytes: int = 0
    committed_ms: int | None = None
    table_id: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)

    def batch_of(self, application: str) -> int | None:
        """Return the batch of this application that the entry commits, or None.

        A store of format 1 does not have an application. For it, the commit record has the batch.
        """
        if application or self.record is None:
            return self.transactions.get(application)
        batch = self.record.batch
        return batch if batch in self.transactions.values() else None


def read_entry(path: Path, content: bytes) -> LogEntry | None:
    """Read the content of an entry's file, or return None if it is torn.

    Raises:
        CorruptLog: the entry is damaged.
    """
    version = entry_version(path)
    actions = read_actions(path, content)
    if actions is None:
        return None
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"] for action in actions if "remove" in action]
    # Compaction rewrites existing rows, so it sets dataChange to false.
    new = [add for add in adds if add.get("dataChange", True)]
    transactions = [action["txn"] for action in actions if "txn" in action]
    commit_info = first_action(actions, "commitInfo", {})
    return LogEntry(
        version=version,
        digest=hashlib.sha256(content).hexdigest(),
        added=tuple(file_in_table(add["path"]) for add in new),
        # A deletion vector means that rows of the file were deleted.
        removes_rows=any(remove.get("dataChange", True) for remove in removes)
        or any(add.get("deletionVector") for add in new),
        metadata=_table_metadata(first_action(actions, "metaData", None)),
        record=_commit_record(version, commit_info.get(COMMIT_INFO_KEY)),
        transactions={txn["appId"]: txn["version"] for txn in transactions},
        restored=_restored_version(commit_info),
        removed=tuple(unquote(remove["path"]) for remove in removes),
        added_bytes=sum(add.get("size") or 0 for add in new),
        committed_ms=commit_info.get("inCommitTimestamp", commit_info.get("timestamp")),
        table_id=commit_info.get(TABLE_KEY),
        digests=file_digests({file_in_table(add["path"]): add.get("tags") for add in new}),
    )


def file_in_table(path: str) -> str:
    """Return the path of a data file in its table, from the percent-encoded path in the log.

    Raises:
        CorruptLog: the path is outside of the table. Otherwise, a program that can only write the
            log could let the service read and serve any file. (Shallow clones of Delta have such
            paths.)
    """
    name = unquote(path)
    if name.startswith("/") or _SCHEME.match(path) or ".." in name.split("/"):
        message = (
            f"the log names a data file outside of the table, {name[:200]!r}, which is not read. "
            "Restore the table from a backup, or copy the rows of the file into the table with "
            "Spark"
        )
        raise CorruptLog(message)
    return name


def _table_metadata(metadata: Action | None) -> TableMetadata | None:
    if metadata is None:
        return None
    properties = metadata.get("configuration", {})
    return TableMetadata(
        metadata["id"], properties.get(STORE_PROPERTY), _has_column_mapping(properties)
    )


def _has_column_mapping(properties: Mapping[str, str | None]) -> bool:
    return (properties.get("delta.columnMapping.mode") or "none") != "none"


def _restored_version(commit_info: Action) -> int | None:
    """Return the version that a RESTORE went back to, or None for other operations.

    A RESTORE to a time does not name the version (Spark and delta-rs write null). Then the position
    of the newest batch counts, as after any other removal of rows.
    """
    if commit_info.get("operation") != "RESTORE":
        return None
    version = commit_info.get("operationParameters", {}).get("version")
    return None if version is None else int(version)


def _commit_record(version: int, record_json: str | None) -> CommitRecord | None:
    if record_json is None:
        return None
    try:
        return CommitRecord.from_json(record_json)
    except (TypeError, orjson.JSONDecodeError) as error:
        # The rows are still valid. The position stays at the last commit with a readable record.
        logger.warning("position of a commit not readable: version=%d. %s", version, error)
        return None


#: The start of a path with a scheme: `file:`, `s3://`.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ENTRY_NAME = re.compile(r"(\d{20})\.json")
_CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint\..*(?:parquet|json)")


@dataclass(frozen=True)
class TableSnapshot:
    """A whole version of a store's table.

    Attributes:
        version: The version.
        table_id: The id of the table.
        definition: The definition of the store.
        files: The files, as paths relative to the table.
        record: The last commit record of the pipeline at or before ``version``. It is None before
            the first commit, or if all entries with a record were deleted.
        digest: The digest of the version's log entry, or "" if only a Delta checkpoint has the
            version.
        batch: The last batch of the pipeline, which stays in the table when entries are deleted. It
            is -1 before the first batch.
        kept: Masks of the rows that are not deleted, for files with a deletion vector.
        adds: One row per file with its statistics, as ``DeltaTable.get_add_actions`` flattens them.
        digests: The digests of the files that have one, by path.
        runs: The runs of the files that have one, by path.
    """

    version: int
    table_id: str
    definition: StoreDefinition
    files: tuple[str, ...]
    record: CommitRecord | None
    digest: str
    batch: int = -1
    kept: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)
    adds: Any = field(default=None, compare=False)
    digests: Mapping[str, str] = field(default_factory=dict, compare=False)
    runs: Mapping[str, str] = field(default_factory=dict, compare=False)


class DeltaLog:
    """The log of one table."""

    def __init__(self, table: Path) -> None:
        """Follow the log of the table in this directory. Nothing is opened yet."""
        self.table = table
        self.directory = table / LOG_DIRECTORY

    def identity(self, version: int) -> FileIdentity | None:
        """Return the identity of a version's entry file, or None if it does not exist."""
        return current_files().identity(self._path(version))

    def checkpoint_identity(self) -> FileIdentity | None:
        """Return the identity of the pointer to the newest Delta checkpoint, or None."""
        return current_files().identity(self.directory / "_last_checkpoint")

    def read(self, version: int) -> LogEntry | None:
        """Read the entry of a version, or return None if it does not exist or is torn.

        Raises:
            CorruptLog: the entry is damaged.
        """
        path = self._path(version)
        try:
            content = entry_content(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return read_entry(path, content)

    def transactions(self, version: int) -> dict[str, int] | None:
        """Return the batch that a version commits, by application.

        Returns:
            The batches, or None if the entry does not exist or is torn.
        """
        path = self._path(version)
        try:
            actions = read_actions(path, entry_content(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if actions is None:
            return None
        return {txn["appId"]: txn["version"] for a in actions if (txn := a.get("txn"))}

    def versions(self) -> list[int]:
        """Return all versions that have their own file in the log, ascending."""
        return self._named(_ENTRY_NAME)

    def checkpoints(self) -> list[int]:
        """Return all versions that have a Delta checkpoint in the log, ascending."""
        return self._named(_CHECKPOINT_NAME)

    def newest(self) -> LogEntry | None:
        """Read the newest entry that is not torn, or return None."""
        return next(self._entries_newest_first(), None)

    def newest_record(self) -> CommitRecord | None:
        """Return the newest commit record of the pipeline, or None if no entry has one."""
        return next((entry.record for entry in self._entries_newest_first() if entry.record), None)

    def snapshot(self, version: int | None = None) -> TableSnapshot:
        """Read a whole version with delta-rs.

        Args:
            version: The version. None: the newest.

        Raises:
            StoreNotReady: the table does not exist yet.
            CorruptLog: the log can't be read.
            InvalidDefinition: the table is not a store of Oriel.
        """
        # delta-rs fails on a torn newest entry, so the version to read is explicit.
        entry = self.newest() if version is None else self.read(version)
        if version is None and entry is not None:
            version = entry.version
        try:
            delta, log_files = open_verified(self.table, version)
            metadata = delta.metadata()
            definition = read_definition(self.table, metadata.configuration.get(STORE_PROPERTY))
            _reject_column_mapping(self.table, metadata.configuration)
            adds = pa.table(delta.get_add_actions(flatten=True))
            batch = delta.transaction_version(definition.application)
            kept = _live_row_masks(delta)
        except TableNotFoundError as error:
            message = f"{self.table} has no Delta table yet. Start a pipeline that writes there"
            raise StoreNotReady(message) from error
        except DeltaError as error:
            first_line = str(error).partition("\n")[0]
            message = (
                f"the log of {self.table} cannot be read: {first_line}. Put the missing or "
                "damaged file back, or restore the table from a backup"
            )
            raise CorruptLog(message) from error
        recorded = self.last_entry_with_position(delta.version(), definition.application)
        self._reject_other_table(recorded, delta.version(), str(metadata.id))
        record = None if recorded is None else recorded.record
        tags = log_files.tags()
        return TableSnapshot(
            version=delta.version(),
            table_id=str(metadata.id),
            definition=definition,
            files=tuple(map(file_in_table, adds.column("path").to_pylist())),
            record=record,
            digest="" if entry is None else entry.digest,
            batch=max(-1 if batch is None else batch, -1 if record is None else record.batch),
            kept={unquote(path): mask for path, mask in kept.items()},
            adds=adds,
            digests=file_digests(tags),
            runs={path: each[RUN_TAG] for path, each in tags.items() if RUN_TAG in each},
        )

    def _reject_other_table(self, recorded: LogEntry | None, version: int, table_id: str) -> None:
        """Reject a commit record of another table, because delta-rs did not verify this entry.

        If another tool replaced the table later, the entry belongs to the earlier table.
        """
        if recorded is None or recorded.table_id in {None, table_id}:
            return
        later = map(self.read, range(recorded.version + 1, version + 1))
        if not any(entry is not None and entry.metadata is not None for entry in later):
            reason = f"it belongs to another table, {recorded.table_id}"
            raise damaged_entry(self._path(recorded.version), reason)

    def last_entry_with_position(self, version: int, application: str) -> LogEntry | None:
        """Return the entry with the last position of the pipeline at or before a version.

        Each batch has the position, and later entries of maintenance can repeat it. An entry of
        maintenance that lost a race for its version repeats an older position. So the entry with
        the highest batch counts. If several entries have this batch, the newest counts. Versions
        that a RESTORE undid are skipped.
        """
        last: tuple[int, LogEntry] | None = None
        for entry in self._entries_newest_first(version):
            if entry.version > version:
                continue
            if entry.restored is not None:
                version = entry.restored
            elif entry.record is not None:
                if last is None or entry.record.batch > last[0]:
                    last = entry.record.batch, entry
                if entry.batch_of(application) is not None:
                    break
        return None if last is None else last[1]

    def _path(self, version: int) -> Path:
        return self.directory / entry_name(version)

    def _named(self, pattern: re.Pattern[str]) -> list[int]:
        names = current_files().names(self.directory)
        return sorted({int(match[1]) for match in map(pattern.fullmatch, names) if match})

    def _entries_newest_first(self, newest: int | None = None) -> Iterator[LogEntry]:
        """Yield entries from ``newest`` down, without torn ones. None: from the newest version.

        Raises:
            CorruptLog: An entry is damaged or missing. Clean-up deletes the oldest entries first.
                In earlier versions, it kept the one with the position, before a gap.
        """
        versions = self.versions()
        upper: int | None = None
        for index, version in reversed(list(enumerate(versions))):
            if newest is not None and version > newest:
                continue
            if index and upper is not None and version < upper - 1:
                if self.identity(upper - 1) is None:
                    raise missing_entry(self.table, upper - 1)
                # A listing next to a writer can lack an entry.
                yield from self._entries_newest_first(upper - 1)
                return
            upper = version
            entry = self.read(version)
            if entry is not None:
                yield entry
            elif version != versions[-1] and self.identity(version) is not None:
                raise damaged_entry(self._path(version), "it is empty or cut off")


def _reject_column_mapping(table: Path, properties: Mapping[str, str | None]) -> None:
    if _has_column_mapping(properties):
        message = (
            f"{table} has column mapping, so the columns in its files have other names than in "
            "the store. Set delta.columnMapping.mode to 'none' and drop the feature columnMapping "
            "with Spark, or restore the table from a backup"
        )
        raise CorruptLog(message)


def _live_row_masks(delta: DeltaTable) -> dict[str, npt.NDArray[np.bool_]]:
    """Return the mask of the rows that are not deleted, for each file with a deletion vector."""
    if "deletionVectors" not in (delta.protocol().reader_features or []):
        return {}
    root = delta.table_uri.rstrip("/") + "/"
    masks = pa.table(delta.deletion_vectors())
    return {
        uri.as_py().removeprefix(root): mask.values.to_numpy(zero_copy_only=False)
        for uri, mask in zip(masks["filepath"], masks["selection_vector"], strict=True)
    }


def read_definition(table: Path, definition_json: str | None) -> StoreDefinition:
    """Read the store definition from a table's property.

    Raises:
        InvalidDefinition: the definition is missing or can't be read.
    """
    if definition_json is None:
        message = f"{table.name} has no table property {STORE_PROPERTY}, so Oriel did not create it"
        raise InvalidDefinition(message)
    return StoreDefinition.from_json(definition_json)
