"""Tables as delta-rs opens them, after the files that it reads are verified, and where any are.

Each Delta checkpoint that Oriel wrote has a file with its digest next to it, which others ignore.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from oriel.storage.delta.data_files import DIGEST_TAG, open_data_file
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
from oriel.storage.errors import CorruptLog
from oriel.storage.files import current_files, file_digest, is_object, replace_file, uri

LOG_FOLDER = "_delta_log"

#: The file that names the newest Delta checkpoint.
_POINTER = "_last_checkpoint"
_ENTRY_NAME = re.compile(r"(\d{20})\.json")
#: A Delta checkpoint: of one file, or one part of so many.
_CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint\.(?:\d{10}\.(\d{10})\.|.+\.)?parquet")
#: For delta-rs among objects: ten retries, its default, are used up after 5 s without a store.
_OBJECT_OPTIONS = {
    "max_retries": "1000",
    "retry_timeout": "60s",
    "backoff_config.max_backoff": "2s",
}


class DamagedCheckpoint(CorruptLog):
    """A Delta checkpoint is not the one that was written; ``version`` is its version."""

    def __init__(self, path: Path, version: int, problem: str = "is damaged") -> None:
        """Say what to do about the checkpoint in the file ``path``."""
        self.version = version
        super().__init__(
            f"{path}: the Delta checkpoint {problem}. Restart the pipeline, which reads the log "
            "without the checkpoint if all entries exist. Otherwise, put the file back from a "
            "backup"
        )


class LogFiles(NamedTuple):
    """What a version is read from: the files of a Delta checkpoint, and the entries after it."""

    checkpoint: Sequence[Path]
    entries: Mapping[Path, Sequence[Action]]

    def tags(self) -> dict[str, dict[str, str]]:
        """Return the tags of each data file that has any, by its path in the table."""
        tags = {}
        for add in chain.from_iterable(map(_checkpoint_adds, self.checkpoint)):
            if add is not None and add.get("tags"):
                tags[unquote(add["path"])] = dict(add["tags"])
        for actions in self.entries.values():
            for add in (action["add"] for action in actions if "add" in action):
                # Other tools add a file again without its tags, for example to delete rows.
                if DIGEST_TAG in (add.get("tags") or {}):
                    tags[unquote(add["path"])] = add["tags"]
        return tags


def _checkpoint_adds(path: Path) -> list[Action | None]:
    try:
        with current_files().open(path) as source, pq.ParquetFile(source) as file:
            adds: list[Action | None] = file.read(["add.path", "add.tags"])["add"].to_pylist()
    except (pa.ArrowInvalid, IsADirectoryError) as error:
        raise DamagedCheckpoint(path, entry_version(path)) from error
    return adds


def open_delta(folder: Path, version: int | None = None) -> DeltaTable:
    """Open the table in a folder by delta-rs, at ``version`` or the newest.

    Raises:
        TableNotFoundError: there is none.
        DeltaError: its log can't be read.
        CorruptLog: a file of its log is missing or damaged.
    """
    return open_verified(folder, version)[0]


def open_verified(folder: Path, version: int | None = None) -> tuple[DeltaTable, LogFiles]:
    """Open a table as ``open_delta``; also return the files that the version was read from."""
    files = log_files(folder, version)
    options = _OBJECT_OPTIONS if is_object(folder) else None
    delta = DeltaTable(uri(folder), version=version, storage_options=options)
    _refuse_other_tables(files, str(delta.metadata().id))
    return delta, files


def log_files(folder: Path, version: int | None, *, ignored: int = -1) -> LogFiles:
    """Read and verify the files of a table's log that a version (None: the newest) is read from.

    The checkpoint ``ignored`` is passed over.

    Raises:
        DamagedCheckpoint: the checkpoint is not what was written.
        CorruptLog: an entry is missing, or it is not what was written.
    """
    log = folder / LOG_FOLDER
    names = current_files().names(log)
    versions = [int(match[1]) for match in map(_ENTRY_NAME.fullmatch, names) if match]
    whole = _checkpoints(names)
    if _POINTER in names:
        _refuse_missing_checkpoint(log, {ignored, *whole}, max(versions, default=-1))
    checkpoints = {
        number: found
        for number, found in whole.items()
        if number != ignored and (version is None or number <= version)
    }
    newest = max(checkpoints, default=-1)
    if newest >= 0:
        verify_checkpoint(log, newest)
    last = max([newest, *versions]) if version is None else version
    if not versions and newest < 0:
        return LogFiles((), {})
    entries = dict(_entries(folder, range(newest + 1, last + 1)))
    return LogFiles([log / name for name in checkpoints.get(newest, ())], entries)


def _refuse_missing_checkpoint(log: Path, known: Collection[int], newest: int) -> None:
    """Refuse a log whose pointer names a checkpoint that it does not have: delta-rs fails then.

    ``newest`` is the last entry. A pointer beyond it is damaged, and readers list the log instead.

    Raises:
        DamagedCheckpoint: it does.
    """
    try:
        version = int(orjson.loads(current_files().read(log / _POINTER))["version"])
    except (FileNotFoundError, IsADirectoryError, KeyError, TypeError, ValueError):
        # Delta's readers list the log if they cannot read the pointer.
        return
    if version not in known and version <= newest:
        path = log / f"{version:020d}.checkpoint.parquet"
        raise DamagedCheckpoint(path, version, "is missing")


def _checkpoints(names: Sequence[str]) -> dict[int, list[str]]:
    """The files of each whole checkpoint, by version."""
    found: dict[int, list[str]] = defaultdict(list)
    parts = {}
    for match in filter(None, map(_CHECKPOINT_NAME.fullmatch, names)):
        found[int(match[1])].append(match[0])
        parts[int(match[1])] = int(match[2] or 1)
    return {number: files for number, files in found.items() if len(files) >= parts[number]}


def _entries(folder: Path, versions: range) -> Iterator[tuple[Path, Sequence[Action]]]:
    for version in versions:
        path = folder / LOG_FOLDER / entry_name(version)
        try:
            actions = read_actions(path, entry_content(path))
        except FileNotFoundError:
            raise missing_entry(folder, version) from None
        if actions is None:
            raise damaged_entry(path, "it is empty or cut off")
        yield path, actions


def _refuse_other_tables(files: LogFiles, table_id: str) -> None:
    """Refuse entries that Oriel wrote for another table than that of the version."""
    known = {table_id}
    for actions in files.entries.values():
        if (metadata := first_action(actions, "metaData", None)) is not None:
            known.add(str(metadata["id"]))
    for path, actions in files.entries.items():
        written_for = first_action(actions, "commitInfo", {}).get(TABLE_KEY)
        if written_for is not None and written_for not in known:
            raise damaged_entry(path, f"it belongs to another table, {written_for}")


def open_with_files(folder: Path, version: int | None = None) -> DeltaTable:
    """Open a table whose rows delta-rs is to read: each of its files is verified before, once.

    Raises:
        MissingDataFile: a file is not there.
        CorruptLog: a file of the table or its log is damaged.
    """
    delta, log_files = open_verified(folder, version)
    tags = log_files.tags()
    for path in map(unquote, pa.table(delta.get_add_actions())["path"].to_pylist()):
        open_data_file(folder / path, tags.get(path, {}).get(DIGEST_TAG), once=True).close()
    return delta


def has_table(folder: Path) -> bool:
    """Whether there is a table in a folder, whole or not."""
    return current_files().is_folder(folder / LOG_FOLDER)


def table_folders(tables: Path) -> list[Path]:
    """The folders in ``tables`` that have a table, by name."""
    names = sorted(current_files().names(tables))
    return [tables / name for name in names if has_table(tables / name)]


def digest_path(log: Path, version: int) -> Path:
    """Where the digest of a version's checkpoint is."""
    return log / f"{version:020d}.checkpoint.digest"


def record_checkpoint(log: Path, version: int) -> None:
    """Write the digest of a version's checkpoint."""
    with current_files().open(log / f"{version:020d}.checkpoint.parquet") as file:
        content = file_digest(file).encode()
    replace_file(digest_path(log, version), content, sync=False)


def verify_checkpoint(log: Path, version: int) -> None:
    """Compare a version's checkpoint to its digest, if it has one.

    Raises:
        DamagedCheckpoint: they differ.
    """
    path = log / f"{version:020d}.checkpoint.parquet"
    try:
        recorded = current_files().read(digest_path(log, version)).decode(errors="replace")
        with current_files().open(path) as file:
            is_right = file_digest(file) == recorded
    except FileNotFoundError:
        # Checkpoints of other tools and of earlier versions have no digest.
        return
    except IsADirectoryError as error:
        raise DamagedCheckpoint(path, version) from error
    # A power loss may leave an empty file: the digest is not synced.
    if recorded and not is_right:
        raise DamagedCheckpoint(path, version)
