"""The prepared batches of one store: a version of its state each, and what commits it.

CHECKPOINT/state/<store>/<n>.json    batch n as prepared, whose it is, and the digest of both
CHECKPOINT/state/<store>/*.arrow     the segments that the versions name, by their digests
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import orjson

from oriel.pipeline.commit.mend import mended
from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import (
    create_file,
    current_files,
    sync_folder,
    sync_folders,
    with_digest,
    without_digest,
)

#: A state version: the batch, and the number of the attempt behind the first.
_VERSION = re.compile(r"(?P<batch>\d+)(?:\.\d+)?\.json")
#: A segment begins with the batch whose task wrote it.
_SEGMENT = re.compile(r"(?:(?P<batch>\d{12,})-)?.*\.arrow")


def _unfenced() -> None:
    """Nobody else writes: for versions outside a checkpoint."""


class StateVersions:
    """The prepared batches of one store."""

    def __init__(
        self,
        folder: Path,
        *,
        sync: bool,
        check_epoch: Callable[[], None] = _unfenced,
        application: str | None = None,
    ) -> None:
        """Use ``folder``, making it where it isn't there; ``sync``: files are forced to disk.

        ``check_epoch`` raises ``Fenced`` if this process may not write any more. ``application``
        is the id of the pipeline, None if any pipeline's versions can be read.
        """
        current_files().make_folder(folder, sync=sync)
        if sync:
            # A process that was killed may have left a version whose name isn't on disk.
            sync_folder(folder)
        self.folder = folder
        self.sync = sync
        self.check_epoch = check_epoch
        self._application = application
        #: Files that ``forget_before`` left, by name; None before its first call.
        self._left: set[str] | None = None

    def load(self, batch: int) -> PreparedBatch | None:
        """Return the prepared batch, None where there is none.

        Raises:
            CheckpointError: the file is there but damaged.
        """
        prepared, damage, _ = self._read(batch)
        if prepared is None and damage is not None:
            raise damage
        return prepared

    def decided(self, batch: int) -> PreparedBatch | None:
        """Return the prepared batch, None where there is none that is whole."""
        return self._read(batch)[0]

    def newest(self) -> int:
        """The last batch that has a version, whole or damaged; -1 where there is none."""
        names = current_files().names(self.folder)
        versions = filter(None, map(_VERSION.fullmatch, names))
        return max((int(version["batch"]) for version in versions), default=-1)

    def last_decided(self) -> PreparedBatch | None:
        """Return the last prepared batch that is whole: the newest, or the one before it."""
        newest = self.newest()
        return self.decided(newest) or self.decided(newest - 1)

    def decide(self, batch: int, prepared: PreparedBatch, folders: Iterable[Path]) -> PreparedBatch:
        """Write the prepared batch, all of it or nothing; return what the batch then is.

        Of several processes that prepare a batch one decides it, and the others get what that
        one wrote. ``folders`` hold the files that it names, whose contents are on disk. Their
        names are forced to disk first, by one sync of each folder however many files a batch has:
        the batch is decided once the version is there, so what it refers to must be, too.

        Raises:
            Fenced: another process has taken over.
        """
        self.check_epoch()
        if self.sync:
            sync_folders([self.folder, *folders])
        while True:
            there, _, attempt = self._read(batch)
            if there is not None:
                self.check_epoch()
                return there
            try:
                create_file(self.path(batch, attempt), self._content(prepared), sync=self.sync)
            except FileExistsError:
                continue
            return prepared

    def forget_before(self, batch: int, keep: Iterable[PreparedBatch]) -> None:
        """Remove versions below ``batch`` and every segment that none of ``keep`` names.

        ``keep`` are the last versions, and no file of a later batch goes. So it does no harm
        whenever it happens, also when this process was suspended in it and others have gone on:
        a version names files of the one before and new ones of its own batch, and a batch that is
        decided stays what it is. What no version of ``keep`` names, no later one ever will
        (decision 0031).

        The folder is listed once: after that, what can go is what was left the time before.
        Files of a task that ran twice stay until the next start.

        Raises:
            Fenced: another process has taken over.
        """
        self.check_epoch()
        versions = list(keep)
        last = max((version.record.batch for version in versions), default=batch)
        named = {name for version in versions for name in version.state_files}
        named |= {self.path(version.record.batch).name for version in versions}
        left = self._left
        if left is None:
            left = set(current_files().names(self.folder))
        needed = {name for name in left if _may_be_needed(name, batch, last)}
        for name in left - named - needed:
            current_files().delete(self.folder / name)
        self._left = named | needed

    def _read(self, batch: int) -> tuple[PreparedBatch | None, CheckpointError | None, int]:
        """The version of a batch, what is wrong with one that is damaged, the next attempt.

        A damaged version stays where it is and the next attempt gets a number: to remove it and
        to write another in its place would be two steps, and between them a process may be
        suspended until somebody else has written there.
        """
        damage, attempt = None, 0
        while True:
            path = self.path(batch, attempt)
            try:
                content = without_digest(current_files().read(path))
                prepared = PreparedBatch.from_json(content)
                self._check_owner(orjson.loads(content).get("owner"), prepared.record.batch, batch)
                return mended(self.folder, batch, prepared), damage, attempt
            except FileNotFoundError:
                return None, damage, attempt
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                message = (
                    f"state version {path} is damaged ({error}). Restore the checkpoint from a "
                    "backup, or compute the store again from its topics with `oriel rebuild "
                    f"{shlex.quote(self._store)}`"
                )
                damage, attempt = CheckpointError(message), attempt + 1

    def _content(self, prepared: PreparedBatch) -> bytes:
        """Return the content of a version: the batch, whose it is, and the digest of both."""
        owner = {"application": self._application, "store": self.folder.name}
        fields = {**orjson.loads(prepared.to_json()), "owner": owner}
        return with_digest(orjson.dumps(fields))

    def _check_owner(self, owner: Mapping[str, str] | None, found: int, batch: int) -> None:
        """Raise ``ValueError`` if a version is of another batch, store or application.

        Versions of earlier releases have no owner.
        """
        if found != batch:
            message = f"it is of batch {found}"
            raise ValueError(message)
        if owner is None:
            return
        store, application = owner["store"], owner["application"]
        own = self._application or application, self.folder.name
        if (application or own[0], store) != own:
            message = f"it belongs to store {store!r} of application {application}"
            raise ValueError(message)

    @property
    def _store(self) -> str:
        """The store of these versions, without its generation."""
        return self.folder.name.partition("@")[0]

    def path(self, batch: int, attempt: int = 0) -> Path:
        """The file of an attempt to write the version of ``batch``."""
        return self.folder / (f"{batch:012d}" + (f".{attempt}" if attempt else "") + ".json")


def _may_be_needed(name: str, batch: int, last: int) -> bool:
    """Whether a file that no version names stays.

    These are versions from ``batch`` on, segments of batches behind ``last``, and what isn't ours.
    """
    version = _VERSION.fullmatch(name)
    if version is not None:
        return int(version["batch"]) >= batch
    segment = _SEGMENT.fullmatch(name)
    return segment is None or int(segment["batch"] or 0) > last
