"""Copies of objects that never change, on a disk of this machine, so that they can be mapped.

The processes of a user on one machine share them. A copy's name has the run that made it: within a
run a name has one content for ever, but a folder that is restored from a backup may get other
contents under names that an earlier run knew.

    ORIEL_CACHE          the folder; without it one below the folder for temporary files
    ORIEL_CACHE_BYTES    how much the copies may have together, 4 GiB without it
    ORIEL_CACHE_RUN      the run; set by who starts processes that are to share their copies
"""

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FOLDER, _BYTES, RUN = "ORIEL_CACHE", "ORIEL_CACHE_BYTES", "ORIEL_CACHE_RUN"
#: What holds on all machines of a run.
SETTINGS = {_BYTES, RUN}
_BYTES_MOST = 4 * 2**30
#: More copies than this are too many to be looked through, however small they are.
_COPIES_MOST = 10_000
#: All copies are looked through after so many new ones, or a sixteenth of their bytes.
_LOOK_COPIES = 500


class FileCache:
    """Copies by name, of which those that were not used for longest go."""

    def __init__(self) -> None:
        self.folder = Path(os.environ.get(_FOLDER) or _own_folder())
        self.bytes_most = int(os.environ.get(_BYTES) or _BYTES_MOST)
        self._run = os.environ.get(RUN) or uuid.uuid4().hex
        self._new_copies = self._new_bytes = 0

    def find(self, name: str) -> Path | None:
        """The copy of ``name``, which is used hereby; None if there is none.

        It may go at any time: whoever has opened it keeps it.
        """
        copy = self._path(name)
        try:
            os.utime(copy)
        except FileNotFoundError:
            return None
        return copy

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A place for a new file, which is gone behind the block unless it was kept."""
        self._make()
        draft = self.folder / f"{uuid.uuid4().hex}.draft"
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def keep(self, name: str, draft: Path) -> None:
        """Keep a draft as the copy of ``name``."""
        self._new_copies += 1
        self._new_bytes += draft.stat().st_size
        draft.replace(self._path(name))
        if self._new_copies >= _LOOK_COPIES or self._new_bytes * 16 >= self.bytes_most:
            self._new_copies = self._new_bytes = 0
            self._trim()

    def forget(self, name: str) -> None:
        """Remove the copy of ``name``, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _trim(self) -> None:
        """Remove the copies that were not used for longest, and drafts that were left long ago."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                # Another process may remove them at the same time.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append((status.st_mtime_ns, status.st_size, entry.path))
        found.sort(reverse=True)
        held = 0
        for number, (_, size, path) in enumerate(found, 1):
            held += size
            if held > self.bytes_most or number > _COPIES_MOST:
                Path(path).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / hashlib.sha256(f"{self._run} {name}".encode()).hexdigest()

    def _make(self) -> None:
        """Make the folder, for this user alone: copies are read as state.

        Raises:
            PermissionError: it is another user's.
        """
        # Each time: what is below the folder for temporary files may be cleaned up.
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.folder.stat().st_uid != os.getuid():
            message = f"{self.folder} belongs to another user. Set {_FOLDER} to your own directory"
            raise PermissionError(message)


def _own_folder() -> str:
    return f"{tempfile.gettempdir()}/oriel-cache-{os.getuid()}"
