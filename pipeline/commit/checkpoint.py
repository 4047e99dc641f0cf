"""The checkpoint folder of one pipeline: who it is, who runs it, and its prepared batches.

    CHECKPOINT/application.json          the application id, made once
    CHECKPOINT/epochs/<e>.json           which process took epoch e; the greatest one may write
    CHECKPOINT/lock                      held by the process that runs the pipeline
    CHECKPOINT/spark/<e>/                Spark's own checkpoint in that epoch; decides nothing
    CHECKPOINT/first-offsets/            among objects: where topics begin, until a batch is decided
    CHECKPOINT/state/<store>/<n>.json    batch n as prepared: state version n and its commit
    CHECKPOINT/state/<store>/*.arrow     the segments that the versions name
    CHECKPOINT/state/<store>@<g>/        the same of a store's generation g (see ``switch``)
    CHECKPOINT/log.json                  which log the offsets belong to

``<n>.json`` is written when all of batch n is computed and before anything of it is
committed. From then on batch n is never computed again, only committed: whatever
happens, the tables get exactly what the file says.

A checkpoint of objects has neither lock nor Spark's folder: Spark writes to one of this machine,
and the next start, wherever it is, makes a new one as every start does.
"""

import fcntl
import os
import socket
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import orjson

from oriel.pipeline.commit.epochs import EPOCHS_KEPT, Epoch
from oriel.pipeline.commit.resumption import (
    Resumption,
    end_offsets,
    keep_first_offsets,
    note_first_offsets,
    write_spark_log,
)
from oriel.pipeline.commit.versions import StateVersions
from oriel.pipeline.errors import AlreadyRunning, CheckpointError
from oriel.pipeline.plan import ClockNotes, PreparedBatch
from oriel.storage import (
    Offsets,
    current_files,
    is_object,
    with_digest,
    without_digest,
)

#: How long a start waits for a process that is about to end, and how often it looks.
LOCK_WAIT_SECONDS = 5.0
_LOCK_LOOK_SECONDS = 0.1

_FIRST_OFFSETS = "first-offsets"


class Checkpoint:
    """One pipeline's checkpoint, held by this process while it is open."""

    def __init__(
        self,
        folder: Path,
        *,
        sync: bool,
        lock_wait_s: float = LOCK_WAIT_SECONDS,
        scratch: Path | None = None,
    ) -> None:
        """Open or make the checkpoint, take its lock and the next epoch.

        A process that holds the lock gets ``lock_wait_s`` to end: one that was stopped by a full
        disk may still be at it. ``scratch`` is a folder of this machine for what Spark writes,
        which a query needs if the checkpoint is of objects.

        Raises:
            AlreadyRunning: another process of this machine holds it.
            CheckpointError: the folder holds something else.
        """
        current_files().make_folder(folder, sync=sync)
        self.folder = folder
        self._sync = sync
        is_local = not is_object(folder)
        self._scratch = scratch
        self._lock: AbstractContextManager[Any] = (
            _locked(folder / "lock", lock_wait_s) if is_local else nullcontext()
        )
        #: How many topics there are whose first offsets are still to be noted.
        self._topics_to_note = 0
        try:
            self.application = self._application_id()
            self._epoch = Epoch(folder / "epochs", sync=sync)
        except BaseException:
            self.close()
            raise

    @property
    def spark(self) -> Path:
        """Spark's own checkpoint folder in this epoch."""
        return self._spark / f"{self._epoch.number:012d}"

    def check_epoch(self) -> None:
        """Go on only if no other process has taken over since this one opened the checkpoint.

        To be asked before anything is decided, committed or deleted, in any thread.

        Raises:
            Fenced: another process has taken over; the message says who and when.
        """
        self._epoch.check()

    def versions(self, store: str) -> StateVersions:
        """The prepared batches of ``store``."""
        folder = self.folder / "state" / store
        return StateVersions(
            folder,
            sync=self._sync,
            check_epoch=self.check_epoch,
            application=self.application,
        )

    def prepare_spark(self, topics: Sequence[str], resumption: Resumption | None) -> None:
        """Make Spark's checkpoint folder of this epoch; those of much earlier epochs go.

        The last ones stay, so that the Spark of a process that was suspended goes on in its own
        until it is told of its successor, and doesn't stumble over files that are gone.

        ``resumption`` is None if no batch is decided. ``topics`` are the sources in Spark's order.
        """
        files = current_files()
        earlier = sorted(
            name
            for name in files.names(self._spark)
            # Also what versions of Oriel without epochs had; never a folder of a successor.
            if not name.isdecimal() or int(name) < self._epoch.number
        )
        # A power loss may have taken an epoch's file and left its folder.
        files.delete_folder(self.spark)
        write_spark_log(self.spark, self.application, topics, resumption)
        if resumption is None and is_object(self.folder):
            keep_first_offsets(self.spark, self.folder / _FIRST_OFFSETS)
        elif resumption is None and earlier:
            last = earlier[-1]
            keep_first_offsets(self.spark, self._spark / last if last.isdecimal() else self._spark)
        self._topics_to_note = len(topics) if resumption is None and is_object(self.folder) else 0
        for name in earlier:
            if name.isdecimal() and int(name) > self._epoch.number - EPOCHS_KEPT:
                continue
            if files.is_folder(self._spark / name):
                files.delete_folder(self._spark / name)
            else:
                files.delete(self._spark / name)

    def note_first_offsets(self) -> None:
        """Keep where the first query's topics begin, once Spark has found it out.

        To be asked now and then while the query runs. Spark's folder is enough where the next
        start finds it.
        """
        if self._topics_to_note:
            noted = note_first_offsets(self.spark, self.folder / _FIRST_OFFSETS)
            self._topics_to_note = 0 if noted >= self._topics_to_note else self._topics_to_note

    def end_offsets(self, batch: int) -> Offsets:
        """Where batch ``batch`` ends in each partition, from Spark's offset log.

        Raises:
            CheckpointError: the entry is missing or not understood.
        """
        return end_offsets(self.spark, batch)

    def close(self) -> None:
        """Give the lock back."""
        self._lock.__exit__(None, None, None)

    def __enter__(self) -> Self:
        """Hold the checkpoint for the time of a ``with`` block."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def _spark(self) -> Path:
        """The folder of Spark's folders, of all epochs that it can be seen of."""
        if self._scratch is None or not is_object(self.folder):
            return self.folder / "spark"
        return self._scratch / "spark-log" / self.application

    def _application_id(self) -> str:
        path, files = self.folder / "application.json", current_files()
        if not files.exists(path):
            if files.is_folder(self.folder / "spark"):
                message = (
                    f"{self.folder} has Spark's checkpoint but no application.json: it is not a "
                    "checkpoint of this pipeline, or it is damaged. Restore it or use another "
                    "directory"
                )
                raise CheckpointError(message)
            content = with_digest(orjson.dumps({"application": str(uuid.uuid4())}))
            # Where locks don't work, somebody else may be making it, too: one id counts.
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


