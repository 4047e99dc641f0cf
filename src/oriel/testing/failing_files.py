"""Wrappers of ``Files`` for tests. They count operations, fail, or lose unsynced data.

with use_files(FailingFiles(every=7, error=errno.ENOSPC)):
    ...                                     # every seventh write finds the disk full
"""

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from oriel.storage.files import (
    FileIdentity,
    Files,
    FilesByPath,
    Fill,
    ListedFile,
    WrittenFile,
)

if TYPE_CHECKING:
    import pyarrow as pa

_Result = TypeVar("_Result")


class HookedFiles:
    """Call a function before each file operation.

    The name of an operation is the method of ``Files``, except that ``sync_file`` and
    ``sync_directory`` are both ``sync``.

    Args:
        before: The function. It gets the operation and its path. An exception prevents the
            operation. Default: no function.
        inner: The wrapped files. Default: ``FilesByPath()``.

    Example:
        >>> files = HookedFiles(lambda operation, path: print(operation, path))
        >>> files.exists(Path("/no/such/file"))
        exists /no/such/file
        False
    """

    def __init__(
        self, before: Callable[[str, Path], None] | None = None, *, inner: Files | None = None
    ) -> None:
        self._before = before
        self.inner: Files = inner or FilesByPath()

    def before(self, operation: str, path: Path) -> None:
        """Handle an operation before it runs.

        Args:
            operation: The name of the operation.
            path: The file or directory.

        Raises:
            OSError: The operation must not run.
        """
        if self._before is not None:
            self._before(operation, path)

    def reach(self, directory: Path) -> None:
        self.before("reach", directory)
        self.inner.reach(directory)

    def read(self, path: Path) -> bytes:
        self.before("read", path)
        return self.inner.read(path)

    def open(self, path: Path) -> "pa.NativeFile":
        self.before("open", path)
        return self.inner.open(path)

    def map(self, path: Path) -> "pa.NativeFile":
        self.before("map", path)
        return self.inner.map(path)

    def exists(self, path: Path) -> bool:
        self.before("exists", path)
        return self.inner.exists(path)

    def is_directory(self, path: Path) -> bool:
        self.before("is_directory", path)
        return self.inner.is_directory(path)

    def identity(self, path: Path) -> FileIdentity | None:
        self.before("identity", path)
        return self.inner.identity(path)

    def names(self, directory: Path) -> list[str]:
        self.before("names", directory)
        return self.inner.names(directory)

    def listed(self, directory: Path) -> list[ListedFile]:
        self.before("listed", directory)
        return self.inner.listed(directory)

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        self.before("make_directory", directory)
        self.inner.make_directory(directory, sync=sync)

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        self.before("create", path)
        self.inner.create(path, content, sync=sync)

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        self.before("replace", path)
        self.inner.replace(path, content, sync=sync)

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        self.before("write", path)
        return self.inner.write(path, fill, sync=sync)

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        self.before("copy", target)
        self.inner.copy(source, target, sync=sync)

    def touch(self, path: Path) -> None:
        self.before("touch", path)
        self.inner.touch(path)

    def delete(self, path: Path) -> None:
        self.before("delete", path)
        self.inner.delete(path)

    def delete_directory(self, directory: Path) -> None:
        self.before("delete_directory", directory)
        self.inner.delete_directory(directory)

    def sync_file(self, path: Path) -> None:
        self.before("sync", path)
        self.inner.sync_file(path)

    def sync_directory(self, directory: Path) -> None:
        self.before("sync", directory)
        self.inner.sync_directory(directory)


class CountingFiles(HookedFiles):
    """Record each operation with its path, in order.

    Args:
        inner: The wrapped files. Default: ``FilesByPath()``.

    Example:
        >>> files = CountingFiles()
        >>> files.exists(Path("/no/such/file"))
        False
        >>> files.operations
        [('exists', PosixPath('/no/such/file'))]
    """

    def __init__(self, *, inner: Files | None = None) -> None:
        super().__init__(inner=inner)
        self.operations: list[tuple[str, Path]] = []

    def before(self, operation: str, path: Path) -> None:
        """Record an operation.

        Args:
            operation: The name of the operation.
            path: The file or directory.
        """
        self.operations.append((operation, path))

    @property
    def counts(self) -> Counter[str]:
        """Return the number of operations by name."""
        return Counter(operation for operation, _ in self.operations)


