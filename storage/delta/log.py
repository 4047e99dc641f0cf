"""A store's Delta log: its entries one after the other, or a whole version at once.

An entry, ``_delta_log/<version>.json``, is one JSON object (an *action*) a line. A power loss may
leave the newest one empty or cut off; it was not acknowledged, so the writer commits its batch
again. Reader and writer must agree on which entries are torn: both ask here. Who follows the log
treats a torn entry as not there yet: the writer replaces it with a good one.

The follower reads the entry itself: that is one small file per batch and takes well under a
millisecond. A whole version (first build, gap in the log) is read by delta-rs, which knows
checkpoints.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from oriel.storage.definition import STORE_PROPERTY, StoreDefinition
from oriel.storage.errors import CorruptLog, InvalidDefinition, StoreNotReady
from oriel.storage.position import COMMIT_APPLICATION_KEY, COMMIT_INFO_KEY, CommitRecord

logger = logging.getLogger(__name__)

LOG_FOLDER = "_delta_log"

Action = dict[str, Any]


@dataclass(frozen=True)
class TableMetadata:
    """A ``metaData`` action: the table's id and our store definition as text, if it has one."""

    table_id: str
    definition_json: str | None


@dataclass(frozen=True)
class LogEntry:
    """What one version did to the table.

    ``added`` are files with new rows, as paths relative to the table. ``removes_rows`` is
    true when rows went away (not by compaction). ``record`` is the pipeline's word on the
    position, None for commits of others. ``digest`` identifies the entry's content.
    """

    version: int
    digest: str
    added: tuple[str, ...]
    removes_rows: bool
    metadata: TableMetadata | None
    record: CommitRecord | None


def entry_name(version: int) -> str:
    """The file name of a version's entry: 20 digits, so that names sort as versions do."""
    return f"{version:020d}.json"


