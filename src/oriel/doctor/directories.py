"""Checks of the data directory: rights, space, object store, and the times of its files."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from oriel.doctor.results import Check, Result, Subject, ok, problem, warning

#: A compaction writes a table's files again before the old ones go.
_LEAST_BYTES, _FEW_BYTES, _FEW_PERCENT = 256 << 20, 2 << 30, 5
_FEW_FILES = 10_000
#: The times of two machines differ by less than this.
_AHEAD_SECONDS = 60.0
#: Levels of directories whose rights are checked: DATA/checkpoints/NAME/state.
_LEVELS = 3


class Rights(Check):
    """Whether this user can read and write the files of the data directory."""

    name: ClassVar[str] = "rights"

    def results(self, subject: Subject) -> Iterator[Result]:
        data, user = subject.data, f"user {os.geteuid()}"
        if data is None or _is_remote(data):
            return
        if not data.exists():
            parent = next(one for one in data.absolute().parents if one.exists())
            if os.access(parent, os.W_OK | os.X_OK):
                yield ok(f"{data} does not exist yet, and {user} can create it")
            else:
                action = f"Create it, and change its owner: chown {os.geteuid()} {data}"
                yield problem(f"{data} does not exist, and {user} cannot create it", action)
            return
        for directory in (data, *_below(data, _LEVELS)):
            if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
                owner = directory.stat().st_uid
                found = f"{directory} belongs to user {owner}, and {user} cannot write into it"
                yield problem(
                    found,
                    f"Run Oriel as its owner, or change the owner: chown -R {os.geteuid()} {data}",
                )
                return
        owner = data.stat().st_uid
        if os.geteuid() == 0 and owner != 0:
            found = f"{data} belongs to user {owner}, and this command runs as root"
            yield warning(
                found,
                "Run Oriel as the owner, because the owner cannot write files of root",
            )
        else:
            yield ok(f"{user} can read and write {data}")


def _below(directory: Path, levels: int) -> Iterator[Path]:
    """Yield the directories below one, down to a level."""
    try:
        children = sorted(
            one for one in directory.iterdir() if one.is_dir() and not one.is_symlink()
        )
    except OSError:
        # The parent is reported.
        return
    for child in children:
        yield child
        if levels > 1:
            yield from _below(child, levels - 1)


class Disk(Check):
    """Free space and free files where data and index are."""

    name: ClassVar[str] = "disk"

    def results(self, subject: Subject) -> Iterator[Result]:
        seen = set[int]()
        for named in (subject.data, subject.index):
            if named is None or _is_remote(named):
                continue
            directory = next(one for one in (named, *named.absolute().parents) if one.exists())
            device = directory.stat().st_dev
            if device not in seen:
                seen.add(device)
                yield _space(named, directory)


def _space(named: Path, directory: Path) -> Result:
    usage, system = shutil.disk_usage(directory), os.statvfs(directory)
    found = f"{usage.free / 1e9:,.1f} of {usage.total / 1e9:,.1f} GB are free for {named}"
    action = "Free space on its file system, or shorten retention (`oriel run --log-retention`)"
    if usage.free < _LEAST_BYTES:
        return problem(found, action)
    if usage.free < min(_FEW_BYTES, usage.total * _FEW_PERCENT / 100):
        return warning(found, action)
    if system.f_files and system.f_favail < _FEW_FILES:
        return warning(f"{system.f_favail:,} more files fit on the file system of {named}", action)
    return ok(found)


class ObjectStore(Check):
    """Whether the object store of the data responds, and this user can write and delete there."""

    name: ClassVar[str] = "object store"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.data is None or not _is_remote(subject.data):
            return
        from oriel.storage import StorageError, current_files, uri  # noqa: PLC0415 - see the package

        probe = subject.data / f"_doctor-{os.getpid()}-{time.time_ns()}"
        begun = time.monotonic()
        try:
            current_files().reach(subject.data)
            current_files().create(probe, b"written by oriel doctor, can be deleted", sync=True)
            current_files().delete(probe)
        except (OSError, StorageError) as error:
            action = (
                "Check its address and the credentials in the environment (docs/how-to/cluster.md)"
            )
            yield problem(f"{uri(subject.data)}: {str(error).rstrip('.')}", action)
            return
        milliseconds = 1000 * (time.monotonic() - begun)
        yield ok(f"{uri(subject.data)} stored and deleted an object in {milliseconds:,.0f} ms")


class CommitTimes(Check):
    """Whether the newest commits are from the future, because a machine had a wrong time."""

    name: ClassVar[str] = "commit times"

    def results(self, subject: Subject) -> Iterator[Result]:
        if subject.data is None or _is_remote(subject.data):
            return
        newest = [
            max(entry.stat().st_mtime for entry in entries)
            for log in subject.data.glob("tables/*/_delta_log")
            if (entries := list(log.glob("*.json")))
        ]
        if not newest:
            return
        ahead_seconds = max(newest) - time.time()
        if ahead_seconds > _AHEAD_SECONDS:
            found = f"The newest commit is {ahead_seconds:,.0f} s ahead of the time of this machine"
            yield problem(
                found, "Correct the time of the machine that is wrong. Compare both with `date`"
            )
        else:
            yield ok(f"The newest commit is {max(0.0, -ahead_seconds):,.0f} s old")


def _is_remote(path: Path) -> bool:
    from oriel.storage import is_object  # noqa: PLC0415 - see the package

    return is_object(path)
