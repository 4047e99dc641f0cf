"""The prepared batches of one store: each is a version of the state, and what to commit.

CHECKPOINT/state/<store>/<n>.json    batch n as prepared, its owner, and a digest of both
CHECKPOINT/state/<store>/*.arrow     the segments that the versions name, with digests in the names
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import orjson

from oriel.pipeline.commit.checkpoint.stream_time_override import with_override
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import (
    create_file,
    current_files,
    sync_directories,
    sync_directory,
    with_digest,
    without_digest,
)

#: A state version: the batch, and the index of the attempt if it is not the first.
_VERSION = re.compile(r"(?P<batch>\d+)(?:\.\d+)?\.json")
#: The name of a segment starts with the batch whose task wrote it.
_SEGMENT = re.compile(r"(?:(?P<batch>\d{12,})-)?.*\.arrow")


class StateVersions:
    """The prepared batches of one store."""

    def __init__(
        self,
        directory: Path,
        *,
        sync: bool,
        check_epoch: Callable[[], None] = lambda: None,
        application: str | None = None,
    ) -> None:
        """Use the directory ``directory``. Create it if it does not exist.

        Args:
            directory: The directory.
            sync: Whether files are forced to disk.
            check_epoch: Raises ``Fenced`` if this process must not write any more. Default: no
                check, because versions outside a checkpoint have one writer.
            application: The application id of the pipeline. None: read versions of any pipeline.
        """
        current_files().make_directory(directory, sync=sync)
        if sync:
            # A killed process can have left a version whose name is not on disk.
            sync_directory(directory)
        self.directory = directory
        self.sync = sync
        self.check_epoch = check_epoch
        self._application = application
        #: The names of the files that ``remove_before`` kept, None before its first call.
        self._left: set[str] | None = None

    def load(self, batch: int) -> PreparedBatch | None:
        """Return the prepared batch, None if it does not exist.

        Raises:
            CheckpointError: the version is damaged.
        """
        prepared, damage, _ = self._read(batch)
        if prepared is None and damage is not None:
            raise damage
        return prepared

    def prepared(self, batch: int) -> PreparedBatch | None:
        """Return the prepared batch, None if it does not exist or is damaged."""
        return self._read(batch)[0]

    def newest(self) -> int:
        """Return the last batch that has a version, also a damaged one. -1 if no version exists."""
        names = current_files().names(self.directory)
        versions = filter(None, map(_VERSION.fullmatch, names))
        return max((int(version["batch"]) for version in versions), default=-1)

    def last_prepared(self) -> PreparedBatch | None:
        """Return the last prepared batch that is intact: the newest or the previous one."""
        newest = self.newest()
        return self.prepared(newest) or self.prepared(newest - 1)

    def prepare(
        self, batch: int, prepared: PreparedBatch, directories: Iterable[Path]
    ) -> PreparedBatch:
        """Write the prepared batch as a whole. Return the batch as it is then prepared.

        If several processes prepare the same batch, one process succeeds, and the others receive
        its result. A batch is prepared as soon as its version exists, so the files that it names
        must be on disk before. Their names are forced to disk by one sync per directory.

        Args:
            batch: The number of the batch.
            prepared: The batch as this process has computed it.
            directories: The directories of the files that ``prepared`` names. The contents of these
                files are already on disk.

        Raises:
            Fenced: another process has taken over.
        """
        self.check_epoch()
        # A version is the only file that names its segments. If a power loss kept the version and
        # lost the name of a segment, the state of batch n would be lost. So these syncs precede its
        # creation.
        if self.sync:
            sync_directories([self.directory, *directories])
        while True:
            existing, _, attempt = self._read(batch)
            if existing is not None:
                # If a successor has prepared the batch, this process ends here. Otherwise, the file
                # is the last effect of a process that this one has replaced (decision 0031).
                self.check_epoch()
                return existing
            try:
                # The file appears with its whole content, and never replaces another one. So a
                # crash in this call leaves either version n-1 or a complete version n.
                create_file(self.path(batch, attempt), self._content(prepared), sync=self.sync)
            except FileExistsError:
                # Another process has created the file after it was read. If it is intact, it
                # counts. If it is damaged, the next attempt has another name.
                continue
            return prepared

    def remove_before(self, batch: int, keep: Iterable[PreparedBatch]) -> None:
        """Remove versions below ``batch``, and segments that no version of ``keep`` names.

        ``keep`` has the last versions, and files of later batches stay. So the removal is harmless
        at any time, also if this process was suspended and other processes have continued. A
        version names only files of the version before it and new files of its own batch, and a
        prepared batch never changes. So no later version names a file that no version of ``keep``
        names (decision 0031).

        The directory is listed once. Later calls only consider the files that the previous call
        kept. Files of a task that ran twice stay until the next start.

        Raises:
            Fenced: another process has taken over.
        """
        self.check_epoch()
        versions = list(keep)
        last = max((version.record.batch for version in versions), default=batch)
        referenced = {name for version in versions for name in version.state_files}
        referenced |= {self.path(version.record.batch).name for version in versions}
        files = self._left
        if files is None:
            # Only a listing finds segments of attempts that were killed before their version
            # existed.
            files = set(current_files().names(self.directory))
        needed = {name for name in files if _may_be_needed(name, batch, last)}
        # The order of the deletions does not matter. A crash between two deletions can leave an old
        # version without its segments, but a start only opens the segments of the last two
        # versions.
        for name in files - referenced - needed:
            current_files().delete(self.directory / name)
        self._left = referenced | needed

    def _read(self, batch: int) -> tuple[PreparedBatch | None, CheckpointError | None, int]:
        """Return the version of a batch, the error of a damaged version, and the next attempt.

        A damaged version is never replaced, and the next attempt gets its own file name. To remove
        a version and write another would be two steps. A process can be suspended between them
        while another process writes the file.
        """
        damage, attempt = None, 0
        while True:
            path = self.path(batch, attempt)
            try:
                content = without_digest(current_files().read(path))
                prepared = PreparedBatch.from_json(content)
                self._check_owner(orjson.loads(content).get("owner"), prepared.record.batch, batch)
                # The digest and the owner are those of the version itself, so they are compared
                # before its stream times are overridden.
                return with_override(self.directory, batch, prepared), damage, attempt
            except FileNotFoundError:
                return None, damage, attempt
            # JSON that is not a version fails at any place of the parser, so each of its errors
            # means damage.
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                message = (
                    f"state version {path} is damaged ({error}). Restore the checkpoint from a "
                    "backup, or compute the store again from its topics with `oriel rebuild "
                    f"{shlex.quote(self._store)}`"
                )
                damage, attempt = CheckpointError(message), attempt + 1

    def _content(self, prepared: PreparedBatch) -> bytes:
        """Return the content of a version: the batch, its owner, and a digest of both."""
        owner = {"application": self._application, "store": self.directory.name}
        fields = {**orjson.loads(prepared.to_json()), "owner": owner}
        return with_digest(orjson.dumps(fields))

    def _check_owner(self, owner: Mapping[str, str] | None, found: int, batch: int) -> None:
        """Check that a version belongs to this batch, store and application.

        Versions of earlier releases do not have an owner.

        Raises:
            ValueError: the version belongs to another batch, store or application.
        """
        if found != batch:
            message = f"it is of batch {found}"
            raise ValueError(message)
        if owner is None:
            return
        store, application = owner["store"], owner["application"]
        # Without an application, versions of any application are accepted. A version that was
        # written outside a checkpoint has a null application, which fits any other.
        own = self._application or application, self.directory.name
        if (application or own[0], store) != own:
            message = f"it belongs to store {store!r} of application {application}"
            raise ValueError(message)

    @property
    def _store(self) -> str:
        """The name of the store, without the generation."""
        return self.directory.name.partition("@")[0]

    def path(self, batch: int, attempt: int = 0) -> Path:
        """Return the file of an attempt to write the version of ``batch``."""
        return self.directory / (f"{batch:012d}" + (f".{attempt}" if attempt else "") + ".json")


def _may_be_needed(name: str, batch: int, last: int) -> bool:
    """Return True if a file stays although no version names it.

    Versions from ``batch`` on, segments of batches after ``last``, and unknown files stay.
    """
    version = _VERSION.fullmatch(name)
    if version is not None:
        return int(version["batch"]) >= batch
    segment = _SEGMENT.fullmatch(name)
    return segment is None or int(segment["batch"] or 0) > last
