"""``oriel restore``: check every file of a backup, and restore it into a new data directory.

After that, the pipeline continues after the batch of the backup, if its topics or its event log
still have the later records. The service rebuilds the index.
"""

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oriel.pipeline.arguments import add_data_option
from oriel.pipeline.errors import BackupError
from oriel.pipeline.operations.backups.backup import (
    FORMAT,
    copied,
    reject_existing,
    reject_object_store,
    run_command,
)
from oriel.pipeline.operations.verification import FILES, MANIFEST, read_manifest
from oriel.storage import current_files, is_object, sync_directory, uri


def main(arguments: Sequence[str] | None = None) -> int:
    """Restore a backup into a new data directory.

    Returns:
        The exit code: 0 on success, 1 after an error, which is one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="oriel restore",
        description="Check every file of a backup, and restore it into a new data directory.",
    )
    parser.add_argument("--from", dest="backup", type=Path, required=True, metavar="BACKUP",
                        help="restore this backup")  # fmt: skip
    add_data_option(parser, "restore into this directory, which must not exist yet")
    options = parser.parse_args(arguments)
    return run_command("restore", lambda: _restore(options.backup, options.data))


def _restore(source: Path, data: Path) -> dict[str, Any]:
    reject_object_store(source)
    manifest = _manifest(source)
    files = manifest["files"]
    current_files().reach(data)
    reject_existing(data)
    if is_object(data):
        _put_all(source, data, files)
        return {"data": uri(data), "batches": manifest["batches"], "files": len(files)}
    # Restore all files or none, because a run would continue with an incomplete directory.
    draft = data.with_name(f"{data.name}.restoring")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for number, (name, described) in enumerate(sorted(files.items()), 1):
            path = source / FILES / name
            digest = copied(path, draft / name, f"{number:,} of {len(files):,} files")
            _refuse_damaged(path, digest, described["sha256"])
        draft.rename(data)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_directory(data.parent)
    return {"data": str(data), "batches": manifest["batches"], "files": len(files)}


def _put_all(source: Path, data: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    """Upload all files of a backup to an object store. After an error, delete them again.

    The application ids are last, because a pipeline does not continue without its id.
    """
    names = sorted(files, key=lambda name: (name.endswith("application.json"), name))
    try:
        for number, name in enumerate(names, 1):
            path = source / FILES / name
            digest = copied(path, data / name, f"{number:,} of {len(files):,} files")
            _refuse_damaged(path, digest, files[name]["sha256"])
    except BaseException:
        current_files().delete_directory(data)
        raise


def _manifest(source: Path) -> dict[str, Any]:
    """Return the manifest of a backup.

    Raises:
        BackupError: The manifest is missing, damaged or of another format.
    """
    try:
        manifest = read_manifest(source)
    except ValueError as error:
        message = f"{source / MANIFEST}: the manifest is damaged ({error}). Use another backup"
        raise BackupError(message) from error
    except OSError as error:
        message = (
            f"{source} is not a finished backup, because it has no {MANIFEST}. Name the directory "
            "that `oriel backup` made"
        )
        raise BackupError(message) from error
    if manifest["format"] != FORMAT:
        found = manifest["format"]
        message = f"{source} has format {found}, and this version reads {FORMAT}. Upgrade Oriel"
        raise BackupError(message)
    return manifest


def _refuse_damaged(path: Path, digest: str, expected: str) -> None:
    if digest != expected:
        message = f"{path} is damaged. Restore another backup"
        raise BackupError(message)
