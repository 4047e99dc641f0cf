"""``oriel backup``: copy a data directory as of one batch, while the pipeline runs.

For each pipeline, a backup contains one batch: the state version of each store, and each table at
the version of that batch. Oriel never changes such a file, and only deletes it. So the command
first creates hard links to all files, and then copies the linked files while the pipeline runs.
If a file is deleted before it is linked, the command uses a newer batch. An object store has no
links, so the command fetches the objects. A later attempt keeps them and fetches only new objects.

A backup contains neither the index (guarantees.md#6) nor the records of the topics or event logs.

    BACKUP/backup.json     the manifest: each file's size and SHA-256
    BACKUP/data/...        the files, under their paths in the data directory
"""

import argparse
import errno
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake.exceptions import DeltaError

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.commit import SINK_FILE, StateVersions
from oriel.pipeline.errors import BackupError, CheckpointError
from oriel.pipeline.operations.messages import EXPECTED, print_error
from oriel.pipeline.operations.verification import (
    FILES,
    MANIFEST,
    findings_of_backup,
    first_line,
    rebuild,
)
from oriel.storage import (
    DataLayout,
    ObjectStoreFailed,
    StorageError,
    add_filename_to_errors,
    create_file,
    current_files,
    is_object,
    is_sink_name,
    replace_file,
    sync_directory,
    uri,
    with_digest,
    without_digest,
)
from oriel.storage.delta import LOG_DIRECTORY, DeltaLog, entry_name, has_table, open_delta
from oriel.storage.monitoring import STATUS_FILE

#: The version of the manifest's format. It increases with every change.
FORMAT = 1
#: The number of attempts with newer batches before the command fails. An attempt needs
#: milliseconds.
_ATTEMPTS = 200
_COPY_BYTES = 1 << 20
#: The suffix of the application id with which a pipeline compacts its tables.
MAINTENANCE = "/maintenance"


