"""The files of a table for maintenance: live files, removed files, and the entries of the log.

delta-rs reads them once. After that, they are updated entry by entry, so the cost does not grow
with the history of the table.
"""

import re
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from oriel.storage.definition import STORE_PROPERTY, StoreDefinition
from oriel.storage.delta.entries import (
    Action,
    entry_name,
    read_actions_of_table,
)
from oriel.storage.delta.log import DeltaLog, LogEntry, file_in_table, read_entry
from oriel.storage.delta.opening import LOG_DIRECTORY, open_delta, open_verified
from oriel.storage.delta.table import reject_protocol
from oriel.storage.errors import CorruptLog, StoreNotReady
from oriel.storage.files import current_files
from oriel.storage.position import COMMIT_APPLICATION_KEY, CommitRecord

#: The names in a log that start with a version: entries, their checksums (by Spark) and
#: checkpoints.
LOG_NAME = re.compile(r"(\d{20})\.(?:(json)|crc|(checkpoint)\..*parquet)")


@dataclass(frozen=True)
class LiveFile:
    """A file of the newest version of the table.

    Attributes:
        path: The path relative to the table.
        size: The size in bytes.
        modified_ms: When it was written, in ms since 1970.
        tags: Its digests.
    """

    path: str
    size: int
    modified_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)


def now_ms() -> int:
    """Return the wall-clock time in ms, as in Delta's log."""
    return time.time_ns() // 1_000_000


class TableFiles:
    """The known files of one table at ``version``. Call ``follow`` to read newer versions."""

    def __init__(self, directory: Path) -> None:
        """Read the newest version of the table.

        Raises:
            StoreNotReady: the table does not exist.
            CorruptLog: the log can't be read, or the table has features that stores must not have.
        """
        self.directory = directory
        self.log = directory / LOG_DIRECTORY
        self._load()

    def follow(self) -> None:
        """Read the entries that any program has committed since the last call."""
        while True:
            path = self.log / entry_name(self.version + 1)
            try:
                content, actions = read_actions_of_table(path, self.table_id)
            except FileNotFoundError:
                break
            if actions is None:
                # The entry is still being written, or it is torn and its writer replaces it.
                return
            self.version += 1
            self.entries.append((self.version, now_ms()))
            # Only a commit with the application's key is a commit of Oriel.
            self._is_from_oriel = False
            for action in actions:
                self._apply(action)
            self._update_recorded(content)
        if not current_files().exists(self.log / entry_name(self.version)):
            # Another process deleted the entry, so later entries can be deleted also.
            self._load()

    def definition(self) -> StoreDefinition | None:
        """Return the store of the table, or None if it is not a store (dead letters)."""
        text = self.properties.get(STORE_PROPERTY)
        return None if text is None else StoreDefinition.from_json(text)

    def _load(self) -> None:
        log = DeltaLog(self.directory)
        newest = log.newest()
        try:
            # delta-rs fails on a torn newest entry, so the version to read is explicit.
            delta, log_files = open_verified(
                self.directory, None if newest is None else newest.version
            )
            adds = pa.table(delta.get_add_actions())
        except TableNotFoundError as error:
            message = f"{self.directory} has no Delta table yet. Start a pipeline that writes there"
            raise StoreNotReady(message) from error
        except DeltaError as error:
            first_line = str(error).partition("\n")[0]
            message = (
                f"the log of {self.directory} cannot be read: {first_line}. Restore the table from "
                "a backup, or rebuild the store with `oriel rebuild`"
            )
            raise CorruptLog(message) from error
        reject_protocol(self.directory, delta.protocol().min_writer_version)
        names, sizes, times = (
            adds.column(name).to_pylist() for name in ("path", "size_bytes", "modification_time")
        )
        tags = log_files.tags()
        self.live = {
            (path := file_in_table(name)): LiveFile(path, size, modified_ms, tags.get(path, {}))
            for name, size, modified_ms in zip(names, sizes, times, strict=True)
        }
        self.version, self.table_id = delta.version(), str(delta.metadata().id)
        self.properties = dict(delta.metadata().configuration)
        self.schema = _arrow_schema(delta)
        #: Increases with each change of properties or schema.
        self.metadata_changes = 0
        #: Files that left the table -> when, in ms.
        self.removed: dict[str, int] = {}
        #: Versions that have an entry -> when it was written, in ms, in ascending order.
        self.entries: deque[tuple[int, int]] = deque(self._listed_entries())
        definition = self.definition()
        #: The entry with the last position and stream time of the store, as an index reads it
        #: (docs/decisions/0030). None if no entry has them, for example for dead letters.
        self.recorded: LogEntry | None = (
            None
            if definition is None
            else log.last_entry_with_position(self.version, definition.application)
        )
        #: The newest version with appended rows whose commit does not name an application of Oriel.
        self.newest_foreign_version = -1

    def _listed_entries(self) -> list[tuple[int, int]]:
        matches = [
            (LOG_NAME.fullmatch(file.name), file) for file in current_files().listed(self.log)
        ]
        return sorted(
            (int(match[1]), file.modified_ms)
            for match, file in matches
            if match is not None and match[2] and int(match[1]) <= self.version
        )

    @property
    def record(self) -> CommitRecord | None:
        """The commit record of ``recorded``, or None."""
        return None if self.recorded is None else self.recorded.record

    def _update_recorded(self, content: bytes) -> None:
        """Update ``recorded`` from the newest entry, as ``DeltaLog.last_entry_with_position``."""
        entry, definition = (
            read_entry(self.log / entry_name(self.version), content),
            self.definition(),
        )
        if entry is None or definition is None:
            return
        application = definition.application
        if entry.restored is not None:
            self.recorded = DeltaLog(self.directory).last_entry_with_position(
                self.version, application
            )
        elif entry.record is not None and (
            self.record is None
            or entry.batch_of(application) is not None
            or entry.record.batch >= self.record.batch
        ):
            self.recorded = entry

    def _apply(self, action: Action) -> None:
        if "add" in action:
            add = action["add"]
            path = file_in_table(add["path"])
            known = self.live[path].tags if path in self.live else {}
            tags = add.get("tags") or known
            self.live[path] = LiveFile(path, add["size"], add["modificationTime"], tags)
            self.removed.pop(path, None)
            if add.get("dataChange", True) and not self._is_from_oriel:
                self.newest_foreign_version = self.version
        elif "remove" in action:
            path = file_in_table(action["remove"]["path"])
            self.live.pop(path, None)
            self.removed[path] = action["remove"].get("deletionTimestamp") or now_ms()
        elif "commitInfo" in action:
            # This is the first action of an entry of Oriel.
            self._is_from_oriel = COMMIT_APPLICATION_KEY in action["commitInfo"]
        elif "metaData" in action:
            self.properties = action["metaData"].get("configuration", {})
            self.table_id = str(action["metaData"]["id"])
            self.schema = _arrow_schema(open_delta(self.directory, self.version))
            self.metadata_changes += 1
        elif "protocol" in action:
            reject_protocol(self.directory, action["protocol"]["minWriterVersion"])


def _arrow_schema(delta: DeltaTable) -> pa.Schema:
    return pa.schema(delta.schema().to_arrow())


def last_checkpoint(log: Path) -> int:
    """Return the version of the newest Delta checkpoint, or -1 without one."""
    try:
        return int(orjson.loads(current_files().read(log / "_last_checkpoint"))["version"])
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return -1
