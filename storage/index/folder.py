"""The folder of one index: generations, the pointer to the current one, marks.

A rebuilt index is a new generation in a folder of its own, published by replacing the pointer
``CURRENT`` with one atomic rename. So whoever follows the pointer finds a generation that is
complete. Readers keep what they have mapped until they see the pointer change: a removed file
lives on until the last process closes it, so nothing is ever pulled away under them.
"""

import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from oriel.storage.files import replace_file, sync_file, sync_folder

_CURRENT, _COMPARED = "CURRENT", "COMPARED"
_DAMAGED = "DAMAGED"
_SUSPECT = "SUSPECT"
_UNVERIFIED = "UNVERIFIED"
#: LMDB's file of pages in a generation.
DATA_FILE = "data.mdb"
#: What the pointer can say. Anything else is damage, for example the zeros of a power loss.
_GENERATION = re.compile(rb"generation-[0-9a-f]{1,64}")

#: Identity of the pointer file: inode and modification time in ns.
PointerStamp = tuple[int, int]


class IndexFolder:
    """One store's index folder. All file effects on it, LMDB's own aside, are in this class."""

    def __init__(self, path: Path) -> None:
        """Use the index in this folder, which need not exist yet."""
        self.path = path
        self._pointer = os.fspath(path / _CURRENT)

    def pointer_stamp(self) -> PointerStamp | None:
        """Identity of the pointer, None when there is no index; one ``stat``.

        Each publication renames a new file into place, so it changes the inode.
        """
        try:
            status = os.stat(self._pointer)  # noqa: PTH116 - in the path of every request
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (status.st_ino, status.st_mtime_ns)

    def current(self) -> Path | None:
        """The folder of the generation to read, None when there is none, or the pointer is damaged.

        Raises:
            OSError: it can't be looked up now, which says nothing about it.
        """
        try:
            name = Path(self._pointer).read_bytes().strip()
            if _GENERATION.fullmatch(name) is None:
                return None
            generation = self.path / name.decode()
            # Path.is_file would take some errors for an absent file.
            (generation / DATA_FILE).stat()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        return generation

    def new_generation(self) -> Path:
        """Make an empty folder for a generation that is to be built."""
        generation = self.path / f"generation-{uuid.uuid4().hex}"
        generation.mkdir(parents=True)
        return generation

    def publish(self, generation: Path) -> None:
        """Make a finished generation the current one, durably, and remove the others."""
        # Content before the pointer to it: after a power loss the pointer names the old
        # generation, which is still whole, or the new one, which is on disk. The old one is
        # removed last, so at no instant the pointer names what is not there.
        sync_file(generation / DATA_FILE)
        sync_folder(generation)
        if os.path.isdir(self._pointer):  # noqa: PTH112 - a text
            # Only damage makes it one, and no rename would replace it.
            shutil.rmtree(self._pointer)
        replace_file(Path(self._pointer), generation.name.encode(), sync=True)
        self.remove_others(generation)

    def touch(self) -> None:
        """Let readers open the current generation again, with a look at its marks."""
        with suppress(OSError):
            os.utime(self._pointer)

    def compared_at(self) -> float | None:
        """When the index was last compared with its table, in seconds since 1970; None if never."""
        try:
            return float((self.path / _COMPARED).read_text())
        except (OSError, ValueError):
            return None

    def note_compared(self, at: float) -> None:
        """Note when the index was compared with its table, so that a restart doesn't repeat it."""
        leave_mark(self.path / _COMPARED, str(at))

    def remove_others(self, generation: Path) -> None:
        """Remove all generations but this one; readers keep what they have mapped."""
        for other in self.path.glob("generation-*"):
            if other != generation:
                self.discard(other)

    def discard(self, generation: Path) -> None:
        """Remove a generation that nobody is to open any more."""
        shutil.rmtree(generation, ignore_errors=True)

    def remove(self) -> None:
        """Remove the whole index, because its table is gone."""
        # The pointer first: a half removed index is none.
        with suppress(OSError):
            Path(self._pointer).unlink()
        shutil.rmtree(self.path, ignore_errors=True)


def withdraw(folder: IndexFolder, generation: Path, reason: str) -> None:
    """Mark the current generation as damaged, and let readers that have it open notice at once."""
    mark_damaged(generation, reason)
    folder.touch()


def data_bytes(generation: Path) -> int:
    """The size of a generation's file, which only grows; 0 when it is not there."""
    try:
        return (generation / DATA_FILE).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def mark_damaged(generation: Path, reason: str) -> None:
    """Leave word for the tailer that this generation must be rebuilt."""
    leave_mark(generation / _DAMAGED, reason)


def damage(generation: Path) -> str | None:
    """Why a reader found this generation damaged, None when none did.

    Raises:
        OSError: it can't be looked up now.
    """
    try:
        return (generation / _DAMAGED).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        return f"{_DAMAGED} is a directory"


def mark_suspect(generation: Path, reason: str) -> None:
    """Ask the tailer to look through this generation, because a reader of it crashed."""
    leave_mark(generation / _SUSPECT, reason)


def is_suspect(generation: Path) -> bool:
    """Whether somebody asked to look through this generation."""
    return (generation / _SUSPECT).exists()


def clear_suspicion(generation: Path) -> None:
    """The generation was looked through and found intact."""
    _remove_mark(generation / _SUSPECT)
    release(generation)


def require_verification(generation: Path) -> None:
    """Let readers that open this generation wait until the tailer has verified it."""
    # An empty file needs no block, so a full disk is no reason to skip this.
    with suppress(OSError):
        (generation / _UNVERIFIED).touch()


def is_unverified(generation: Path) -> bool:
    """Whether readers have to wait for the tailer."""
    return (generation / _UNVERIFIED).exists()


def release(generation: Path) -> None:
    """Let readers use this generation: it was verified."""
    _remove_mark(generation / _UNVERIFIED)


def _remove_mark(mark: Path) -> None:
    try:
        mark.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(mark)


def leave_mark(mark: Path, content: str) -> None:
    """Write a mark of a generation, if that is possible."""
    try:
        mark.write_text(content)
    except OSError:
        # Gone or read-only: then the tailer finds out by itself.
        return