def main(arguments: Sequence[str] | None = None) -> int:
    """Copy a data directory as of one batch per pipeline. Its pipelines can run meanwhile.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel backup",
        description="Copy tables and checkpoints as of one batch into a new directory, and check "
        "the copy. Pipelines can run meanwhile.",
    )
    add_data_option(parser, "back up this data directory")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="BACKUP",
        help="write the backup into this directory, which must not exist yet",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    return run_command("backup", lambda: _backup(options.data, options.to))


def run_command(name: str, work: Callable[[], dict[str, Any]]) -> int:
    """Print the result of ``work`` as a line of JSON, or its error. Return the exit code."""
    try:
        print(orjson.dumps(work()).decode(), flush=True)
    except EXPECTED as error:
        print_error(name, error)
        return 1
    return 0


def _backup(data: Path, target: Path) -> dict[str, Any]:
    layout = DataLayout(data)
    current_files().reach(data)
    if not current_files().is_directory(layout.tables):
        message = f"{uri(data)} has no tables. Pass the --data directory of oriel run"
        raise BackupError(message)
    reject_object_store(target)
    reject_existing(target)
    # The directory has another name until the backup is complete and verified.
    draft = target.with_name(f"{target.name}.writing")
    shutil.rmtree(draft, ignore_errors=True)
    # The links are in the data directory, because a hard link cannot leave its file system.
    staging_parent = target.resolve().parent if is_object(data) else data
    staging_parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".backup-", dir=staging_parent))
    try:
        batches, names = _link_all(layout, staging)
        _write(draft, staging, batches, names)
        _verify(draft, data)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    sync_directory(target.parent)
    return {"backup": str(target), "batches": batches, "files": len(names)}


def _write(draft: Path, staging: Path, batches: Mapping[str, int], names: Sequence[str]) -> None:
    """Copy the files ``names`` of ``staging`` and write the manifest."""
    (draft / FILES).mkdir(parents=True)
    hashes = {
        name: copied(staging / name, draft / FILES / name, f"{number:,} of {len(names):,} files")
        for number, name in enumerate(names, 1)
    }
    manifest = {
        "format": FORMAT,
        "created_ms": time.time_ns() // 1_000_000,
        "batches": batches,
        "files": {
            name: {"size": (draft / FILES / name).stat().st_size, "sha256": digest}
            for name, digest in hashes.items()
        },
    }
    # The manifest is last, because a directory without it is not a backup.
    content = with_digest(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    replace_file(draft / MANIFEST, content, sync=True)


def _verify(draft: Path, data: Path) -> None:
    """Read a backup back, and check each file as ``oriel verify`` does.

    Raises:
        BackupError: A file is damaged, either in the data directory or by the copy.
    """
    for finding in findings_of_backup(draft)[1]:
        if finding.is_damage:
            name = finding.path.relative_to(draft / FILES)
            problem = finding.problem.replace(str(draft / FILES), uri(data))
            message = f"{uri(data / name)}: {problem}. {finding.action}, and back up again"
            raise BackupError(message)


def _link_all(layout: DataLayout, staging: Path) -> tuple[dict[str, int], list[str]]:
    """Link consistent files into ``staging``. Return the batch per pipeline and the file names.

    Raises:
        BackupError: The files are inconsistent although nothing changes, or they change faster than
            they can be linked.
    """
    link, seen = (_fetch if is_object(layout.root) else _link), None
    problem = ""
    for _ in range(_ATTEMPTS):
        before, seen = seen, _names(layout)
        # No pipeline has committed or removed anything since the attempt that failed.
        if seen == before:
            raise BackupError(problem)
        if link is _link:
            for path in staging.iterdir():
                shutil.rmtree(path)
        try:
            batches, paths = _consistent(layout)
            return batches, sorted({link(path, staging, layout.root) for path in paths})
        except FileNotFoundError as error:
            # If the path is a symbolic link, link its target.
            path = Path(error.filename)
            problem = f"{uri(path)}: the file is missing. {_action(layout, path)}"
        except ObjectStoreFailed:
            raise
        except (_InconsistentError, StorageError) as error:
            # Cleanup can have removed an entry after its name was listed.
            problem = str(error)
    message = (
        f"{uri(layout.root)} changes faster than it can be copied. Stop its pipelines with "
        f"SIGTERM, and start the backup again. The last problem was: {problem}"
    )
    raise BackupError(message)


def _consistent(layout: DataLayout) -> tuple[dict[str, int], Iterator[Path]]:
    """Return each pipeline's last batch that all its stores have, and the files of the batches."""
    files = current_files()
    batches: dict[str, int] = {}
    applications: dict[str, int] = {}
    for name in sorted(files.names(layout.checkpoints)):
        checkpoint = layout.checkpoint(name)
        if not files.exists(checkpoint / "application.json") and not _states(checkpoint):
            continue
        batch = batches[name] = _newest_batch(checkpoint)
        applications[_application(checkpoint / "application.json")] = batch
        # No run could continue a store of the topology that has a state and no table.
        for state in _states(checkpoint):
            store = state.name.partition("@")[0]
            # A store with an older batch has been removed from the topology.
            is_current = StateVersions(state, sync=False).newest() >= max(batch, 0)
            if is_current and not is_sink_name(store) and not has_table(layout.table(store)):
                table = uri(layout.table(store))
                message = f"{table}: the table of store {store!r} is missing. {rebuild(store)}"
                raise _InconsistentError(message)

    def paths() -> Iterator[Path]:
        for name, batch in batches.items():
            yield from _checkpoint_files(layout.checkpoint(name), batch)
        for name in sorted(files.names(layout.tables)):
            yield from _table_files(layout.tables / name, applications)
        # Marks of records that were replayed later are harmless: a replay skips these records.
        directory = layout.replayed.with_suffix("")
        yield from (directory / name for name in files.names(directory))
        if files.exists(layout.replayed):
            yield layout.replayed

    return batches, paths()


