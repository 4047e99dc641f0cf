"""``oriel backup``: a data folder as of one batch, copied beside the stream.

A backup holds for each pipeline one batch: the state version of each store, and each table at the
version that the batch left. Such files are never
changed once they are there, only deleted, so hard links hold all of them in an instant; what is
linked is then copied while the pipeline goes on. If one is gone before it is linked, the pipeline
has moved on: a newer batch is taken. Objects have no links: they are fetched, and what an earlier
attempt has fetched stays, so that a newer batch needs only what is new.

The index is not part of it (promise 6), nor is the log that the records come from.

    BACKUP/backup.json     what it is of, and each file's size and SHA-256
    BACKUP/data/...        the files, under their paths in the data folder
"""

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
from deltalake.exceptions import DeltaError

from oriel.pipeline.commit import SINK_FILE, StateVersions
from oriel.pipeline.errors import BackupError, CheckpointError, PipelineError
from oriel.storage import (
    DataLayout,
    StorageError,
    create_file,
    current_files,
    data_folder,
    is_object,
    replace_file,
    sync_folder,
    uri,
)
from oriel.storage.delta import LOG_FOLDER, DeltaLog, entry_name, open_delta
from oriel.storage.monitoring import STATUS_FILE

#: Rises with every change of the manifest.
FORMAT = 1
MANIFEST = "backup.json"
#: The folder of the files within a backup.
FILES = "data"
#: How often a newer batch is taken before giving up; one attempt takes milliseconds.
_ATTEMPTS = 200
_COPY_BYTES = 1 << 20
#: How the id ends under which a pipeline compacts its tables.
MAINTENANCE = "/maintenance"


def main(arguments: Sequence[str] | None = None) -> int:
    """Copy a data folder, whether or not its pipelines run."""
    parser = argparse.ArgumentParser(
        prog="oriel backup",
        description="Copy tables and checkpoints as of one batch; pipelines may run meanwhile.",
    )
    parser.add_argument("--data", type=data_folder, required=True, help="the data folder")
    parser.add_argument("--to", type=Path, required=True, help="a folder that is not there yet")
    options = parser.parse_args(arguments)
    return run_command("backup", lambda: _backup(options.data, options.to))


def run_command(name: str, work: Callable[[], dict[str, Any]]) -> int:
    """Print what ``work`` answers as a line of JSON, or its error; the exit code."""
    try:
        print(orjson.dumps(work()).decode(), flush=True)
    except (PipelineError, StorageError, OSError, DeltaError) as error:
        print(f"oriel {name}: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        return 1
    return 0


def _backup(data: Path, target: Path) -> dict[str, Any]:
    layout = DataLayout(data)
    current_files().reach(data)
    if not current_files().is_folder(layout.tables):
        message = f"{uri(data)} has no tables: name the folder that --data of oriel run names"
        raise BackupError(message)
    refuse_object(target)
    refuse_existing(target)
    # Beside the tables, because a hard link can't leave its file system.
    beside = target.resolve().parent if is_object(data) else data
    beside.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".backup-", dir=beside))
    try:
        batches, names = _link_all(layout, staging)
        (target / FILES).mkdir(parents=True)
        hashes = {
            name: copied(
                staging / name, target / FILES / name, f"{number:,} of {len(names):,} files"
            )
            for number, name in enumerate(names, 1)
        }
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    manifest = {
        "format": FORMAT,
        "created_ms": time.time_ns() // 1_000_000,
        "batches": batches,
        "files": {
            name: {"size": (target / FILES / name).stat().st_size, "sha256": digest}
            for name, digest in hashes.items()
        },
    }
    # Last: a backup without its manifest is none.
    replace_file(target / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2), sync=True)
    return {"backup": str(target), "batches": batches, "files": len(hashes)}


def _link_all(layout: DataLayout, staging: Path) -> tuple[dict[str, int], list[str]]:
    """Link one consistent set of files into ``staging``; pipelines' batches, the files' names."""
    link, files = (_fetch if is_object(layout.root) else _link), current_files()
    for _ in range(_ATTEMPTS):
        if link is _link:
            for path in staging.iterdir():
                shutil.rmtree(path)
        linked: set[str] = set()
        try:
            batches = {}
            applications = {}
            for name in sorted(files.names(layout.checkpoints)):
                checkpoint = layout.checkpoint(name)
                batch = _newest_batch(checkpoint)
                if batch is None:
                    continue
                batches[name] = batch
                identity = orjson.loads(files.read(checkpoint / "application.json"))
                applications[identity["application"]] = batch
                for path in _checkpoint_files(checkpoint, batch):
                    linked.add(link(path, staging, layout.root))
            for name in sorted(files.names(layout.tables)):
                for path in _table_files(layout.tables / name, applications):
                    linked.add(link(path, staging, layout.root))
        except (FileNotFoundError, _MovedOnError):
            continue
        return batches, sorted(linked)
    message = (
        f"{uri(layout.root)} changes faster than it can be copied: stop its pipelines (a SIGTERM "
        "ends them after a batch) and start the backup again"
    )
    raise BackupError(message)


class _MovedOnError(Exception):
    """The pipeline has deleted or replaced what belongs to the batch."""


