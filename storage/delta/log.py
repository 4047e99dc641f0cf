"""Reading a store's Delta log: one entry after the other, or a whole version at once.

The follower reads ``_delta_log/<version>.json`` itself: that is one small file per batch and
takes well under a millisecond. A whole version (first build, gap in the log) is read by
delta-rs, which knows checkpoints.

The newest entry may be empty or cut off after a power loss, and is then replaced by the
writer with a good one. Such an entry is treated as not there yet.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
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

_ENTRY_NAME = re.compile(r"(\d{20})\.json")

#: Identity of a log file: inode, modification time in ns, size in bytes.
Stamp = tuple[int, int, int]


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


@dataclass(frozen=True)
class TableSnapshot:
    """A whole version of a store's table: its files, as paths relative to it, and position."""

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
        self._folder = table / "_delta_log"

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
        actions = _parse(content)
        return None if actions is None else _entry(version, content, actions)

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

    def snapshot(self) -> TableSnapshot:
        """Read the newest whole version by way of delta-rs.

        Raises:
            StoreNotReady: there is no table yet.
            CorruptLog: the log can't be read.
            InvalidDefinition: the table is no store of ours.
        """
        entry = self.newest()
        try:
            delta = DeltaTable(self.table, version=None if entry is None else entry.version)
            files = pa.table(delta.get_add_actions()).column("path").to_pylist()
        except TableNotFoundError as error:
            message = f"no Delta table in {self.table} yet"
            raise StoreNotReady(message) from error
        except DeltaError as error:
            message = f"the log of {self.table} can't be read: {_first_line(error)}"
            raise CorruptLog(message) from error
        metadata = delta.metadata()
        return TableSnapshot(
            version=delta.version(),
            table_id=str(metadata.id),
            definition=read_definition(self.table, metadata.configuration.get(STORE_PROPERTY)),
            files=tuple(unquote(path) for path in files),
            record=self._last_record(delta.version()),
            digest="" if entry is None else entry.digest,
        )

    def _path(self, version: int) -> Path:
        return self._folder / f"{version:020d}.json"

    def _backwards(self) -> Iterator[LogEntry]:
        """Whole entries from the newest on, skipping torn ones."""
        for version in reversed(self.versions()):
            entry = self.read(version)
            if entry is not None:
                yield entry

    def _last_record(self, version: int) -> CommitRecord | None:
        records = (entry.record for entry in self._backwards() if entry.version <= version)
        return next((record for record in records if record is not None), None)


def read_definition(table: Path, definition_json: str | None) -> StoreDefinition:
    """Read the store definition that a table's properties hold.

    Raises:
        InvalidDefinition: there is none, or it isn't one that we can read.
    """
    if definition_json is None:
        message = f"{table.name} has no table property {STORE_PROPERTY}: not made by Oriel"
        raise InvalidDefinition(message)
    return StoreDefinition.from_json(definition_json)


def _parse(content: bytes) -> list[dict[str, Any]] | None:
    """The actions of a log entry, None when it is empty or cut off."""
    try:
        actions = [orjson.loads(line) for line in content.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        return None
    return actions if is_whole(actions) else None


def is_whole(actions: Sequence[object]) -> bool:
    """Whether a log entry's lines are all of it: a cut may fall between two lines.

    A commit of the pipeline ends with its ``txn`` action, so without it something is missing.
    """
    if not actions or not all(isinstance(action, dict) for action in actions):
        return False
    names = {
        name: action[name] for action in actions if isinstance(action, dict) for name in action
    }
    ours = COMMIT_APPLICATION_KEY in names.get("commitInfo", {})
    return "txn" in names or not ours


def _entry(version: int, content: bytes, actions: list[dict[str, Any]]) -> LogEntry:
    adds = [action["add"] for action in actions if "add" in action]
    if any(add.get("deletionVector") for add in adds):
        message = f"version {version} uses deletion vectors, which stores must not have"
        raise CorruptLog(message)
    removes = [action["remove"] for action in actions if "remove" in action]
    commit_info: dict[str, Any] = next(
        (action["commitInfo"] for action in actions if "commitInfo" in action), {}
    )
    return LogEntry(
        version=version,
        digest=hashlib.sha256(content).hexdigest(),
        added=tuple(unquote(add["path"]) for add in adds if add.get("dataChange", True)),
        removes_rows=any(remove.get("dataChange", True) for remove in removes),
        metadata=_metadata(actions),
        record=_record(version, commit_info.get(COMMIT_INFO_KEY)),
    )


def _metadata(actions: list[dict[str, Any]]) -> TableMetadata | None:
    found = next((action["metaData"] for action in actions if "metaData" in action), None)
    if found is None:
        return None
    return TableMetadata(found["id"], found.get("configuration", {}).get(STORE_PROPERTY))


def _record(version: int, text: str | None) -> CommitRecord | None:
    if text is None:
        return None
    try:
        return CommitRecord.from_json(text)
    except (TypeError, orjson.JSONDecodeError) as error:
        # The rows are still good; the position then stays at the last commit that says it.
        logger.warning("version %d has an unreadable position: %s", version, error)
        return None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