def _names(layout: DataLayout) -> dict[Path, frozenset[str]]:
    """Return the names of files that change with each batch or compaction."""
    files = current_files()
    directories = [layout.tables / name / LOG_DIRECTORY for name in files.names(layout.tables)]
    for name in files.names(layout.checkpoints):
        directories += [layout.checkpoint(name), *_states(layout.checkpoint(name))]
    return {directory: frozenset(files.names(directory)) for directory in directories}


def _application(path: Path) -> str:
    try:
        return str(orjson.loads(without_digest(current_files().read(path)))["application"])
    except (KeyError, TypeError, ValueError) as error:
        message = f"{uri(path)}: the file is damaged ({error}). Restore it from a backup"
        raise BackupError(message) from error


def _action(layout: DataLayout, path: Path) -> str:
    """Return what to do about a missing file of the data directory."""
    with suppress(ValueError):
        area, *names = path.relative_to(layout.root).parts
        # tables/STORE/FILE, checkpoints/PIPELINE/state/STORE/FILE
        at = {"tables": 0, "checkpoints": 2}.get(area, len(names))
        if at + 1 < len(names):
            return rebuild(names[at].partition("@")[0])
    return "Restore it from a backup"


class _InconsistentError(Exception):
    """The pipeline has deleted or replaced files of the batch, or a file is damaged.

    If no pipeline runs, the next attempt finds the same problem, and the message is printed.
    """


def _newest_batch(checkpoint: Path) -> int:
    """Return the last batch that all stores of the topology have prepared, or -1."""
    newest: dict[str, int] = {}
    for state in _states(checkpoint):
        # The generation of a rebuild that has just started has no version yet.
        store = state.name.partition("@")[0]
        batch = StateVersions(state, sync=False).newest()
        newest[store] = max(batch, newest.get(store, -1))
    last = max(newest.values(), default=-1)
    # Stores are prepared in sequence, so a store can be one batch older than others. A store with a
    # still older batch has been removed from the topology.
    return min((batch for batch in newest.values() if batch >= last - 1), default=-1)


def _states(checkpoint: Path) -> list[Path]:
    """Return the state directories of all stores."""
    names = sorted(current_files().names(checkpoint / "state"))
    return [checkpoint / "state" / name for name in names]


def _checkpoint_files(checkpoint: Path, batch: int) -> Iterator[Path]:
    """Yield the files of a checkpoint that a run needs to continue after ``batch``.

    Spark's own log is not among them.
    """
    for name in current_files().names(checkpoint):
        if name.endswith(".json") and name != STATUS_FILE:
            yield checkpoint / name
    application = _application(checkpoint / "application.json")
    for state in _states(checkpoint):
        versions = StateVersions(state, sync=False, application=application)
        of_store = min(batch, versions.newest())
        if of_store < 0:
            continue
        try:
            prepared = versions.load(of_store)
        except CheckpointError as error:
            raise _InconsistentError(first_line(error)) from error
        if prepared is None:
            raise FileNotFoundError(errno.ENOENT, "", str(versions.path(of_store)))
        for name in current_files().names(state):
            # A file of stream times that were set back. For a sink, also its definition and the
            # mark of its published batch.
            number = name.removeprefix("clock-").removeprefix("published-")
            if name == SINK_FILE or fnmatch(number, f"{of_store:012d}*.json"):
                yield state / name
        yield from (state / name for name in sorted(prepared.state_files))


def _table_files(table: Path, batches: Mapping[str, int]) -> Iterator[Path]:
    """Yield the files of a table at the version that has ``batches``, by application id."""
    log = DeltaLog(table)
    versions = log.versions()
    if not versions:
        return
    cut = _version_of(log, versions, batches)
    directory = table / LOG_DIRECTORY
    yield from (directory / entry_name(version) for version in versions if version <= cut)
    for name in current_files().names(directory):
        # The digest of a Delta checkpoint is a file next to it.
        is_checkpoint = fnmatch(name, "[0-9]*.checkpoint*.parquet") or name.endswith(".digest")
        if is_checkpoint and int(name.partition(".")[0]) <= cut:
            yield directory / name
    try:
        added = pa.table(open_delta(table, cut).get_add_actions())
    except DeltaError as error:
        problem = f"{uri(directory)}: the log cannot be read ({first_line(error)})"
        message = f"{problem}. {rebuild(table.name)}"
        raise _InconsistentError(message) from error
    yield from (table / unquote(name) for name in added.column("path").to_pylist())


