"""The directory of one index: generations, the pointer to the current one, and marker files.

A rebuilt index is a new generation in its own directory. One atomic rename of the pointer
``CURRENT`` publishes it, so a reader that follows the pointer finds a complete generation. Readers
keep the file that they have mapped until they see that the pointer changed. A deleted file exists
until the last process closes it, so readers never lose a mapped file.
"""

import os
import re
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

from oriel.storage.files import replace_file, sync_directory, sync_file

_CURRENT, _COMPARED = "CURRENT", "COMPARED"
_DAMAGED = "DAMAGED"
_SUSPECT = "SUSPECT"
_UNVERIFIED = "UNVERIFIED"
#: LMDB's file of pages in a generation.
DATA_FILE = "data.mdb"
#: The content of a valid pointer. Any other content is damage, for example zeros after a power
#: loss.
_GENERATION = re.compile(rb"generation-[0-9a-f]{1,64}")

#: Identity of the pointer file: inode and modification time in ns.
PointerIdentity = tuple[int, int]


class IndexDirectory:
    """The index directory of one store."""

    def __init__(self, path: Path) -> None:
        """Use the index in this directory, which does not need to exist yet."""
        self.path = path
        self._pointer = os.fspath(path / _CURRENT)

    def pointer_identity(self) -> PointerIdentity | None:
        """Return the identity of the pointer, or None without an index. It needs one ``stat``.

        Each publication renames a new file to the pointer, so the inode changes.
        """
        try:
            status = os.stat(self._pointer)  # noqa: PTH116 - in the path of every request
        except (FileNotFoundError, NotADirectoryError):
            return None
        return (status.st_ino, status.st_mtime_ns)

    def current(self) -> Path | None:
        """Return the directory of the generation to read.

        Returns:
            The directory, or None if no generation exists or the pointer is damaged.

        Raises:
            OSError: the pointer can't be read now. This does not show damage.
        """
        try:
            name = Path(self._pointer).read_bytes().strip()
            if _GENERATION.fullmatch(name) is None:
                return None
            generation = self.path / name.decode()
            # `Path.is_file` treats some errors as an absent file.
            (generation / DATA_FILE).stat()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        return generation

    def new_generation(self) -> Path:
        """Create an empty directory for a new generation."""
        generation = self.path / f"generation-{uuid.uuid4().hex}"
        generation.mkdir(parents=True)
        return generation

    def publish(self, generation: Path) -> None:
        """Sync a finished generation, publish it as the current one, and delete the others."""
        # Sync the content before the pointer. After a power loss, the pointer names the old
        # generation, which still exists, or the new one, which is on disk. The old one is deleted
        # last, so the pointer always names an existing generation.
        sync_file(generation / DATA_FILE)
        sync_directory(generation)
        if os.path.isdir(self._pointer):  # noqa: PTH112 - a text
            # Only damage can create a directory here, and a rename cannot replace it.
            shutil.rmtree(self._pointer)
        replace_file(Path(self._pointer), generation.name.encode(), sync=True)
        self.remove_others(generation)

    def touch(self) -> None:
        """Let readers open the current generation again and check its marker files."""
        with suppress(OSError):
            os.utime(self._pointer)

    def compared_at(self) -> float | None:
        """Return when the index was last compared with its table.

        Returns:
            Seconds since 1970, or None if it was never compared.
        """
        try:
            return float((self.path / _COMPARED).read_text())
        except (OSError, ValueError):
            return None

    def save_compared_at(self, at: float) -> None:
        """Save when the index was compared with its table, so that a restart does not repeat it."""
        write_marker(self.path / _COMPARED, str(at))

    def remove_others(self, generation: Path) -> None:
        """Delete all generations except this one. Readers keep the files that they have mapped."""
        for other in self.path.glob("generation-*"):
            if other != generation:
                self.discard(other)

    def discard(self, generation: Path) -> None:
        """Delete a generation that no process should open again."""
        shutil.rmtree(generation, ignore_errors=True)

    def remove(self) -> None:
        """Delete the whole index, because its table was deleted."""
        # Delete the pointer first, so that a partly deleted index does not count as an index.
        with suppress(OSError):
            Path(self._pointer).unlink()
        shutil.rmtree(self.path, ignore_errors=True)


def withdraw(directory: IndexDirectory, generation: Path, reason: str) -> None:
    """Mark the current generation as damaged, and let its readers notice at once."""
    mark_damaged(generation, reason)
    directory.touch()


def data_bytes(generation: Path) -> int:
    """Return the size of a generation's file, which only grows, or 0 if it does not exist."""
    try:
        return (generation / DATA_FILE).stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def mark_damaged(generation: Path, reason: str) -> None:
    """Mark a generation as damaged, so that the tailer rebuilds it."""
    write_marker(generation / _DAMAGED, reason)


def damage(generation: Path) -> str | None:
    """Return why a generation was marked as damaged, or None if it was not marked.

    Raises:
        OSError: the marker file can't be read now.
    """
    try:
        return (generation / _DAMAGED).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        return f"{_DAMAGED} is a directory"


def request_verification(generation: Path, reason: str) -> None:
    """Request that the tailer verifies a generation, because one of its readers crashed."""
    write_marker(generation / _SUSPECT, reason)


def is_verification_requested(generation: Path) -> bool:
    """Return True if a verification of this generation was requested."""
    return (generation / _SUSPECT).exists()


def clear_verification_request(generation: Path) -> None:
    """Remove the marker files that request a verification, after it found no damage."""
    _remove_marker(generation / _SUSPECT)
    release(generation)


def block_reads_until_verified(generation: Path) -> None:
    """Let readers that open this generation wait until the tailer has verified it."""
    # An empty file does not need a disk block, so this also works on a full disk.
    with suppress(OSError):
        (generation / _UNVERIFIED).touch()


def are_reads_blocked(generation: Path) -> bool:
    """Return True if readers must wait until the tailer has verified this generation."""
    return (generation / _UNVERIFIED).exists()


def release(generation: Path) -> None:
    """Let readers use this generation, because it was verified."""
    _remove_marker(generation / _UNVERIFIED)


def _remove_marker(mark: Path) -> None:
    try:
        mark.unlink(missing_ok=True)
    except IsADirectoryError:
        shutil.rmtree(mark)


def write_marker(mark: Path, content: str) -> None:
    """Write a marker file of a generation, if that is possible."""
    try:
        mark.write_text(content)
    except OSError:
        # The directory was deleted or is read-only. The tailer detects this by itself.
        return
