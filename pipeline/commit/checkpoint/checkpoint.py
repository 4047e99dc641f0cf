"""The checkpoint directory of one pipeline: its identity, lock and epochs, and prepared batches.

    CHECKPOINT/application.json          the application id, created once
    CHECKPOINT/epochs/<e>.json           the process of epoch e. The greatest epoch can write
    CHECKPOINT/lock                      held by the process that runs the pipeline
    CHECKPOINT/spark/<e>/                Spark's own checkpoint in epoch e. Nothing depends on it
    CHECKPOINT/first-offsets/            for objects: where topics start, until a batch is prepared
    CHECKPOINT/state/<store>/<n>.json    batch n as prepared: state version n and its commit
    CHECKPOINT/state/<store>/*.arrow     the segments that the versions name
    CHECKPOINT/state/<store>@<g>/        the same for generation g of a store (see ``switch``)
    CHECKPOINT/log.json                  the log that the offsets belong to

``<n>.json`` is written after all of batch n is computed and before any of it is committed. After
that, batch n is never computed again, only committed. So the tables always get exactly the content
of the file.

A checkpoint in an object store has neither a lock nor Spark's directory. Spark then writes to a
local directory. The next start, on any machine, writes another one, as each start does.
"""

import os
import socket
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import orjson
from filelock import FileLock, Timeout

from oriel.pipeline.commit.checkpoint.epochs import EPOCHS_KEPT, Epoch
from oriel.pipeline.commit.checkpoint.recovery_point import (
    RecoveryPoint,
    copy_first_offsets,
    end_offsets,
    note_first_offsets,
    write_spark_log,
)
from oriel.pipeline.commit.checkpoint.versions import StateVersions
from oriel.pipeline.errors import AlreadyRunning, CheckpointError
from oriel.pipeline.plan import PreparedBatch, StreamTimeNotes
from oriel.storage import Offsets, current_files, is_object, with_digest, without_digest

#: How long a start waits for a process that is ending, and how often it checks.
LOCK_WAIT_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.1

#: Only for object stores. Spark's local directory can be lost with the machine before a batch is
#: prepared, and no version has the first offsets until then.
_FIRST_OFFSETS = "first-offsets"


