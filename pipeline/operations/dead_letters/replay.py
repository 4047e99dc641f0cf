"""Send the records of dead letters to their topics again, each at most once (decision 0038)."""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Protocol

import orjson
import pyarrow as pa
from filelock import lock_descriptor

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.errors import PipelineError, ReplayRejected
from oriel.pipeline.operations.brokers import brokers_for
from oriel.pipeline.operations.dead_letters.selection import read_dead_letters
from oriel.pipeline.sources import JvmBrokers, Message
from oriel.storage import DataLayout, current_files, is_object, sync_directory, uri
from oriel.storage.dead_letters import Replays, Selection, note_line, read_replays

#: A record's topic, partition and offset.
Place = tuple[str, int, int]


class Target(Protocol):
    """A destination that records are sent to."""

    def prepare(self, messages: Sequence[Message]) -> None:
        """Reject messages that cannot be sent."""

    def send(self, messages: Sequence[Message]) -> list[int]:
        """Send messages, and return their offsets once they are on disk or on the brokers."""


@dataclass
class Replayed:
    """The number of records that were sent, and of dead letters that were not, by reason.

    Attributes:
        sent: Records that were sent, or that would be sent without a target.
        known: Dead letters of a record that was already sent.
        of_single_stores: Dead letters that only one store has, while no store is selected.
        without_bytes: Dead letters without bytes, of a null value or of a join result.
    """

    sent: int = 0
    known: int = 0
    of_single_stores: int = 0
    without_bytes: int = 0


def replay(
    data: Path, wanted: Selection, target: Target | None, *, limit: int | None, again: bool
) -> Replayed:
    """Send the records of the selected dead letters, each record once.

    If only one store cannot use a record, the other stores would count it twice. Such a record is
    therefore sent only if the selection names the store.

    Args:
        data: The data directory.
        wanted: The selection of dead letters.
        target: The destination. Without one, the records are only counted.
        limit: The maximum number of records to send. None: no limit.
        again: Whether to also send records that were sent before.

    Returns:
        The number of records that were sent, and of dead letters that were not, by reason.

    Raises:
        ReplayRejected: The directory has no dead letters, another replay runs, a record cannot be
            sent, or the sending was interrupted by an error.
        KafkaUnavailable: The brokers do not respond, reject the client, or lack a topic.
    """
    done = Replayed()
    # Dead letters of replayed records are also read, because they are counted.
    tables = read_dead_letters(data, wanted, Replays())
    with _replay_log(data) as (replays, note):
        # Several stores can have a dead letter of one record.
        seen: set[Place] = set()
        known = Replays() if again else replays
        for table in tables:
            to_send = _records_to_send(table, wanted, known, seen, done)
            to_send = to_send[: None if limit is None else limit - done.sent]
            if to_send and target is not None:
                messages = [message for _, message in to_send]
                target.prepare(messages)
                # The note is written before the records are sent. After a crash, a record can
                # therefore be missing, but it is never sent twice.
                note_sent = note([record_id for record_id, _ in to_send])
                try:
                    offsets = target.send(messages)
                except (PipelineError, OSError) as error:
                    message = (
                        f"{error}. Up to {len(messages)} records were not sent and are marked as "
                        "sent. Send them with --again and the same filters"
                    )
                    raise ReplayRejected(message) from error
                note_sent(offsets)
            done.sent += len(to_send)
            if done.sent == limit:
                break
    return done


def _records_to_send(
    table: pa.Table, wanted: Selection, known: Replays, seen: set[Place], done: Replayed
) -> list[tuple[Place, Message]]:
    """Return the records of a table of dead letters to send, in the order of offsets.

    The other dead letters are counted in ``done``.
    """
    found = []
    rows = table.sort_by([(name, "ascending") for name in ("topic", "partition", "offset")])
    for row in rows.to_pylist():
        record_id = row["topic"], row["partition"], row["offset"]
        # Without bytes and this reason, it can be a join result, which is not a record of a topic.
        is_record = row["raw"] or row["reason"] == Reason.NULL_VALUE
        if row["store"] is not None and wanted.store is None:
            done.of_single_stores += 1
        elif not is_record:
            done.without_bytes += 1
        elif record_id in seen or known.has(*record_id):
            done.known += 1
        else:
            seen.add(record_id)
            headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
            value = row["raw"] or None
            # Kafka's client rejects a time before 1970, so the record gets the time of sending.
            time_ms = row["timestamp_ms"] if (row["timestamp_ms"] or 0) >= 0 else None
            found.append((record_id, Message(*record_id[:2], time_ms, row["key"], value, headers)))
    return found


