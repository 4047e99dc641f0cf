"""What can be done with files that decide something, or that a decision refers to."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


#: Writes the content of a file to a sink.
Fill = Callable[["pa.NativeFile"], object]


#: Says whether a file is still the one that it was: inode (or what stands for it), modification
#: time in ns, size in bytes.
Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written: its size in bytes, and when, in ms since 1970."""

    size: int
    modified_ms: int


@dataclass(frozen=True)
class ListedFile:
    """A file in a folder: its name, size in bytes, and when it was changed, in ms since 1970."""

    name: str
    size: int
    modified_ms: int


class Files(Protocol):
    """Effects on files. Any of them may raise ``OSError``; then it may have happened or not.

    With ``sync`` content and name are on disk when a method returns.
    """

    def reach(self, folder: Path) -> None:
        """See whether what ``folder`` is to be in can be used; the folder need not be there.

        Raises:
            ObjectStoreFailed: it can't; the message says why and the way out.
        """

    def read(self, path: Path) -> bytes:
        """The content of a file; ``FileNotFoundError`` if there is none."""

    def open(self, path: Path) -> "pa.NativeFile":
        """A file that is never changed, to be read in any order; of it only what is asked for."""

    def map(self, path: Path) -> "pa.NativeFile":
        """The same mapped into memory: of a file that is read again and again, here and there."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file of that name."""

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of that name; among objects, one that has a file."""

    def stamp(self, path: Path) -> Stamp | None:
        """Which content a file has, None where there is none."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, in no order; none where there is no folder."""

    def listed(self, folder: Path) -> list[ListedFile]:
        """The files in a folder, in no order; none where there is no folder."""

    def make_folder(self, folder: Path, *, sync: bool) -> None:
        """Make a folder with those above it, as far as they aren't there."""

    def create(self, path: Path, content: bytes, *, sync: bool) -> None:
        """Write a file that is seen whole or not at all, and never overwritten (put-if-absent).

        Raises:
            FileExistsError: there is a file of that name; it stays as it is.
        """

    def replace(self, path: Path, content: bytes, *, sync: bool) -> None:
        """Write a file so that a reader sees the old or the new one, never a part."""

    def write(self, path: Path, fill: Fill, *, sync: bool) -> WrittenFile:
        """Write a file of a name that nobody else has and nothing refers to yet.

        ``fill`` gets a sink for the content. With ``sync`` the content is on disk; the folder is
        synced once for many files, by who is about to refer to them.
        """

    def copy(self, source: Path, target: Path, *, sync: bool) -> None:
        """Give a file that is never changed another name, too, which nobody has."""

    def touch(self, path: Path) -> None:
        """Let a file be changed at this moment, with the content that it has."""

    def delete(self, path: Path) -> None:
        """Delete a file, if it is there."""

    def delete_folder(self, folder: Path) -> None:
        """Delete a folder with all that is in it, as far as it is there."""

    def sync_file(self, path: Path) -> None:
        """Force the content of a file to disk."""

    def sync_folder(self, folder: Path) -> None:
        """Force a folder's list of names to disk, so that new files in it can be found again."""