class Checkpoint:
    """The checkpoint of one pipeline, which this process holds while it is open."""

    def __init__(
        self,
        directory: Path,
        *,
        sync: bool,
        lock_wait_s: float = LOCK_WAIT_SECONDS,
        scratch: Path | None = None,
        is_held: bool = True,
    ) -> None:
        """Open or create the checkpoint, acquire its lock, and create the next epoch.

        Args:
            directory: The directory of the checkpoint.
            sync: Whether files are forced to disk.
            lock_wait_s: How long to wait if another process holds the lock. A process that stops
                because of a full disk needs time to end.
            scratch: A local directory for the files that Spark writes. A query needs it if the
                checkpoint is in an object store.
            is_held: False to read the checkpoint while another process can hold it. Without the
                lock and an epoch, nothing can be prepared.

        Raises:
            AlreadyRunning: another process of this machine holds the checkpoint.
            CheckpointError: the directory is not a checkpoint of Oriel, or it is damaged.
        """
        current_files().make_directory(directory, sync=sync)
        self.directory = directory
        self._sync = sync
        is_local = not is_object(directory)
        self._scratch = scratch
        # The lock precedes the epoch. A second start on this machine must fail here, because its
        # epoch would fence the running process.
        self._lock: AbstractContextManager[Any] = (
            _locked(directory / "lock", lock_wait_s) if is_local and is_held else nullcontext()
        )
        #: The number of topics while first offsets must still be copied, otherwise 0.
        self._topics_to_save = 0
        try:
            self.application = self._application_id()
            self._epoch = Epoch(directory / "epochs", sync=sync) if is_held else None
        except BaseException:
            # Otherwise the lock would be held until the garbage collector releases it.
            self.close()
            raise

    @property
    def spark(self) -> Path:
        """Spark's own checkpoint directory in this epoch."""
        return self._spark / f"{self._held_epoch.number:012d}"

    def check_epoch(self) -> None:
        """Check that no other process has taken over since this one opened the checkpoint.

        Call it before you prepare, commit or delete anything, in any thread.

        Raises:
            Fenced: another process has taken over. The message names the process and the time.
        """
        self._held_epoch.check()

    def versions(self, store: str) -> StateVersions:
        """Return the prepared batches of a store. ``store`` is the name of its state."""
        directory = self.directory / "state" / store
        return StateVersions(
            directory, sync=self._sync, check_epoch=self.check_epoch, application=self.application
        )

    def prepare_spark(self, topics: Sequence[str], recovery_point: RecoveryPoint | None) -> None:
        """Write Spark's directory of this epoch, and delete the directories of much earlier epochs.

        The directories of the last epochs stay. So the Spark of a suspended process continues in
        its own directory until the process is fenced, and does not fail because of missing files.

        Args:
            topics: The sources in Spark's order.
            recovery_point: The recovery point, None if no batch is prepared.
        """
        files = current_files()
        earlier = sorted(
            name
            for name in files.names(self._spark)
            # Also the files of Oriel versions without epochs, but never a directory of a successor.
            if not name.isdecimal() or int(name) < self._held_epoch.number
        )
        # A power loss can have deleted the file of an epoch but not its directory.
        files.delete_directory(self.spark)
        # A crash in this call leaves a part of the directory. No start continues it, because the
        # next start has another epoch and writes another directory.
        write_spark_log(self.spark, self.application, topics, recovery_point)
        if recovery_point is None and is_object(self.directory):
            copy_first_offsets(self.spark, self.directory / _FIRST_OFFSETS)
        elif recovery_point is None and earlier:
            # Names of epochs are digits, which precede the names of other files. So if an Oriel
            # version without epochs has run here, ``last`` is not a number, and Spark's files are
            # directly in ``_spark``.
            last = earlier[-1]
            copy_first_offsets(self.spark, self._spark / last if last.isdecimal() else self._spark)
        self._topics_to_save = (
            len(topics) if recovery_point is None and is_object(self.directory) else 0
        )
        for name in earlier:
            if name.isdecimal() and int(name) > self._held_epoch.number - EPOCHS_KEPT:
                continue
            if files.is_directory(self._spark / name):
                files.delete_directory(self._spark / name)
            else:
                files.delete(self._spark / name)

    def note_first_offsets(self) -> None:
        """Copy the offsets at which the first query's topics start, once Spark has written them.

        Call it repeatedly while the query runs. It copies only if the checkpoint is in an object
        store. Otherwise the next start finds Spark's directory.
        """
        if self._topics_to_save:
            noted = note_first_offsets(self.spark, self.directory / _FIRST_OFFSETS)
            self._topics_to_save = 0 if noted >= self._topics_to_save else self._topics_to_save

    def end_offsets(self, batch: int) -> Offsets:
        """Return where batch ``batch`` ends in each partition, from Spark's offset log.

        Raises:
            CheckpointError: the entry is missing or cannot be read.
        """
        return end_offsets(self.spark, batch)

    def close(self) -> None:
        """Release the lock."""
        self._lock.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Hold the checkpoint during a ``with`` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def _held_epoch(self) -> Epoch:
        assert self._epoch is not None, "only a process that holds the checkpoint can write"
        return self._epoch

    @property
    def _spark(self) -> Path:
        """The parent of Spark's directories of all epochs, for objects only the local ones."""
        if self._scratch is None or not is_object(self.directory):
            return self.directory / "spark"
        return self._scratch / "spark-log" / self.application

    def _application_id(self) -> str:
        path, files = self.directory / "application.json", current_files()
        if not files.exists(path):
            # Without this check, the pipeline would get a new id, and its tables would belong to
            # another application.
            if files.is_directory(self.directory / "spark"):
                message = (
                    f"{self.directory} has Spark's checkpoint but no application.json: it is not a "
                    "checkpoint of this pipeline, or it is damaged. Restore it or use another "
                    "directory"
                )
                raise CheckpointError(message)
            content = with_digest(orjson.dumps({"application": str(uuid.uuid4())}))
            # Without locks, another process can create the file at the same time. One id counts.
            with suppress(FileExistsError):
                files.create(path, content, sync=self._sync)
        try:
            return str(orjson.loads(without_digest(files.read(path)))["application"])
        except (KeyError, TypeError, ValueError) as error:
            message = (
                f"{path} is damaged ({error!r}). Restore it from a backup, or write "
                '{"application": "ID"} into it. The ID is the `application` in the property '
                "oriel.store of the pipeline's tables"
            )
            raise CheckpointError(message) from error