def _version_of(log: DeltaLog, versions: Sequence[int], batches: Mapping[str, int]) -> int:
    """Return the last version of a table before the first batch that is later than ``batches``."""
    cut = versions[-1]
    included: set[str] = set()
    for version in reversed(versions):
        transactions = log.transactions(version)
        if transactions is None:
            entry = uri(log.table / LOG_DIRECTORY / entry_name(version))
            message = f"{entry}: the entry is missing or cut off. {rebuild(log.table.name)}"
            raise _InconsistentError(message)
        for name, number in transactions.items():
            # The application id of the table, or ID/STORE for dead letters. Compaction has its own
            # sequence of numbers, which are not batches.
            application = name.partition("/")[0]
            if application not in batches or name.endswith(MAINTENANCE):
                continue
            if number > batches[application]:
                cut = version - 1
                included.clear()
            else:
                included.add(application)
        if included == set(batches):
            break
    # In a table of several pipelines, a later batch of one can precede the last batch of another.
    above = [log.transactions(version) or {} for version in versions if version > cut]
    if any(
        number <= batches.get(name.partition("/")[0], -1) and not name.endswith(MAINTENANCE)
        for transactions in above
        for name, number in transactions.items()
    ):
        message = (
            f"{uri(log.table)}: one pipeline was stopped in a batch, and another pipeline has "
            "written to the table since. Start the pipelines, and stop them with SIGTERM"
        )
        raise _InconsistentError(message)
    return cut


def _link(path: Path, staging: Path, root: Path) -> str:
    """Link a file of the data directory ``root``. Return its name in the directory."""
    name = path.relative_to(root).as_posix()
    target = staging / name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(path)
    except FileExistsError:
        pass
    except PermissionError:
        # Hard links are not permitted here, so copy the file before the pipeline deletes it.
        shutil.copyfile(path, target)
    return name


def _fetch(path: Path, staging: Path, root: Path) -> str:
    """Fetch an object, and return its name.

    State files and data files never change, so a file of an earlier attempt is kept.
    """
    name = path.relative_to(root).as_posix()
    target = staging / name
    if target.suffix not in {".arrow", ".parquet"} or not target.exists():
        content = current_files().read(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return name


def copied(source: Path, target: Path, progress: str) -> str:
    """Copy a file and force it to disk. Return its SHA-256 in hexadecimal digits.

    On a terminal, ``progress`` is printed after the copy.
    """
    digest = hashlib.sha256()
    if is_object(target):
        content = source.read_bytes()
        digest.update(content)
        create_file(target, content, sync=True)
        return digest.hexdigest()
    target.parent.mkdir(parents=True, exist_ok=True)
    with add_filename_to_errors(target), source.open("rb") as reading, target.open("xb") as writing:
        while block := reading.read(_COPY_BYTES):
            digest.update(block)
            writing.write(block)
        writing.flush()
        os.fsync(writing.fileno())
        # Drop the copy from the page cache, so that the verification reads it from the disk.
        os.posix_fadvise(writing.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    sync_directory(target.parent)
    if sys.stderr.isatty():
        print(f"\r{progress}", end="", file=sys.stderr, flush=True)
    return digest.hexdigest()


def reject_object_store(backup: Path) -> None:
    """Reject a backup in an object store.

    Raises:
        BackupError: The path of the backup is in an object store.
    """
    if is_object(backup):
        message = f"{uri(backup)} is not a directory. Copy the backup into a directory"
        raise BackupError(message)


def reject_existing(directory: Path) -> None:
    """Reject a directory that exists.

    Raises:
        BackupError: The directory, or a file with its name, exists.
    """
    if current_files().is_directory(directory) or current_files().exists(directory):
        message = f"{uri(directory)} already exists. Name a directory that does not exist yet"
        raise BackupError(message)
