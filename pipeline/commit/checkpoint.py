"""The checkpoint folder of one pipeline: who it is, who runs it, and its prepared batches.

    CHECKPOINT/application.json          the application id, made once
    CHECKPOINT/lock                      held by the process that runs the pipeline
    CHECKPOINT/spark/                    Spark's own checkpoint
    CHECKPOINT/state/<store>/<n>.json    batch n as prepared: state version n and its commit
    CHECKPOINT/state/<store>/*.arrow     the segments that the versions name
    CHECKPOINT/state/<store>@<g>/        the same of a store's generation g (see ``switch``)
    CHECKPOINT/log.json, topics.json     which log the offsets belong to, and which topics

``<n>.json`` is written when all of batch n is computed and before anything of it is
committed. From then on batch n is never computed again, only committed: whatever
happens, the tables get exactly what the file says.
"""

import fcntl
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Self

import orjson

from oriel.pipeline.commit.mend import mended
from oriel.pipeline.errors import AlreadyRunning, CheckpointError
from oriel.pipeline.plan import PreparedBatch
from oriel.storage import Offsets, replace_file, sync_file, sync_folder, sync_folders


class StateVersions:
    """The prepared batches of one store."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        """Use ``folder``, making it where it isn't there; ``sync``: files are forced to disk."""
        folder.mkdir(parents=True, exist_ok=True)
        if sync:
            # A process that was killed may have left a version whose name isn't on disk.
            sync_folder(folder)
        self.folder = folder
        self.sync = sync
        #: Files that ``forget_before`` left, by name; None before its first call.
        self._left: set[str] | None = None

    def load(self, batch: int) -> PreparedBatch | None:
        """Return the prepared batch, None where there is none.

        Raises:
            CheckpointError: the file is there but damaged.
        """
        path = self.path(batch)
        try:
            return mended(self.folder, batch, PreparedBatch.from_json(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            message = f"state version {path} is damaged ({error}); restore the checkpoint"
            raise CheckpointError(message) from error

    def save(self, batch: int, prepared: PreparedBatch, folders: Iterable[Path]) -> None:
        """Write the prepared batch: all of it or nothing.

        ``folders`` hold the files that it names, whose contents are on disk. Their names are
        forced to disk first, by one sync of each folder however many files a batch has: the
        batch is decided once the version is there, so what it refers to must be, too.
        """
        if self.sync:
            sync_folders([self.folder, *folders])
        replace_file(self.path(batch), prepared.to_json(), sync=self.sync)

    def forget_before(self, batch: int, keep: Iterable[PreparedBatch]) -> None:
        """Remove versions below ``batch`` and every segment that none of ``keep`` names.

        The folder is listed once: after that, what can go is what was left the time before.
        Files of a task that ran twice stay until the next start.
        """
        versions = list(keep)
        named = {name for version in versions for name in version.state_files}
        named |= {self.path(version.record.batch).name for version in versions}
        left = self._left
        if left is None:
            left = {path.name for path in self.folder.iterdir()}
        needed = {name for name in left if _may_be_needed(name, batch)}
        for name in left - named - needed:
            (self.folder / name).unlink(missing_ok=True)
        self._left = named | needed

    def path(self, batch: int) -> Path:
        """The file of the version of ``batch``."""
        return self.folder / f"{batch:012d}.json"


def _may_be_needed(name: str, batch: int) -> bool:
    """Whether a file that no version names stays: a version from ``batch`` on, or none of ours."""
    stem, _, suffix = name.rpartition(".")
    if suffix == "json" and stem.isdecimal():
        return int(stem) >= batch
    return suffix != "arrow"


class Checkpoint:
    """One pipeline's checkpoint, held by this process while it is open."""

    def __init__(self, folder: Path, *, sync: bool) -> None:
        """Open or make the checkpoint and take its lock.

        Raises:
            AlreadyRunning: another process holds it.
            CheckpointError: the folder holds something else.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._sync = sync
        self._lock = _locked(folder / "lock")
        try:
            self.application = self._application_id()
        except BaseException:
            self.close()
            raise

    @property
    def spark(self) -> Path:
        """Spark's own checkpoint folder."""
        return self.folder / "spark"

    def versions(self, store: str) -> StateVersions:
        """The prepared batches of ``store``."""
        return StateVersions(self.folder / "state" / store, sync=self._sync)

    def end_offsets(self, batch: int) -> Offsets:
        """Where batch ``batch`` ends in each partition, from Spark's offset log.

        Raises:
            CheckpointError: the entry is missing or not understood.
        """
        path = self.spark / "offsets" / str(batch)
        ends: Offsets = {}
        try:
            if self._sync:
                # Spark doesn't, and a batch that is decided must never get other records.
                sync_file(path)
                sync_folder(path.parent)
            # Line 1 is the log's version, line 2 the batch's metadata, then a line a source.
            for line in path.read_text().splitlines()[2:]:
                for topic, partitions in orjson.loads(line).items():
                    ends[topic] = {str(p): int(offset) for p, offset in partitions.items()}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            message = f"Spark's offset log entry {path} can't be read: {error}"
            raise CheckpointError(message) from error
        if not ends:
            message = f"Spark's offset log entry {path} can't be read: it names no topic"
            raise CheckpointError(message)
        return ends

    def read_offsets(self) -> Offsets:
        """Up to where all batches that Spark calls done have read; empty before the first.

        Raises:
            CheckpointError: the entry of the last one is missing or not understood.
        """
        names = (path.name for path in self.spark.glob("commits/*"))
        done = [int(name) for name in names if name.isdecimal()]
        return self.end_offsets(max(done)) if done else {}

    def close(self) -> None:
        """Give the lock back."""
        self._lock.close()

    def __enter__(self) -> Self:
        """Hold the checkpoint for the time of a ``with`` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Give the lock back."""
        self.close()

    def _application_id(self) -> str:
        path = self.folder / "application.json"
        if path.exists():
            try:
                return str(orjson.loads(path.read_bytes())["application"])
            except (KeyError, TypeError, ValueError) as error:
                message = f"{path} is damaged ({error!r}); restore the checkpoint"
                raise CheckpointError(message) from error
        if self.spark.exists():
            message = (
                f"{self.folder} has Spark's checkpoint but no application.json: it is not a "
                "checkpoint of this pipeline, or a damaged one; restore it or use another folder"
            )
            raise CheckpointError(message)
        application = str(uuid.uuid4())
        replace_file(path, orjson.dumps({"application": application}), sync=self._sync)
        return application


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        message = f"another process runs this pipeline (it holds {path}); stop it first"
        raise AlreadyRunning(message) from error
    return file