class FailingFiles(HookedFiles):
    """Fail every n-th operation that writes, deletes or syncs. Reads are not counted.

    Args:
        every: The n.
        error: The number of the raised error, for example ``errno.ENOSPC``.
        when: The moment of the failure. ``before``: nothing is done. ``after``: the operation
            completes, and the caller gets an error. ``half``: ``write`` writes the first half of
            the file, ``create`` and ``replace`` leave a draft, and others do nothing.
        first: The first operation that fails, counted from 1. Default: ``every``.
        inner: The wrapped files. Default: ``FilesByPath()``.

    Example:
        >>> FailingFiles(1).touch(Path("/data/a"))
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: '/data/a'
    """

    def __init__(
        self,
        every: int,
        error: int = errno.ENOSPC,
        *,
        when: Literal["before", "half", "after"] = "before",
        first: int | None = None,
        inner: Files | None = None,
    ) -> None:
        """See the class."""
        super().__init__(inner=inner)
        self._every = every
        self._error = error
        self._when = when
        self._until = every if first is None else first
        #: How many operations failed.
        self.failed = 0

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        self._failing(
            "create",
            path,
            lambda: self.inner.create(path, content, sync=sync),
            lambda: _leave_draft(path, content),
        )

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        self._failing(
            "replace",
            path,
            lambda: self.inner.replace(path, content, sync=sync),
            lambda: _leave_draft(path, content),
        )

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        return self._failing(
            "write",
            path,
            lambda: self.inner.write(path, fill, sync=sync),
            lambda: _leave_half(path, fill),
        )

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        self._failing(
            "make_directory", directory, lambda: self.inner.make_directory(directory, sync=sync)
        )

    def touch(self, path: Path) -> None:
        self._failing("touch", path, lambda: self.inner.touch(path))

    def delete(self, path: Path) -> None:
        self._failing("delete", path, lambda: self.inner.delete(path))

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        self._failing("copy", target, lambda: self.inner.copy(source, target, sync=sync))

    def delete_directory(self, directory: Path) -> None:
        self._failing("delete_directory", directory, lambda: self.inner.delete_directory(directory))

    def sync_file(self, path: Path) -> None:
        self._failing("sync", path, lambda: self.inner.sync_file(path))

    def sync_directory(self, directory: Path) -> None:
        self._failing("sync", directory, lambda: self.inner.sync_directory(directory))

    def _failing(
        self,
        operation: str,
        path: Path,
        run: Callable[[], _Result],
        half: Callable[[], object] = lambda: None,
    ) -> _Result:
        self.before(operation, path)
        self._until -= 1
        if self._until:
            return run()
        self._until = self._every
        self.failed += 1
        if self._when == "half":
            half()
        elif self._when == "after":
            run()
        raise OSError(self._error, os.strerror(self._error), str(path))


def _leave_draft(path: Path, content: bytes) -> None:
    """Leave a draft as a killed writer does.

    Its host is another one, so ``LocalFiles`` does not delete it as abandoned.
    """
    draft = path.with_name(f".{path.name}.1@elsewhere.draft")
    draft.write_bytes(content[: len(content) // 2])


def _leave_half(path: Path, fill: Fill) -> None:
    import pyarrow as pa  # noqa: PLC0415 - as in local files

    sink = pa.BufferOutputStream()
    fill(sink)
    content = sink.getvalue().to_pybytes()
    path.write_bytes(content[: len(content) // 2])


@dataclass
class _Unsynced:
    """The state on disk of a path whose content or name was not synced after a change."""

    before: bytes | None
    content_synced: bool
    name_synced: bool = False


class ForgettingFiles(HookedFiles):
    """Track unsynced changes, so that ``lose_power`` can undo them.

    Only changes through this object are tracked, not the files that Spark or libraries write. All
    files that exist before count as synced.

    Args:
        inner: The wrapped files. Default: ``FilesByPath()``.

    Example:
        >>> path = Path(mkdtemp()) / "a"
        >>> files = ForgettingFiles()
        >>> files.create(path, b"content", sync=False)
        >>> lost = files.lose_power()
        >>> lost == [path]
        True
        >>> path.exists()
        False
    """

    def __init__(self, *, inner: Files | None = None) -> None:
        super().__init__(inner=inner)
        self._unsynced: dict[Path, _Unsynced] = {}

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        super().create(path, content, sync=sync)
        self._changed(path, None, sync=sync)

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        before = self._on_disk(path)
        super().replace(path, content, sync=sync)
        self._changed(path, before, sync=sync)

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        """See ``Files``. With ``sync``, the content is on disk, but not the name."""
        written = super().write(path, fill, sync=sync)
        self._unsynced[path] = _Unsynced(None, content_synced=sync)
        return written

    def delete(self, path: Path) -> None:
        """See ``Files``. Until the directory is synced, a power loss restores the file."""
        before = self._on_disk(path)
        super().delete(path)
        self._unsynced[path] = _Unsynced(before, content_synced=True)

    def sync_file(self, path: Path) -> None:
        super().sync_file(path)
        if path in self._unsynced:
            self._unsynced[path].content_synced = True

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        for path, unsynced in list(self._unsynced.items()):
            if path.parent == directory:
                unsynced.name_synced = True
                if unsynced.content_synced:
                    del self._unsynced[path]

    def lose_power(self, torn: Literal["missing", "empty", "cut"] = "missing") -> list[Path]:
        """Change the files to a state that a disk can have after a power loss.

        Args:
            torn: ``missing`` undoes changes whose name was not synced. ``empty`` and ``cut`` keep
                them. Unsynced content under a name that remains is empty, or, with ``cut``, its
                first half.

        Returns:
            The paths that changed.
        """
        lost = []
        for path, unsynced in self._unsynced.items():
            keeps_name = unsynced.name_synced or torn != "missing"
            if keeps_name and not unsynced.content_synced and path.exists():
                content = path.read_bytes()
                path.write_bytes(content[: len(content) // 2] if torn == "cut" else b"")
            elif keeps_name:
                continue
            elif unsynced.before is not None:
                path.write_bytes(unsynced.before)
            else:
                path.unlink(missing_ok=True)
            lost.append(path)
        self._unsynced = {}
        return lost

    def _on_disk(self, path: Path) -> bytes | None:
        """Return the content that a file would have after a power loss now."""
        if path in self._unsynced:
            return self._unsynced[path].before
        return path.read_bytes() if path.exists() else None

    def _changed(self, path: Path, before: bytes | None, *, sync: bool) -> None:
        if sync:
            self._unsynced.pop(path, None)
        else:
            self._unsynced[path] = _Unsynced(before, content_synced=False)
