"""Files on local file systems and in buckets, chosen by the path of each operation."""

from pathlib import Path
from typing import TYPE_CHECKING

from oriel.storage.files.contract import FileIdentity, Files, Fill, ListedFile, WrittenFile
from oriel.storage.files.local import LocalFiles
from oriel.storage.files.objects import ObjectFiles
from oriel.storage.files.paths import is_object

if TYPE_CHECKING:
    import pyarrow as pa


class FilesByPath:
    """``Files`` on this machine's file systems and in buckets."""

    def __init__(self) -> None:
        self._local, self._objects = LocalFiles(), ObjectFiles()

    def _of(self, path: Path) -> Files:
        return self._objects if is_object(path) else self._local

    def reach(self, directory: Path) -> None:
        self._of(directory).reach(directory)

    def read(self, path: Path) -> bytes:
        return self._of(path).read(path)

    def open(self, path: Path) -> "pa.NativeFile":
        return self._of(path).open(path)

    def map(self, path: Path) -> "pa.NativeFile":
        return self._of(path).map(path)

    def exists(self, path: Path) -> bool:
        return self._of(path).exists(path)

    def is_directory(self, path: Path) -> bool:
        return self._of(path).is_directory(path)

    def identity(self, path: Path) -> FileIdentity | None:
        return self._of(path).identity(path)

    def names(self, directory: Path) -> list[str]:
        return self._of(directory).names(directory)

    def listed(self, directory: Path) -> list[ListedFile]:
        return self._of(directory).listed(directory)

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        self._of(directory).make_directory(directory, sync=sync)

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        self._of(path).create(path, content, sync=sync)

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        self._of(path).replace(path, content, sync=sync)

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        return self._of(path).write(path, fill, sync=sync)

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        self._of(target).copy(source, target, sync=sync)

    def touch(self, path: Path) -> None:
        self._of(path).touch(path)

    def delete(self, path: Path) -> None:
        self._of(path).delete(path)

    def delete_directory(self, directory: Path) -> None:
        self._of(directory).delete_directory(directory)

    def sync_file(self, path: Path) -> None:
        self._of(path).sync_file(path)

    def sync_directory(self, directory: Path) -> None:
        self._of(directory).sync_directory(directory)
