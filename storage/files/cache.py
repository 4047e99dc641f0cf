"""Local copies of immutable objects, so that they can be mapped into memory.

The processes of a user on one machine share the copies. The name of a copy includes the run that
created it. Within a run, an object name always has the same content. After a restore from a
backup, a name that an earlier run used can have other content.

    ORIEL_CACHE          the directory. Default: a directory in the one for temporary files
    ORIEL_CACHE_BYTES    the size limit of all copies together. Default: 4 GiB
    ORIEL_CACHE_RUN      the run, set by a process whose child processes share its copies
"""

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DIRECTORY, _BYTES, RUN = "ORIEL_CACHE", "ORIEL_CACHE_BYTES", "ORIEL_CACHE_RUN"
#: The settings that are the same on all machines of a run.
SETTINGS = {_BYTES, RUN}
_BYTES_MAX = 4 * 2**30
#: Limit of the number of copies, because a trim examines every copy.
_COPIES_MAX = 10_000
#: New copies after which the cache is trimmed. A sixteenth of its bytes in new copies also counts.
_TRIM_AFTER_COPIES = 500


class FileCache:
    """Copies by name. The least recently used copies are deleted."""

    def __init__(self) -> None:
        self.directory = Path(os.environ.get(_DIRECTORY) or _default_directory())
        self.bytes_most = int(os.environ.get(_BYTES) or _BYTES_MAX)
        self._run = os.environ.get(RUN) or uuid.uuid4().hex
        self._new_copies = self._new_bytes = 0

    def find(self, name: str) -> Path | None:
        """Return the copy of ``name`` and mark it as used. Return None if it does not exist.

        Another process can delete the copy at any time. A file that is already open stays usable.
        """
        copy = self._path(name)
        try:
            os.utime(copy)
        except FileNotFoundError:
            return None
        return copy

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """Yield the path of a new file. It is deleted after the block unless you keep it."""
        self._make()
        draft = self.directory / f"{uuid.uuid4().hex}.draft"
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)

    def keep(self, name: str, draft: Path) -> None:
        """Rename a draft to the copy of ``name``."""
        self._new_copies += 1
        self._new_bytes += draft.stat().st_size
        draft.replace(self._path(name))
        if self._new_copies >= _TRIM_AFTER_COPIES or self._new_bytes * 16 >= self.bytes_most:
            self._new_copies = self._new_bytes = 0
            self._trim()

    def forget(self, name: str) -> None:
        """Remove the copy of ``name``, if there is one."""
        self._path(name).unlink(missing_ok=True)

    def _trim(self) -> None:
        """Delete the least recently used files, including abandoned drafts, beyond the limits."""
        found = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                # Another process can delete them at the same time.
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found.append((status.st_mtime_ns, status.st_size, entry.path))
        found.sort(reverse=True)
        kept_bytes = 0
        for number, (_, size, path) in enumerate(found, 1):
            kept_bytes += size
            if kept_bytes > self.bytes_most or number > _COPIES_MAX:
                Path(path).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.directory / hashlib.sha256(f"{self._run} {name}".encode()).hexdigest()

    def _make(self) -> None:
        """Create the directory for this user only, because copies are read as state.

        Raises:
            PermissionError: The directory belongs to another user.
        """
        # For each draft, because the system can clean up the directory for temporary files.
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.directory.stat().st_uid != os.getuid():
            message = (
                f"{self.directory} belongs to another user. Set {_DIRECTORY} to your own directory"
            )
            raise PermissionError(message)


def _default_directory() -> str:
    return f"{tempfile.gettempdir()}/oriel-cache-{os.getuid()}"