def read_actions(content: bytes) -> list[Action] | None:
    """The actions of an entry, in its order; None when it is torn: empty or cut off."""
    try:
        actions = [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        return None
    if not actions or not all(isinstance(action, dict) for action in actions):
        return None
    # A cut between two lines leaves whole lines. Each commit of the pipeline ends with its txn
    # action, so without it lines are missing. A commit of others has no such mark: of these a
    # cut inside a line is noticed, one between two lines is not.
    is_ours = COMMIT_APPLICATION_KEY in _first(actions, "commitInfo", {})
    if is_ours and not any("txn" in action for action in actions):
        return None
    return actions


def read_entry(version: int, content: bytes) -> LogEntry | None:
    """Read the content of a version's file; None when it is torn.

    Raises:
        CorruptLog: the entry is whole but says what this version of Oriel can't read.
    """
    actions = read_actions(content)
    if actions is None:
        return None
    adds = [action["add"] for action in actions if "add" in action]
    if any(add.get("deletionVector") for add in adds):
        # The file has rows that are deleted: reading all of it would bring them back.
        message = f"version {version} uses deletion vectors, which stores must not have"
        raise CorruptLog(message)
    removes = [action["remove"] for action in actions if "remove" in action]
    metadata = _first(actions, "metaData", None)
    return LogEntry(
        version=version,
        digest=hashlib.sha256(content).hexdigest(),
        # Compaction rewrites rows that were there before, and says so: dataChange is false.
        added=tuple(unquote(add["path"]) for add in adds if add.get("dataChange", True)),
        removes_rows=any(remove.get("dataChange", True) for remove in removes),
        metadata=None
        if metadata is None
        else TableMetadata(metadata["id"], metadata.get("configuration", {}).get(STORE_PROPERTY)),
        record=_commit_record(version, _first(actions, "commitInfo", {}).get(COMMIT_INFO_KEY)),
    )


def _commit_record(version: int, record_json: str | None) -> CommitRecord | None:
    if record_json is None:
        return None
    try:
        return CommitRecord.from_json(record_json)
    except (TypeError, orjson.JSONDecodeError) as error:
        # The rows are still good; the position then stays at the last commit that says it.
        logger.warning("version %d has an unreadable position: %s", version, error)
        return None


def _first(actions: list[Action], name: str, default: Any) -> Any:
    """The first action of that name, which an entry has once at most."""
    return next((action[name] for action in actions if name in action), default)


_ENTRY_NAME = re.compile(r"(\d{20})\.json")

#: Identity of a log file: inode, modification time in ns, size in bytes.
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class TableSnapshot:
    """A whole version of a store's table: its files, as paths relative to it, and position.

    ``record`` is the last commit of the pipeline at or before ``version``, None before the
    first. ``digest`` is that of the version's log entry, "" when only a Delta checkpoint has it.
    """

    version: int
    table_id: str
    definition: StoreDefinition
    files: tuple[str, ...]
    record: CommitRecord | None
    digest: str


class DeltaLog:
    """The log of one table. All file effects of following it are in this class."""

    def __init__(self, table: Path) -> None:
        """Follow the log of the table in this folder; nothing is opened yet."""
        self.table = table
        self._folder = table / LOG_FOLDER

    def stamp(self, version: int) -> Stamp | None:
        """Identity of a version's file, None when there is no such file; one ``stat``."""
        try:
            status = self._path(version).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def read(self, version: int) -> LogEntry | None:
        """Read one version's entry; None when it isn't there or isn't whole (yet).

        Raises:
            CorruptLog: the entry is whole but says what this version of Oriel can't read.
        """
        try:
            content = self._path(version).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return read_entry(version, content)

    def transactions(self, version: int) -> dict[str, int] | None:
        """Application -> the batch that this version commits; None if it isn't there or whole."""
        try:
            actions = read_actions(self._path(version).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        if actions is None:
            return None
        return {txn["appId"]: txn["version"] for a in actions if (txn := a.get("txn"))}

    def versions(self) -> list[int]:
        """All versions that have a file of their own in the log, ascending."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - there may be very many
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(match[1]) for match in map(_ENTRY_NAME.fullmatch, names) if match)

    def newest(self) -> LogEntry | None:
        """Read the newest entry that is whole, None when there is none."""
        return next(self._backwards(), None)

    def newest_record(self) -> CommitRecord | None:
        """The pipeline's newest word on its position, None where no entry has one."""
        return next((entry.record for entry in self._backwards() if entry.record), None)

    def snapshot(self) -> TableSnapshot:
        """Read the newest whole version by way of delta-rs.

        Raises:
            StoreNotReady: there is no table yet.
            CorruptLog: the log can't be read.
            InvalidDefinition: the table is no store of ours.
        """
        # delta-rs takes a torn newest entry for an error, so it is told which version to read.
        entry = self.newest()
        try:
            delta = DeltaTable(self.table, version=None if entry is None else entry.version)
            files = pa.table(delta.get_add_actions()).column("path").to_pylist()
        except TableNotFoundError as error:
            message = f"no Delta table in {self.table} yet"
            raise StoreNotReady(message) from error
        except DeltaError as error:
            first_line = str(error).partition("\n")[0]
            message = f"the log of {self.table} can't be read: {first_line}"
            raise CorruptLog(message) from error
        metadata = delta.metadata()
        version = delta.version()
        up_to_version = (entry for entry in self._backwards() if entry.version <= version)
        records = (entry.record for entry in up_to_version if entry.record is not None)
        return TableSnapshot(
            version=version,
            table_id=str(metadata.id),
            definition=read_definition(self.table, metadata.configuration.get(STORE_PROPERTY)),
            files=tuple(unquote(path) for path in files),
            record=next(records, None),
            digest="" if entry is None else entry.digest,
        )

    def _path(self, version: int) -> Path:
        return self._folder / entry_name(version)

    def _backwards(self) -> Iterator[LogEntry]:
        """Whole entries from the newest on, skipping torn ones."""
        for version in reversed(self.versions()):
            entry = self.read(version)
            if entry is not None:
                yield entry


def read_definition(table: Path, definition_json: str | None) -> StoreDefinition:
    """Read the store definition that a table's properties hold.

    Raises:
        InvalidDefinition: there is none, or it isn't one that we can read.
    """
    if definition_json is None:
        message = f"{table.name} has no table property {STORE_PROPERTY}: not made by Oriel"
        raise InvalidDefinition(message)
    return StoreDefinition.from_json(definition_json)