@dataclass(frozen=True)
class EventLogTarget:
    """An event log. The values of records are appended to its files as lines.

    Attributes:
        root: The root directory of the event log.
    """

    root: Path

    def prepare(self, messages: Sequence[Message]) -> None:
        """Reject messages that cannot be appended.

        Raises:
            ReplayRejected: A file does not exist or ends within a line, or a value is not one line.
        """
        for message in messages:
            if message.value is None or b"\n" in message.value:
                text = (
                    f"a dead letter of {message.topic}/{message.partition} is not a line of an "
                    "event log. If it comes from Kafka, send it there with --kafka"
                )
                raise ReplayRejected(text)
        for path in {self._path(message) for message in messages}:
            if not path.is_file():
                text = f"the event log has no file {path}. Pass the --event-log of oriel run"
                raise ReplayRejected(text)
            with path.open("rb") as file:
                if (
                    file.seek(0, os.SEEK_END)
                    and file.seek(-1, os.SEEK_END)
                    and file.read() != b"\n"
                ):
                    text = (
                        f"the last line of {path} is not complete. Wait for its producer, or "
                        "correct the line"
                    )
                    raise ReplayRejected(text)

    def send(self, messages: Sequence[Message]) -> list[int]:
        lines: dict[Path, list[tuple[int, bytes]]] = {}
        for index, message in enumerate(messages):
            line = (message.value or b"") + b"\n"
            lines.setdefault(self._path(message), []).append((index, line))
        offsets = [0] * len(messages)
        for path, content in lines.items():
            with path.open("ab", buffering=0) as file:
                # One write of whole lines, because other producers append to the same file.
                written = file.write(b"".join(line for _, line in content))
                os.fsync(file.fileno())
                # ``tell`` returns the end of the lines of this process, also if others append.
                offset = file.tell() - written
            for index, line in content:
                offsets[index] = offset
                offset += len(line)
        return offsets

    def _path(self, message: Message) -> Path:
        return self.root / message.topic / f"{message.partition}.jsonl"


@dataclass
class KafkaTarget:
    """A Kafka cluster. Kafka's client in a JVM of Spark sends the messages.

    Attributes:
        servers: The bootstrap servers, for example ``broker:9092``.
        options: The options of Kafka's client.
        logs: The directory for the log of the JVM.
    """

    servers: str
    options: Mapping[str, str]
    logs: Path

    def prepare(self, messages: Sequence[Message]) -> None:
        """Check that all topics exist, so that a mistyped topic is not created.

        Raises:
            ReplayRejected: Java is not installed.
            KafkaUnavailable: The brokers do not respond, reject the client, or lack a topic.
        """
        self._brokers.topics(sorted({message.topic for message in messages}))

    def send(self, messages: Sequence[Message]) -> list[int]:
        return self._brokers.send(messages)

    @cached_property
    def _brokers(self) -> JvmBrokers:
        return brokers_for("dead-letters", self.servers, self.options, self.logs)


#: Notes records before they are sent, and returns the function that notes their new offsets.
Note = Callable[[Sequence[Place]], Callable[[Sequence[int]], None]]


@contextmanager
def _replay_log(data: Path) -> Iterator[tuple[Replays, Note]]:
    """Yield the records that were sent before, and the function that notes further records.

    Raises:
        ReplayRejected: Another replay of the data directory runs.
    """
    layout = DataLayout(data)
    path = layout.replayed
    if is_object(path):
        # The number of the next note is read before the notes. If another replay creates a note
        # after that, it has this number. The note of this replay then fails before it sends.
        object_note = _object_note(data, path.with_suffix(""))
        yield read_replays(layout), object_note
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if not lock_descriptor(file.fileno(), blocking=False):
            message = f"another replay of {data} is running. Wait until it ends"
            raise ReplayRejected(message)
        sync_directory(path.parent)
        replays = read_replays(layout)
        # Cut off an incomplete last line, which a crash left. Its record was not sent, or has a
        # complete line already, and the line added the new offset.
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)

        def append(lines: bytes) -> None:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

        def note(record_ids: Sequence[Place]) -> Callable[[Sequence[int]], None]:
            replayed_ms = _now_ms()
            append(_lines(record_ids, replayed_ms))
            return lambda offsets: append(_lines(record_ids, replayed_ms, offsets))

        yield replays, note


def _object_note(data: Path, directory: Path) -> Note:
    """Return the function that notes records in an object store, as one object per note.

    If two replays run at the same time, only one can create the next note. The other replay sends
    nothing. A note starts with a unique id, because two notes can have the same records.
    """
    files = current_files()
    names = sorted(files.names(directory))
    numbers = count(int(names[-1].partition(".")[0]) + 1 if names else 0)

    def create(name: str, lines: bytes) -> None:
        content = orjson.dumps(uuid.uuid4().hex) + b"\n" + lines
        try:
            files.create(directory / name, content, sync=True)
        except FileExistsError as error:
            message = f"another replay of {uri(data)} is running. Wait until it ends"
            raise ReplayRejected(message) from error

    def note(record_ids: Sequence[Place]) -> Callable[[Sequence[int]], None]:
        replayed_ms, number = _now_ms(), f"{next(numbers):012d}"
        create(f"{number}.jsonl", _lines(record_ids, replayed_ms))
        # The records are already sent. No other replay creates this name, so it is free.
        return lambda offsets: create(
            f"{number}.sent.jsonl", _lines(record_ids, replayed_ms, offsets)
        )

    return note


def _lines(
    record_ids: Sequence[Place], replayed_ms: int, offsets: Sequence[int] | None = None
) -> bytes:
    """Return the lines of a note, with the new offsets if the records have been sent."""
    ends = [None] * len(record_ids) if offsets is None else offsets
    lines = zip(record_ids, ends, strict=True)
    return b"".join(note_line(record_id, replayed_ms, end) for record_id, end in lines)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