def refuse_running(folder: Path) -> None:
    """Check, before Spark starts, that no process of this machine runs the pipeline of a folder.

    Raises:
        AlreadyRunning: a process does, and does not end within seconds.
    """
    path = folder / "lock"
    # Objects have no locks, and a checkpoint that is not there has no process.
    if not is_object(folder) and path.exists():
        _locked(path, LOCK_WAIT_SECONDS).close()


def _locked(path: Path, wait_s: float) -> IO[str]:
    """Take the lock, and say in its file who has it.

    It is there to be quick and clear where one machine starts a pipeline twice. File systems
    without locks have the epoch alone.
    """
    file = path.open("a+")
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError as error:
            if time.monotonic() < until:
                time.sleep(_LOCK_LOOK_SECONDS)
                continue
            file.seek(0)
            holder = file.read() or "another process"
            file.close()
            message = f"{holder} runs this pipeline (it holds {path}). Stop it first"
            raise AlreadyRunning(message) from error
        except OSError:
            return file
    # On a full disk it stays empty.
    with suppress(OSError):
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
    return file


class DecidedBatch(NamedTuple):
    """The newest batch that a pipeline has prepared: its number, end offsets and clock notes."""

    batch: int
    ends: Offsets
    clock_notes: ClockNotes


def decided_up_to(checkpoint: Path, stores: Iterable[str]) -> DecidedBatch | None:
    """The newest batch that any of these stores has decided, and where it ends; None before.

    Of a topic that the stores of the newest batch don't read it is the end of an earlier one.
    """
    wanted = set(stores)
    known: list[PreparedBatch] = []
    for name in current_files().names(checkpoint / "state"):
        # ``<store>@<g>`` is a generation of a store.
        if name.partition("@")[0] not in wanted:
            continue
        versions = StateVersions(checkpoint / "state" / name, sync=False)
        # A version that is damaged is made anew, so its batch is not decided.
        prepared = versions.last_decided()
        known += [prepared] if prepared is not None else []
    if not known:
        return None
    ends: Offsets = {}
    known.sort(key=lambda version: version.record.batch)
    for prepared in known:
        ends |= prepared.record.offsets
    return DecidedBatch(known[-1].record.batch, ends, known[-1].clock_notes)
