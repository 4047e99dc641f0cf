"""Compare the files of a backup with its manifest."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from oriel.pipeline.errors import BackupError
from oriel.pipeline.operations.verification.findings import Check, Finding, Site
from oriel.storage import without_digest

#: The manifest of a backup, and the directory that contains its files.
MANIFEST, FILES = "backup.json", "data"
_ANOTHER = "Use another backup"
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class BackupFiles(Check):
    """Compare each file of a backup with its size and SHA-256 in the manifest.

    Attributes:
        backup: The directory that ``oriel backup`` created.
    """

    backup: Path

    def subjects(self, _site: Site) -> Iterable[Path]:
        return [self.backup]

    def find(self, site: Site, subject: Path, only: Collection[Path] | None) -> Iterator[Finding]:
        manifest = subject / MANIFEST
        try:
            files = read_manifest(subject)["files"]
            wanted = {name: (one["size"], one["sha256"]) for name, one in files.items()}
        except FileNotFoundError as error:
            message = f"{subject}: it is not a finished backup, because it has no {MANIFEST}. "
            raise BackupError(message + "Name the directory that `oriel backup` made") from error
        except ValueError as error:
            yield Finding(manifest, f"the manifest is damaged ({error})", _ANOTHER)
            return
        for name, (size, sha256) in sorted(wanted.items()):
            path = subject / FILES / name
            if only is not None and path not in only:
                continue
            try:
                found = path.stat().st_size
                site.count(found)
                if found != size:
                    problem = f"the file has {found:,} bytes, the manifest says {size:,}"
                    yield Finding(path, problem, _ANOTHER)
                elif sha256_of(path) != sha256:
                    problem = "the file does not have the SHA-256 of the manifest"
                    yield Finding(path, problem, _ANOTHER)
            except FileNotFoundError:
                yield Finding(path, "the file is missing", _ANOTHER)
        for path in sorted((subject / FILES).rglob("*")):
            if path.is_file() and path.relative_to(subject / FILES).as_posix() not in wanted:
                problem = "the manifest does not name the file"
                yield Finding(path, problem, "`oriel restore` ignores it", is_damage=False)


def read_manifest(backup: Path) -> dict[str, Any]:
    """Read the manifest of a backup.

    Raises:
        OSError: The manifest is missing or cannot be read.
        ValueError: The manifest is damaged.
    """
    try:
        manifest: dict[str, Any] = orjson.loads(without_digest((backup / MANIFEST).read_bytes()))
        # Check the fields, because manifests of earlier versions of Oriel have no digest.
        _ = manifest["format"], dict(manifest["batches"])
        _ = [(one["size"], one["sha256"]) for one in manifest["files"].values()]
    except (AttributeError, KeyError, TypeError) as error:
        message = f"{type(error).__name__}: {error}"
        raise ValueError(message) from error
    return manifest


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    hashed = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK_BYTES):
            hashed.update(block)
    return hashed.hexdigest()
