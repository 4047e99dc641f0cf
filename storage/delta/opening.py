"""Open tables with delta-rs after their files are verified, and find the tables of a directory.

Next to each Delta checkpoint that Oriel writes is a file with its digest. Other programs ignore it.
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

LOG_DIRECTORY = "_delta_log"

#: The file that names the newest Delta checkpoint.
_POINTER = "_last_checkpoint"
_ENTRY_NAME = re.compile(r"(\d{20})\.json")
#: The name of a Delta checkpoint: one file, or one of several parts.
_CHECKPOINT_NAME = re.compile(r"(\d{20})\.checkpoint\.(?:\d{10}\.(\d{10})\.|.+\.)?parquet")
#: Options of delta-rs for object stores. Its default of ten retries only covers an outage of 5 s.
_OBJECT_OPTIONS = {
    "max_retries": "1000",
    "retry_timeout": "60s",
    "backoff_config.max_backoff": "2s",
}


class DamagedCheckpoint(CorruptLog):
    """A Delta checkpoint is damaged or missing.

    Attributes:
        version: The version of the checkpoint.
    """

    def __init__(self, path: Path, version: int, problem: str = "is damaged") -> None:
        """Create the error for the checkpoint in the file ``path``, with a solution."""
        self.version = version
        super().__init__(
            f"{path}: the Delta checkpoint {problem}. Restart the pipeline, which reads the log "
            "without the checkpoint if all entries exist. Otherwise, put the file back from a "
            "backup"
        )


class LogFiles(NamedTuple):
    """The files of the log for one version.

    Attributes:
        checkpoint: The files of a Delta checkpoint.
        entries: The entries after the checkpoint, with their actions.
    """

    checkpoint: Sequence[Path]
    entries: Mapping[Path, Sequence[Action]]

    def tags(self) -> dict[str, dict[str, str]]:
        """Return the tags of each data file that has tags, by its path in the table."""
        tags = {}
        for add in chain.from_iterable(map(_checkpoint_adds, self.checkpoint)):
            if add is not None and add.get("tags"):
                tags[unquote(add["path"])] = dict(add["tags"])
        for actions in self.entries.values():
            for add in (action["add"] for action in actions if "add" in action):
                # Other tools add a file again without its tags, for example to delete rows of it.
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


def open_delta(directory: Path, version: int | None = None) -> DeltaTable:
    """Open the table in a directory with delta-rs, at ``version`` or at the newest version.

    Raises:
        TableNotFoundError: the directory does not have a table.
        DeltaError: the log can't be read.
        CorruptLog: a file of the log is missing or damaged.
    """
    return open_verified(directory, version)[0]


def open_verified(directory: Path, version: int | None = None) -> tuple[DeltaTable, LogFiles]:
    """Open a table as ``open_delta`` does. Also return the log files of the version."""
    files = log_files(directory, version)
    options = _OBJECT_OPTIONS if is_object(directory) else None
    delta = DeltaTable(uri(directory), version=version, storage_options=options)
    _reject_other_tables(files, str(delta.metadata().id))
    return delta, files


def log_files(directory: Path, version: int | None, *, ignored: int = -1) -> LogFiles:
    """Read and verify the log files of a version.

    Args:
        directory: The directory of the table.
        version: The version. None: the newest.
        ignored: The version of a checkpoint to ignore.

    Raises:
        DamagedCheckpoint: the checkpoint is missing or differs from its digest.
        CorruptLog: an entry is missing, or it is not the entry that was written.
    """
    log = directory / LOG_DIRECTORY
    names = current_files().names(log)
    versions = [int(match[1]) for match in map(_ENTRY_NAME.fullmatch, names) if match]
    complete = _checkpoints(names)
    if _POINTER in names:
        _reject_missing_checkpoint(log, {ignored, *complete}, max(versions, default=-1))
    checkpoints = {
        number: found
        for number, found in complete.items()
        if number != ignored and (version is None or number <= version)
    }
    newest = max(checkpoints, default=-1)
    if newest >= 0:
        verify_checkpoint(log, newest)
    last = max([newest, *versions]) if version is None else version
    if not versions and newest < 0:
        return LogFiles((), {})
    entries = dict(_entries(directory, range(newest + 1, last + 1)))
    return LogFiles([log / name for name in checkpoints.get(newest, ())], entries)


def _reject_missing_checkpoint(log: Path, known: Collection[int], newest: int) -> None:
    """Reject a log whose pointer names a missing checkpoint, because delta-rs fails on it.

    ``newest`` is the last entry. A pointer beyond it is damaged, and readers list the log instead.

    Raises:
        DamagedCheckpoint: the checkpoint is missing.
    """
    try:
        version = int(orjson.loads(current_files().read(log / _POINTER))["version"])
    except (FileNotFoundError, IsADirectoryError, KeyError, TypeError, ValueError):
        # Readers of Delta list the log if they cannot read the pointer.
        return
    if version not in known and version <= newest:
        path = log / f"{version:020d}.checkpoint.parquet"
        raise DamagedCheckpoint(path, version, "is missing")


def _checkpoints(names: Sequence[str]) -> dict[int, list[str]]:
    """Return the files of each complete checkpoint, by version."""
    found: dict[int, list[str]] = defaultdict(list)
    parts = {}
    for match in filter(None, map(_CHECKPOINT_NAME.fullmatch, names)):
        found[int(match[1])].append(match[0])
        parts[int(match[1])] = int(match[2] or 1)
    return {number: files for number, files in found.items() if len(files) >= parts[number]}


def _entries(directory: Path, versions: range) -> Iterator[tuple[Path, Sequence[Action]]]:
    for version in versions:
        path = directory / LOG_DIRECTORY / entry_name(version)
        try:
            actions = read_actions(path, entry_content(path))
        except FileNotFoundError:
            raise missing_entry(directory, version) from None
        if actions is None:
            raise damaged_entry(path, "it is empty or cut off")
        yield path, actions


def _reject_other_tables(files: LogFiles, table_id: str) -> None:
    """Reject entries that Oriel wrote for another table."""
    known = {table_id}
    for actions in files.entries.values():
        if (metadata := first_action(actions, "metaData", None)) is not None:
            known.add(str(metadata["id"]))
    for path, actions in files.entries.items():
        written_for = first_action(actions, "commitInfo", {}).get(TABLE_KEY)
        if written_for is not None and written_for not in known:
            raise damaged_entry(path, f"it belongs to another table, {written_for}")


def open_with_files(directory: Path, version: int | None = None) -> DeltaTable:
    """Open a table whose rows delta-rs will read, after each of its files was verified once.

    Raises:
        MissingDataFile: a file does not exist.
        CorruptLog: a file of the table or its log is damaged.
    """
    delta, log_files = open_verified(directory, version)
    tags = log_files.tags()
    for path in map(unquote, pa.table(delta.get_add_actions())["path"].to_pylist()):
        open_data_file(
            directory / path, tags.get(path, {}).get(DIGEST_TAG), verify_once=True
        ).close()
    return delta


def has_table(directory: Path) -> bool:
    """Return True if a directory has a table, complete or not."""
    return current_files().is_directory(directory / LOG_DIRECTORY)


def table_directories(tables: Path) -> list[Path]:
    """Return the directories in ``tables`` that have a table, by name."""
    names = sorted(current_files().names(tables))
    return [tables / name for name in names if has_table(tables / name)]


def digest_path(log: Path, version: int) -> Path:
    """Return the path of the digest of a version's checkpoint."""
    return log / f"{version:020d}.checkpoint.digest"


def record_checkpoint(log: Path, version: int) -> None:
    """Write the digest of a version's checkpoint."""
    with current_files().open(log / f"{version:020d}.checkpoint.parquet") as file:
        content = file_digest(file).encode()
    replace_file(digest_path(log, version), content, sync=False)


def verify_checkpoint(log: Path, version: int) -> None:
    """Compare a version's checkpoint with its digest, if it has one.

    Raises:
        DamagedCheckpoint: they differ.
    """
    path = log / f"{version:020d}.checkpoint.parquet"
    try:
        recorded = current_files().read(digest_path(log, version)).decode(errors="replace")
        with current_files().open(path) as file:
            is_right = file_digest(file) == recorded
    except FileNotFoundError:
        # Checkpoints of other tools and of earlier versions do not have a digest.
        return
    except IsADirectoryError as error:
        raise DamagedCheckpoint(path, version) from error
    # A power loss can leave an empty file, because the digest is not synced.
    if recorded and not is_right:
        raise DamagedCheckpoint(path, version)
