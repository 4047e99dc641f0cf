"""Files on a file system of this machine, or on a mount that several machines share."""

import errno
import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from oriel.storage.files.contract import FileIdentity, Fill, ListedFile, WrittenFile
from oriel.storage.files.problems import add_filename_to_errors

if TYPE_CHECKING:
    import pyarrow as pa

#: A draft with a file's new content: the file's name, the id of the process, and its host.
_DRAFT = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)(?:@(?P<host>[^/]+))?\.draft")


@contextmanager
def _directory_errors(path: Path) -> Iterator[None]:
    """Raise ``IsADirectoryError`` if ``path`` is a directory. Arrow's error has no ``errno``."""
    try:
        yield
    except OSError as error:
        if error.errno is None and path.is_dir():
            number = errno.EISDIR
            raise IsADirectoryError(number, os.strerror(number), str(path)) from error
        raise


class LocalFiles:
    """``Files`` with the calls of the operating system.

    The file system must have atomic renames and hard links within a directory, as local disks and
    NFS have. Locks are not needed.
    """

    def reach(self, directory: Path) -> None:
        """See ``Files``. This method checks nothing: the first file operation reports a problem."""

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def open(self, path: Path) -> "pa.NativeFile":
        import pyarrow as pa  # noqa: PLC0415 - only processes that read tables have it in memory

        with _directory_errors(path):
            return pa.OSFile(str(path))

    def map(self, path: Path) -> "pa.NativeFile":
        import pyarrow as pa  # noqa: PLC0415

        with _directory_errors(path):
            return pa.memory_map(str(path))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def identity(self, path: Path) -> FileIdentity | None:
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (status.st_ino, status.st_mtime_ns, status.st_size)

    def names(self, directory: Path) -> list[str]:
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def listed(self, directory: Path) -> list[ListedFile]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
            for entry in entries:
                # Another process can delete it meanwhile.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    if entry.is_file():
                        modified_ms = status.st_mtime_ns // 1_000_000
                        found.append(ListedFile(entry.name, status.st_size, modified_ms))
        return found

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        directory.mkdir(parents=True, exist_ok=True)
        if sync:
            for path in missing:
                self.sync_directory(path.parent)

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        draft = self._write_draft(path, content, sync=sync)
        try:
            # A rename would replace the file of another process.
            path.hardlink_to(draft)
        finally:
            draft.unlink(missing_ok=True)
        if sync:
            self.sync_directory(path.parent)

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        self._write_draft(path, content, sync=sync).replace(path)
        if sync:
            self.sync_directory(path.parent)

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        import pyarrow as pa  # noqa: PLC0415

        try:
            with add_filename_to_errors(path):
                with pa.OSFile(str(path), "wb") as sink:
                    fill(sink)
                if sync:
                    self.sync_file(path)
        except BaseException:
            # A partial file would use the space of a full disk.
            path.unlink(missing_ok=True)
            raise
        status = path.stat()
        return WrittenFile(status.st_size, status.st_mtime_ns // 1_000_000)

    def touch(self, path: Path) -> None:
        os.utime(path)

    def delete(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except PermissionError as error:
            # POSIX allows EPERM for an unlink of a directory.
            if path.is_dir():
                raise IsADirectoryError(
                    errno.EISDIR, os.strerror(errno.EISDIR), str(path)
                ) from error
            raise

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        """See ``Files``. The second name is a hard link."""
        target.hardlink_to(source)
        if sync:
            self.sync_file(target)

    def delete_directory(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)

    def sync_file(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, directory: Path) -> None:
        self.sync_file(directory)

    def _write_draft(self, path: Path, content: bytes, *, sync: bool) -> Path:
        """Write a draft in the directory of ``path``, with its content on disk if ``sync``."""
        _delete_abandoned_drafts(path.parent)
        # On a shared mount, processes of two hosts can have the same id.
        draft = path.with_name(f".{path.name}.{os.getpid()}@{socket.gethostname()}.draft")
        try:
            with add_filename_to_errors(path), draft.open("wb") as file:
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        return draft


@cache
def _delete_abandoned_drafts(directory: Path) -> None:
    """Delete the drafts in ``directory`` of processes of this host that no longer run.

    A process does this once per directory, before its first write, because listing a large
    directory is slow.
    """
    with os.scandir(directory) as entries:
        drafts = [match for entry in entries if (match := _DRAFT.fullmatch(entry.name))]
    for draft in drafts:
        is_of_this_host = draft["host"] in {None, socket.gethostname()}
        if is_of_this_host and not _runs(int(draft["process"])):
            (directory / draft[0]).unlink(missing_ok=True)


def _runs(process: int) -> bool:
    """Return whether a process with this id exists."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