def _newest_batch(checkpoint: Path) -> int | None:
    """The last batch that all stores have decided which go with the newest; None before any."""
    newest = [StateVersions(state, sync=False).newest() for state in _states(checkpoint)]
    last = max(newest, default=-1)
    # Stores are decided one after the other, so one may be a batch behind. One that is further
    # behind is not in the topology any more.
    return None if last < 0 else min(batch for batch in newest if batch >= last - 1)


def _states(checkpoint: Path) -> list[Path]:
    """The folders of stores' states."""
    names = sorted(current_files().names(checkpoint / "state"))
    return [checkpoint / "state" / name for name in names]


def _checkpoint_files(checkpoint: Path, batch: int) -> Iterator[Path]:
    """What a start needs that goes on behind ``batch``; Spark's own log it makes anew."""
    for name in current_files().names(checkpoint):
        if name.endswith(".json") and name != STATUS_FILE:
            yield checkpoint / name
    for state in _states(checkpoint):
        versions = StateVersions(state, sync=False)
        of_store = min(batch, versions.newest())
        try:
            prepared = versions.load(of_store)
        except CheckpointError as error:
            raise _MovedOnError from error
        if prepared is None:
            raise _MovedOnError
        for name in current_files().names(state):
            # A clock that was set back, and of a sink: what it is, and that it has published.
            number = name.removeprefix("clock-").removeprefix("published-")
            if name == SINK_FILE or fnmatch(number, f"{of_store:012d}*.json"):
                yield state / name
        yield from (state / name for name in sorted(prepared.state_files))


def _table_files(table: Path, batches: Mapping[str, int]) -> Iterator[Path]:
    """A table's files at the version that these ``batches`` of applications left."""
    log = DeltaLog(table)
    versions = log.versions()
    if not versions:
        return
    cut = _version_of(log, versions, batches)
    folder = table / LOG_FOLDER
    yield from (folder / entry_name(version) for version in versions if version <= cut)
    for name in current_files().names(folder):
        if fnmatch(name, "*.checkpoint*.parquet") and int(name.partition(".")[0]) <= cut:
            yield folder / name
    added = pa.table(open_delta(table, cut).get_add_actions())
    yield from (table / unquote(name) for name in added.column("path").to_pylist())


def _version_of(log: DeltaLog, versions: Sequence[int], batches: Mapping[str, int]) -> int:
    """The last version of a table before any batch that is later than those of ``batches``."""
    cut = versions[-1]
    behind: set[str] = set()
    for version in reversed(versions):
        transactions = log.transactions(version)
        if transactions is None:
            raise _MovedOnError
        for name, number in transactions.items():
            # The table's own application, or for dead letters its stores: ID/STORE. Compaction
            # has numbers of its own; it goes with the batches around it.
            application = name.partition("/")[0]
            if application not in batches or name.endswith(MAINTENANCE):
                continue
            if number > batches[application]:
                cut = version - 1
                behind.clear()
            else:
                behind.add(application)
        if behind == set(batches):
            break
    # A table that pipelines share may have a later batch of one before the last of another.
    above = [log.transactions(version) or {} for version in versions if version > cut]
    if any(
        number <= batches.get(name.partition("/")[0], -1) and not name.endswith(MAINTENANCE)
        for transactions in above
        for name, number in transactions.items()
    ):
        raise _MovedOnError
    return cut


def _link(path: Path, staging: Path, root: Path) -> str:
    """Link a file of the data folder ``root``; its name there."""
    name = path.relative_to(root).as_posix()
    target = staging / name
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(path)
    except FileExistsError:
        pass
    except PermissionError:
        # A file system without hard links: the copy itself has to be quick enough.
        shutil.copyfile(path, target)
    return name


def _fetch(path: Path, staging: Path, root: Path) -> str:
    """Fetch an object, unless it is there and of those that never change; its name."""
    name = path.relative_to(root).as_posix()
    target = staging / name
    if target.suffix not in {".arrow", ".parquet"} or not target.exists():
        content = current_files().read(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return name


def copied(source: Path, target: Path, progress: str) -> str:
    """Copy a file and force it to disk; its SHA-256."""
    digest = hashlib.sha256()
    if is_object(target):
        content = source.read_bytes()
        digest.update(content)
        create_file(target, content, sync=True)
        return digest.hexdigest()
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reading, target.open("xb") as writing:
        while block := reading.read(_COPY_BYTES):
            digest.update(block)
            writing.write(block)
        writing.flush()
        os.fsync(writing.fileno())
    sync_folder(target.parent)
    if sys.stderr.isatty():
        print(f"\r{progress}", end="", file=sys.stderr, flush=True)
    return digest.hexdigest()


def refuse_object(backup: Path) -> None:
    """Refuse a backup that is to be among objects.

    Raises:
        BackupError: it is.
    """
    if is_object(backup):
        message = f"a backup is a folder, and {uri(backup)} is none: copy the folder there"
        raise BackupError(message)


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that is there.

    Raises:
        BackupError: it is there, whatever it holds.
    """
    if current_files().is_folder(folder) or current_files().exists(folder):
        message = f"{uri(folder)} is there already: name a folder that is to be made"
        raise BackupError(message)
