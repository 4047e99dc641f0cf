"""Read a table as its log describes it, entry by entry, with the problems of the log."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from oriel.storage import (
    COMMIT_INFO_KEY,
    STORE_PROPERTY,
    CommitRecord,
    InvalidDefinition,
    StorageError,
    StoreDefinition,
    current_files,
)
from oriel.storage.delta import (
    DIGEST_TAG,
    LOG_DIRECTORY,
    DeltaLog,
    entry_name,
    file_in_table,
    verify_checkpoint,
)

#: The seal of an entry is within this many bytes from its start.
_SEAL_BYTES = 100
#: The cause in the message of an error about a damaged entry.
_CAUSE = re.compile(r" is damaged: (.+?)\. [A-Z]")
_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet")

Action = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """A data file as the log describes it.

    Attributes:
        size: The number of bytes, or None if the log does not contain it.
        digest: The digest, or None for files of other tools and of earlier versions of Oriel.
    """

    size: int | None
    digest: str | None


@dataclass
class TableView:
    """The newest version of a table.

    Attributes:
        directory: The directory of the table.
        version: The number of the version, or -1 without entries.
        live: The data files of the version, by name.
        removed: The data files that only earlier versions have, if the log still has their entries.
        transactions: The last version number of each application id.
        definition: The definition of the store. None for a table that is not a store.
        record: The last commit record, or None.
        added: The files that the entry with this record adds.
        table_ids: The ids of the table in the log.
        problems: Each damaged file of the log, its problem, and whether other files replace it.
    """

    directory: Path
    version: int = -1
    live: dict[str, Expected] = field(default_factory=dict)
    removed: dict[str, Expected] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    definition: StoreDefinition | None = None
    record: CommitRecord | None = None
    added: frozenset[str] = frozenset()
    table_ids: set[str] = field(default_factory=set)
    problems: list[tuple[Path, str, bool]] = field(default_factory=list)

    def apply(self, version: int, actions: list[Action]) -> None:
        """Apply the actions of an entry or of a Delta checkpoint."""
        self.version = version
        added = {
            self._apply(name, fields)
            for action in actions
            for name, fields in action.items()
            if fields
        }
        if any(COMMIT_INFO_KEY in (action.get("commitInfo") or {}) for action in actions):
            self.added = frozenset(path for path in added if path is not None)

    def add_removed(self, earlier: "TableView") -> None:
        """Add the files that only earlier versions have, and the problems of their entries."""
        for path, expected in {**earlier.removed, **earlier.live}.items():
            if path not in self.live:
                self.removed[path] = expected
        self.problems += earlier.problems

    def _apply(self, name: str, fields: Action) -> str | None:
        """Apply one action. Return the file that it adds, or None."""
        match name:
            case "add":
                path = file_in_table(fields["path"])
                digest = dict(fields.get("tags") or {}).get(DIGEST_TAG)
                self.live[path] = Expected(fields["size"], digest)
                self.removed.pop(path, None)
                return path
            case "remove":
                path = file_in_table(fields["path"])
                unknown = Expected(fields.get("size"), None)
                self.removed[path] = self.live.pop(path, self.removed.get(path, unknown))
            case "txn":
                self.transactions[fields["appId"]] = fields["version"]
            case "metaData":
                self.table_ids.add(str(fields["id"]))
                text = dict(fields.get("configuration") or {}).get(STORE_PROPERTY)
                self.definition = None if text is None else StoreDefinition.from_json(text)
            case "commitInfo" if COMMIT_INFO_KEY in fields:
                self.record = CommitRecord.from_json(fields[COMMIT_INFO_KEY])
        return None


#: The errors of content that is not a valid entry.
_INVALID_ENTRY = (StorageError, InvalidDefinition, KeyError, TypeError, ValueError, AttributeError)


def read_view(directory: Path) -> TableView:
    """Return a table as all entries of its log describe it, with the problems of the log."""
    view = TableView(directory)
    log, path = DeltaLog(directory), directory / LOG_DIRECTORY
    versions = log.versions()
    # The files of each Delta checkpoint by version. They are one Parquet file or several. Other
    # kinds of Delta checkpoints are not compared.
    checkpoints: dict[int, list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, sorted(current_files().names(path)))):
        checkpoints.setdefault(int(match["version"]), []).append(match[0])
    first = versions[0] if versions else max(checkpoints, default=0)
    if first > 0 and _start_at_checkpoint(view, checkpoints, first):
        earlier = TableView(directory)
        for version in range(first, view.version + 1 if versions else first):
            _apply_entry(earlier, log, version, is_newest=version == versions[-1])
        view.add_removed(earlier)
    elif first > 0:
        view.problems.append((path / entry_name(first - 1), "the entry is missing", False))
        view.version = first - 1
    if not versions and not checkpoints:
        view.problems.append((path, "the table has no entry", True))
    _check_pointer(view, path, checkpoints)
    for version in range(view.version + 1, max(versions, default=-1) + 1):
        _apply_entry(view, log, version, is_newest=version == versions[-1])
        if version in checkpoints:
            _compare(view, path, checkpoints[version])
    return view


def _apply_entry(view: TableView, log: DeltaLog, version: int, *, is_newest: bool) -> None:
    path = view.directory / LOG_DIRECTORY / entry_name(version)
    try:
        content = current_files().read(path)
        entry = log.read(version)
        if entry is None:
            problem = "the entry is empty or cut off"
            if is_newest:
                # After a power loss, the pipeline writes such an entry again.
                problem += ", and it is the newest one"
            view.problems.append((path, problem, is_newest))
            return
        # Oriel seals each entry that it writes, so the name of the seal is damaged.
        if entry.table_id is not None and b'"oriel_entry"' not in content[:_SEAL_BYTES]:
            view.problems.append((path, "the entry is damaged: it has no seal", False))
        view.apply(version, [orjson.loads(line) for line in content.splitlines() if line.strip()])
        # The id of the table is unknown if no entry so far has the metadata of the table.
        if entry.table_id is not None and view.table_ids and entry.table_id not in view.table_ids:
            problem = f"the entry is damaged: it belongs to another table, {entry.table_id}"
            view.problems.append((path, problem, False))
    except FileNotFoundError:
        view.problems.append((path, "the entry is missing", False))
    except _INVALID_ENTRY as error:
        cause = _CAUSE.search(str(error))
        reason = cause[1] if cause else _text(error)
        view.problems.append((path, f"the entry is damaged: {reason}", False))


def _check_pointer(view: TableView, log: Path, checkpoints: dict[int, list[str]]) -> None:
    """Check the pointer to the newest Delta checkpoint, which other tools read first."""
    path = log / "_last_checkpoint"
    try:
        version = orjson.loads(current_files().read(path))["version"]
        if version not in checkpoints:
            problem = f"the pointer names the Delta checkpoint {version}, which does not exist"
            view.problems.append((path, problem, True))
    except FileNotFoundError:
        return
    except (KeyError, TypeError, ValueError) as error:
        view.problems.append((path, f"the pointer is damaged ({_text(error)})", True))


def _start_at_checkpoint(view: TableView, checkpoints: dict[int, list[str]], first: int) -> bool:
    """Start the view at the oldest valid checkpoint that the entries from ``first`` on continue.

    Return False if no such checkpoint exists.
    """
    for version in sorted(checkpoints):
        if version < first - 1:
            continue
        started = TableView(view.directory)
        try:
            verify_checkpoint(view.directory / LOG_DIRECTORY, version)
            for actions in _actions(view.directory / LOG_DIRECTORY, checkpoints[version]):
                started.apply(version, actions)
        except FileNotFoundError:
            continue
        except (*_INVALID_ENTRY, OSError, pa.ArrowException) as error:
            path = view.directory / LOG_DIRECTORY / checkpoints[version][0]
            view.problems.append((path, _damaged_checkpoint(error), False))
            continue
        started.problems = view.problems
        started.record = DeltaLog(view.directory).newest_record()
        vars(view).update(vars(started))
        return True
    return False


def _compare(view: TableView, log: Path, names: list[str]) -> None:
    """Compare a Delta checkpoint with the entries up to its version."""
    path = log / names[0]
    found = TableView(view.directory)
    try:
        verify_checkpoint(log, view.version)
        for actions in _actions(log, names):
            found.apply(view.version, actions)
    except FileNotFoundError:
        return
    except (*_INVALID_ENTRY, OSError, pa.ArrowException) as error:
        view.problems.append((path, _damaged_checkpoint(error), True))
        return
    sizes, wanted = ({name: e.size for name, e in v.live.items()} for v in (found, view))
    if sizes != wanted:
        problem = f"the Delta checkpoint differs from the entries up to version {view.version}"
        view.problems.append((path, problem, True))


def _actions(log: Path, names: list[str]) -> Iterator[list[Action]]:
    wanted = {"add", "remove", "txn", "metaData"}
    for name in names:
        with current_files().open(log / name) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            for batch in file.iter_batches(columns=sorted(wanted & set(file.schema_arrow.names))):
                yield batch.to_pylist()


def _damaged_checkpoint(error: Exception) -> str:
    is_digest = isinstance(error, StorageError)
    reason = "it does not have its digest" if is_digest else _text(error)
    return f"the Delta checkpoint is damaged: {reason}"


def _text(error: Exception) -> str:
    return (str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
