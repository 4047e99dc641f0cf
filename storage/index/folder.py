"""The folder of one index: generations, the pointer to the current one, marks.

A rebuilt index is a new generation in a folder of its own, published by replacing the pointer
``CURRENT`` with one atomic rename. So whoever follows the pointer finds a generation that is
complete. Readers keep what they have mapped until they see the pointer change: a removed file
lives on until the last process closes it, so nothing is ever pulled away under them.
"""

import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from oriel.storage.files import replace_file, sync_file, sync_folder

_CURRENT = "CURRENT"
_DAMAGED = "DAMAGED"
_SUSPECT = "SUSPECT"
_WRITTEN = "WRITTEN"
#: LMDB's file of pages in a generation.
DATA_FILE = "data.mdb"

#: Identity of the pointer file: inode and modification time in ns.
PointerStamp = tuple[int, int]

#: The system's word on this boot, where it has one (Linux).
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
        """The folder of the generation to read, None when there is none.

        Raises:
            OSError: it can't be looked up now, which says nothing about it.
        """
        try:
            name = Path(self._pointer).read_text().strip()
            generation = self.path / name
            # Path.is_file would take some errors for an absent file.
            (generation / DATA_FILE).stat()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return None
        return generation if name else None

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
        replace_file(Path(self._pointer), generation.name.encode(), sync=True)
        self.remove_others(generation)

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


def data_bytes(generation: Path) -> int:
    """The size of a generation's file, which only grows; 0 when it is not there."""
    try:
        return (generation / DATA_FILE).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def mark_damaged(generation: Path, reason: str) -> None:
    """Leave word for the tailer that this generation must be rebuilt."""
    _leave(generation / _DAMAGED, reason)


def damage(generation: Path) -> str | None:
    """Why a reader found this generation damaged, None when none did.

    Raises:
        OSError: it can't be looked up now.
    """
    try:
        return (generation / _DAMAGED).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None


def mark_suspect(generation: Path, reason: str) -> None:
    """Ask the tailer to look through this generation, because a reader of it crashed."""
    _leave(generation / _SUSPECT, reason)


def is_suspect(generation: Path) -> bool:
    """Whether somebody asked to look through this generation."""
    return (generation / _SUSPECT).exists()


def clear_suspicion(generation: Path) -> None:
    """The generation was looked through and found intact."""
    (generation / _SUSPECT).unlink(missing_ok=True)


def note_writing(generation: Path) -> None:
    """Note that a writer has the generation open, before it opens it: see ``suspicion``."""
    _leave(generation / _WRITTEN, f"open {_boot()}")


def note_written(generation: Path) -> None:
    """Note how the file is when its writer has closed it: see ``suspicion``."""
    with suppress(OSError):
        _leave(generation / _WRITTEN, f"closed {_look_of(generation)}")


def suspicion(generation: Path) -> str | None:
    """Why this generation is to be looked through before it is trusted; None if nothing says so.

    A writer that was killed harms nothing: LMDB never writes over pages that are in use, and what
    it handed to the system is there. What can is a crash of the machine, and what others did to the
    file after its writer had closed it.
    """
    try:
        if is_suspect(generation):
            return "a process that read it crashed"
        state, _, noted = (generation / _WRITTEN).read_text().partition(" ")
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        return "nothing says how it was left"
    if state == "open":
        boot = _boot()
        return None if noted and noted == boot else "the machine went down while it was written"
    return None if noted == _look_of(generation) else "it has changed since it was closed"


def _look_of(generation: Path) -> str:
    status = (generation / DATA_FILE).stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _leave(mark: Path, content: str) -> None:
    try:
        mark.write_text(content)
    except OSError:
        # Gone or read-only: then the tailer finds out by itself.
        return
