"""The files of a table as whoever maintains it knows them: live, removed, and the log's entries.

Read once by delta-rs, then followed entry by entry, so that what it costs to know them does not
grow with the table's history.
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
    TABLE_KEY,
    Action,
    damaged_entry,
    entry_content,
    entry_name,
    first_action,
    read_actions,
)
from oriel.storage.delta.log import DeltaLog, LogEntry, file_in_table, read_entry
from oriel.storage.delta.opening import LOG_FOLDER, open_delta, open_verified
from oriel.storage.delta.table import refuse_protocol
from oriel.storage.errors import CorruptLog, StoreNotReady
from oriel.storage.files import current_files
from oriel.storage.position import COMMIT_APPLICATION_KEY, CommitRecord

#: Names in a log that begin with a version: entries, their checksums (Spark's) and checkpoints.
LOG_NAME = re.compile(r"(\d{20})\.(?:(json)|crc|(checkpoint)\..*parquet)")


@dataclass(frozen=True)
class LiveFile:
    """A file of the table's newest version; ``path`` is relative to the table, ``size`` bytes.

    ``tags`` are its digests.
    """

    path: str
    size: int
    modified_ms: int
    tags: Mapping[str, str] = field(default_factory=dict)


def now_ms() -> int:
    """Wall clock in ms, as Delta's log has it."""
    return time.time_ns() // 1_000_000


class TableFiles:
    """What is known of one table at ``version``; ``follow`` brings it up to the newest."""

    def __init__(self, folder: Path) -> None:
        """Read the table's newest version.

        Raises:
            StoreNotReady: there is no table.
            CorruptLog: its log can't be read, or it has features that stores must not have.
        """
        self.folder = folder
        self.log = folder / LOG_FOLDER
        self._load()

    def follow(self) -> None:
        """Read the entries that came since, by whomever."""
        while True:
            path = self.log / entry_name(self.version + 1)
            try:
                content = entry_content(path)
            except FileNotFoundError:
                break
            actions = read_actions(path, content)
            if actions is None:
                # Still being written, or torn: the writer will see to it.
                return
            if first_action(actions, "commitInfo", {}).get(TABLE_KEY) not in {None, self.table_id}:
                raise damaged_entry(path, "it belongs to another table")
            self.version += 1
            self.entries.append((self.version, now_ms()))
            # Only a commit that says so is one of a pipeline.
            self._is_ours = False
            for action in actions:
                self._apply(action)
            self._take_record(content)
        if not current_files().exists(self.log / entry_name(self.version)):
            # Cleaned up by somebody else, so the entries behind it may be gone, too.
            self._load()

    def definition(self) -> StoreDefinition | None:
        """The store that the table is of, None for a table of another kind (dead letters)."""
        text = self.properties.get(STORE_PROPERTY)
        return None if text is None else StoreDefinition.from_json(text)

    def _load(self) -> None:
        log = DeltaLog(self.folder)
        newest = log.newest()
        try:
            # A torn newest entry is an error to delta-rs, so it is told which version to read.
            delta, log_files = open_verified(
                self.folder, None if newest is None else newest.version
            )
            adds = pa.table(delta.get_add_actions())
        except TableNotFoundError as error:
            message = f"{self.folder} has no Delta table yet. Start a pipeline that writes there"
            raise StoreNotReady(message) from error
        except DeltaError as error:
            first_line = str(error).partition("\n")[0]
            message = (
                f"the log of {self.folder} cannot be read: {first_line}. Restore the table from a "
                "backup, or rebuild the store with `oriel rebuild`"
            )
            raise CorruptLog(message) from error
        refuse_protocol(self.folder, delta.protocol().min_writer_version)
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
        #: Rises with each change of properties or schema.
        self.metadata_changes = 0
        #: Files that left the table -> when, in ms.
        self.removed: dict[str, int] = {}
        #: Versions that have an entry -> when it was written, in ms; ascending.
        self.entries: deque[tuple[int, int]] = deque(self._listed_entries())
        definition = self.definition()
        #: The entry with the pipeline's last word on the store's position and clock, as an index
        #: takes it (docs/decisions/0030); None where no entry says it, as of dead letters.
        self.recorded: LogEntry | None = (
            None if definition is None else log.last_recorded(self.version, definition.application)
        )
        #: The newest version whose appends are not by one who says which application it is.
        self.foreign_version = -1

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
        """What ``recorded`` says, if there is one."""
        return None if self.recorded is None else self.recorded.record

    def _take_record(self, content: bytes) -> None:
        """Go by what the newest entry says, as ``DeltaLog.last_recorded`` reads it backwards."""
        entry, definition = (
            read_entry(self.log / entry_name(self.version), content),
            self.definition(),
        )
        if entry is None or definition is None:
            return
        application = definition.application
        if entry.restored is not None:
            self.recorded = DeltaLog(self.folder).last_recorded(self.version, application)
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
            if add.get("dataChange", True) and not self._is_ours:
                self.foreign_version = self.version
        elif "remove" in action:
            path = file_in_table(action["remove"]["path"])
            self.live.pop(path, None)
            self.removed[path] = action["remove"].get("deletionTimestamp") or now_ms()
        elif "commitInfo" in action:
            # The first line of ours.
            self._is_ours = COMMIT_APPLICATION_KEY in action["commitInfo"]
        elif "metaData" in action:
            self.properties = action["metaData"].get("configuration", {})
            self.table_id = str(action["metaData"]["id"])
            self.schema = _arrow_schema(open_delta(self.folder, self.version))
            self.metadata_changes += 1
        elif "protocol" in action:
            refuse_protocol(self.folder, action["protocol"]["minWriterVersion"])


def _arrow_schema(delta: DeltaTable) -> pa.Schema:
    return pa.schema(delta.schema().to_arrow())


def last_checkpoint(log: Path) -> int:
    """The version of the newest Delta checkpoint, -1 where there is none."""
    try:
        return int(orjson.loads(current_files().read(log / "_last_checkpoint"))["version"])
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return -1
