"""A table as its log describes it, read entry by entry, with what is wrong with the log."""

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
    LOG_FOLDER,
    DeltaLog,
    entry_name,
    file_in_table,
    verify_checkpoint,
)

#: Where the seal of an entry is.
_SEAL_BYTES = 100
#: How the error of a damaged entry says what is wrong with it.
_CAUSE = re.compile(r" is damaged: (.+?)\. [A-Z]")
_CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint(?:\.\d{10}\.\d{10})?\.parquet")

Action = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """A data file as the log describes it; files of earlier versions of Oriel have no digest."""

    size: int | None
    digest: str | None


@dataclass
class TableView:
    """The newest version of a table.

    ``removed`` are files that only earlier versions have, as far as the log has their entries.
    ``record`` is the last position, and ``added`` the files of the entry that has it.
    ``problems`` has a file of the log, what is wrong with it, and whether other files replace it.
    """

    folder: Path
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
        """Take over what an entry or a checkpoint says."""
        self.version = version
        added = {
            self._apply(name, fields)
            for action in actions
            for name, fields in action.items()
            if fields
        }
        if any(COMMIT_INFO_KEY in (action.get("commitInfo") or {}) for action in actions):
            self.added = frozenset(path for path in added if path is not None)

    def take_removed(self, earlier: "TableView") -> None:
        """Take over the files of earlier versions that this one does not have."""
        for path, expected in {**earlier.removed, **earlier.live}.items():
            if path not in self.live:
                self.removed[path] = expected
        self.problems += earlier.problems

    def _apply(self, name: str, fields: Action) -> str | None:
        """Take over one action; return the file that it adds."""
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


#: What an entry raises that is not one.
_NOT_ACTIONS = (StorageError, InvalidDefinition, KeyError, TypeError, ValueError, AttributeError)


def read_view(folder: Path) -> TableView:
    """Read the log of a table, all entries that it has."""
    view = TableView(folder)
    log, path = DeltaLog(folder), folder / LOG_FOLDER
    versions = log.versions()
    checkpoints = _checkpoints(path)
    first = versions[0] if versions else max(checkpoints, default=0)
    if first > 0 and _begin(view, checkpoints, first):
        earlier = TableView(folder)
        for version in range(first, view.version + 1 if versions else first):
            _take_entry(earlier, log, version, is_newest=version == versions[-1])
        view.take_removed(earlier)
    elif first > 0:
        view.problems.append((path / entry_name(first - 1), "the entry is missing", False))
        view.version = first - 1
    if not versions and not checkpoints:
        view.problems.append((path, "the table has no entry", True))
    _check_pointer(view, path, checkpoints)
    for version in range(view.version + 1, max(versions, default=-1) + 1):
        _take_entry(view, log, version, is_newest=version == versions[-1])
        if version in checkpoints:
            _compare(view, path, checkpoints[version])
    return view


def _take_entry(view: TableView, log: DeltaLog, version: int, *, is_newest: bool) -> None:
    path = view.folder / LOG_FOLDER / entry_name(version)
    try:
        content = current_files().read(path)
        entry = log.read(version)
        if entry is None:
            problem = "the entry is empty or cut off"
            if is_newest:
                # A power loss leaves it, and the pipeline writes it again.
                problem += ", and it is the newest one"
            view.problems.append((path, problem, is_newest))
            return
        # Oriel seals what it writes, so the name of the seal is damaged.
        if entry.table_id is not None and b'"oriel_entry"' not in content[:_SEAL_BYTES]:
            view.problems.append((path, "the entry is damaged: it has no seal", False))
        view.apply(version, [orjson.loads(line) for line in content.splitlines() if line.strip()])
        # An entry that begins at a Delta checkpoint cannot tell.
        if entry.table_id is not None and view.table_ids and entry.table_id not in view.table_ids:
            problem = f"the entry is damaged: it belongs to another table, {entry.table_id}"
            view.problems.append((path, problem, False))
    except FileNotFoundError:
        view.problems.append((path, "the entry is missing", False))
    except _NOT_ACTIONS as error:
        cause = _CAUSE.search(str(error))
        reason = cause[1] if cause else _text(error)
        view.problems.append((path, f"the entry is damaged: {reason}", False))


def _check_pointer(view: TableView, log: Path, checkpoints: dict[int, list[str]]) -> None:
    """Check the pointer to the newest checkpoint, which other tools read first."""
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


def _checkpoints(log: Path) -> dict[int, list[str]]:
    """Return the files of each Delta checkpoint of the kinds that are compared."""
    found: dict[int, list[str]] = {}
    for match in filter(None, map(_CHECKPOINT.fullmatch, sorted(current_files().names(log)))):
        found.setdefault(int(match["version"]), []).append(match[0])
    return found


def _begin(view: TableView, checkpoints: dict[int, list[str]], first: int) -> bool:
    """Begin with the oldest checkpoint that the entries from ``first`` on continue."""
    for version in sorted(checkpoints):
        if version < first - 1:
            continue
        begun = TableView(view.folder)
        try:
            verify_checkpoint(view.folder / LOG_FOLDER, version)
            for actions in _actions(view.folder / LOG_FOLDER, checkpoints[version]):
                begun.apply(version, actions)
        except FileNotFoundError:
            continue
        except (*_NOT_ACTIONS, OSError, pa.ArrowException) as error:
            path = view.folder / LOG_FOLDER / checkpoints[version][0]
            view.problems.append((path, _damaged_checkpoint(error), False))
            continue
        begun.problems = view.problems
        begun.record = DeltaLog(view.folder).newest_record()
        vars(view).update(vars(begun))
        return True
    return False


def _compare(view: TableView, log: Path, names: list[str]) -> None:
    """Compare a Delta checkpoint with the entries up to its version."""
    path = log / names[0]
    found = TableView(view.folder)
    try:
        verify_checkpoint(log, view.version)
        for actions in _actions(log, names):
            found.apply(view.version, actions)
    except FileNotFoundError:
        return
    except (*_NOT_ACTIONS, OSError, pa.ArrowException) as error:
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