def check_not_running(directory: Path) -> None:
    """Check, before Spark starts, that no process of this machine runs the pipeline.

    Raises:
        AlreadyRunning: a process runs it, and does not end within seconds.
    """
    path = directory / "lock"
    # Objects do not have locks, and a checkpoint that does not exist is not in use.
    if not is_object(directory) and path.exists():
        # The process acquires the lock again when it opens the checkpoint.
        with _locked(path, LOCK_WAIT_SECONDS):
            pass


def is_locked(directory: Path) -> bool:
    """Return whether a process of this machine holds a checkpoint. Objects do not have locks."""
    path = directory / "lock"
    if is_object(directory) or not path.exists():
        return False
    try:
        with _acquired(path, 0) or nullcontext():
            return False
    except Timeout:
        return True


def remove_lock(directory: Path) -> None:
    """Remove the lock of a process that is suspended, so that this process can create its own."""
    (directory / "lock").unlink(missing_ok=True)


def _locked(path: Path, wait_s: float) -> AbstractContextManager[Any]:
    """Acquire the lock, and write this process into its file. The result releases the lock.

    The lock is for a fast and clear message if one machine starts a pipeline twice. On file systems
    without locks, only the epoch protects the pipeline.
    """
    # An error of ``open`` is about the file, and not about locks.
    path.open("a").close()
    try:
        held = _acquired(path, wait_s)
    except Timeout as error:
        holder = path.read_text() or "another process"
        message = f"{holder} runs this pipeline (it holds {path}). Stop it first"
        raise AlreadyRunning(message) from error
    if held is None:
        return nullcontext()
    # On a full disk, the file stays empty.
    with suppress(OSError):
        path.write_text(f"process {os.getpid()} on {socket.gethostname()}")
    return held


def _acquired(path: Path, wait_s: float) -> AbstractContextManager[Any] | None:
    """Acquire the lock of an existing file. The result releases it. None: no locks exist here.

    Raises:
        Timeout: another process of this machine holds the lock.
    """
    # The kernel releases the lock when the process ends, even if it is killed. The fallback of
    # ``FileLock`` is a file that a killed process leaves. Any thread can close the checkpoint.
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        return lock.acquire(wait_s, _LOCK_POLL_SECONDS)
    except Timeout:
        raise
    except OSError:
        # A file system without locks.
        return None


class NewestPrepared(NamedTuple):
    """The newest batch that a pipeline has prepared.

    Attributes:
        batch: The number of the batch.
        ends: The offsets at which it ends.
        clock_notes: Its notes about stream times.
    """

    batch: int
    ends: Offsets
    clock_notes: StreamTimeNotes


def newest_prepared(checkpoint: Path, stores: Iterable[str]) -> NewestPrepared | None:
    """Return the newest batch that any store of ``stores`` has prepared, None before the first.

    If the stores of the newest batch do not read a topic, its end is from an earlier batch.
    """
    wanted = set(stores)
    known: list[PreparedBatch] = []
    for name in current_files().names(checkpoint / "state"):
        # ``<store>@<g>`` is a generation of a store.
        if name.partition("@")[0] not in wanted:
            continue
        versions = StateVersions(checkpoint / "state" / name, sync=False)
        # A damaged version is written again, so its batch is not prepared.
        prepared = versions.last_prepared()
        known += [prepared] if prepared is not None else []
    if not known:
        return None
    ends: Offsets = {}
    # In ascending order, so the end of a topic is from the last batch of a store that reads it.
    known.sort(key=lambda version: version.record.batch)
    for prepared in known:
        ends |= prepared.record.offsets
    return NewestPrepared(known[-1].record.batch, ends, known[-1].clock_notes)
