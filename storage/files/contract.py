"""The contract of file operations that must be atomic or durable."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


#: A function that writes the content of a file to a sink.
Fill = Callable[["pa.NativeFile"], object]


#: Identifies the content of a file: inode (for objects, a checksum of the entity tag),
#: modification time in ns, size in bytes.
FileIdentity = tuple[int, int, int]


@dataclass(frozen=True)
class WrittenFile:
    """The size of a written file in bytes, and its modification time in ms since the epoch."""

    size: int
    modified_ms: int


@dataclass(frozen=True)
class ListedFile:
    """A file in a directory: its name, size in bytes, and modification time in ms."""

    name: str
    size: int
    modified_ms: int


class Files(Protocol):
    """Operations on files.

    Each can raise ``OSError``. Then the operation has or has not happened. With ``sync``, content
    and name are on disk when a method returns.
    """

    def reach(self, directory: Path) -> None:
        """Check that the storage of ``directory`` is usable. The directory need not exist.

        Raises:
            ObjectStoreFailed: It is not usable. The message says why and what to do.
        """

    def read(self, path: Path) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    def open(self, path: Path) -> "pa.NativeFile":
        """Open an immutable file for random reads, which load only the ranges they need."""

    def map(self, path: Path) -> "pa.NativeFile":
        """Map an immutable file into memory, for repeated random reads."""

    def exists(self, path: Path) -> bool:
        """Return whether a file of this name exists."""

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory exists. In a bucket, it exists if it contains an object."""

    def identity(self, path: Path) -> FileIdentity | None:
        """Return the identity of a file's content, None if the file does not exist."""

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory, unordered. A missing directory has no names."""

    def listed(self, directory: Path) -> list[ListedFile]:
        """Return the files in a directory, unordered. A missing directory has no files."""

    def make_directory(self, directory: Path, *, sync: bool) -> None:
        """Create a directory and its parents, unless they exist."""

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        """Write a new file atomically and never overwrite one (put-if-absent).

        Raises:
            FileExistsError: A file of this name exists. It stays unchanged.
        """

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        """Write a file so that a reader sees the old or the new content, never a part."""

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        """Write a file with a unique name that nothing refers to yet.

        Args:
            path: The file.
            fill: A function that writes the content to the sink that it is called with.
            sync: Force the content to disk, but not the name. The caller syncs the directory once
                for many files, before it refers to them.
        """

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        """Add a second, unused name for an immutable file."""

    def touch(self, path: Path) -> None:
        """Set the modification time of a file to now."""

    def delete(self, path: Path) -> None:
        """Delete a file if it exists."""

    def delete_directory(self, directory: Path) -> None:
        """Delete a directory and its content if it exists."""

    def sync_file(self, path: Path) -> None:
        """Force the content of a file to disk."""

    def sync_directory(self, directory: Path) -> None:
        """Force the names in a directory to disk, so that its new files survive a power loss."""
