"""Spark's own checkpoint, which each start writes again from the prepared batches of the stores.

    metadata       the query's id, which is the application id of the pipeline
    offsets/<n>    where batch n ends in each topic. Spark writes it before it runs the batch
    commits/<n>    batch n is done

Spark never forces these files to disk. If two processes write the same file, the later one wins. So
the pipeline does not depend on these files: each epoch has its own directory, and the next start
writes another directory from the state versions. If Spark has planned a batch that no store has
prepared, the plan is dropped, because a batch can end anywhere until it is prepared
(guarantees.md#1).
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.storage import Offsets, create_file, current_files, is_object, uri
from oriel.storage.files import digest

_OFFSETS, _COMMITS, _SOURCES = "offsets", "commits", "sources"
#: The first line of each entry of Spark's logs.
_VERSION = "v1"


@dataclass(frozen=True)
class RecoveryPoint:
    """The recovery point of a topology: the last batch that any of its stores has prepared.

    Attributes:
        batch: The number of the batch.
        starts: The offsets at which the batch starts. In the recovery point of one store, only
            those that are known.
        ends: The offsets at which the batch ends.
        is_done: True if all stores have committed the batch, so that the next batch follows. False
            if Spark must offer the batch again.
        time_ms: The wall-clock time of the batch, 0 if unknown.
    """

    batch: int
    starts: Offsets
    ends: Offsets
    is_done: bool
    time_ms: int = 0


def write_spark_log(
    directory: Path, application: str, topics: Sequence[str], recovery_point: RecoveryPoint | None
) -> None:
    """Create the directory from which Spark resumes. Its sources are ``topics`` in this order."""
    # Nothing here is synced. After a power loss, the next start writes another directory.
    directory.mkdir(parents=True)
    # Without this file, Spark would choose a random id. Oriel finds the running query by this id.
    (directory / "metadata").write_text(json.dumps({"id": application}))
    if recovery_point is None:
        return
    batch = recovery_point.batch
    offsets, commits = directory / _OFFSETS, directory / _COMMITS
    offsets.mkdir()
    commits.mkdir()
    if batch:
        # Spark also reads the entry before its newest one, to know where the newest batch starts.
        (offsets / str(batch - 1)).write_text(_entry(topics, recovery_point.starts, 0))
    (offsets / str(batch)).write_text(_entry(topics, recovery_point.ends, recovery_point.time_ms))
    # Spark offers a batch again if it has an entry in ``offsets`` and no entry in ``commits``.
    # Oriel has its own stream times (semantics.md#1-1), so Spark's watermark is always 0.
    if recovery_point.is_done:
        (commits / str(batch)).write_text(f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')


def copy_first_offsets(directory: Path, older: Path) -> None:
    """Copy the offsets at which the sources of an earlier epoch started, if they are readable.

    They matter until a batch is prepared. Without them, a topic that is read from its end would
    start at a later end.

    Raises:
        CheckpointError: ``older`` has files of ``note_first_offsets``, and one is damaged.
    """
    for name, content in _first_offsets(older):
        copied = directory / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(content)


def note_first_offsets(directory: Path, target: Path) -> int:
    """Copy the offsets at which sources started to ``target``, as far as Spark has written them.

    A file that exists stays, because it is from an earlier start, and Spark uses it.

    Returns:
        The number of sources whose offsets Spark has written.
    """
    saved = _first_offsets(directory)
    for name, content in saved:
        with suppress(FileExistsError):
            sealed_content = content + f"\n{digest(content)}".encode()
            create_file(target / name, sealed_content, sync=True)
    return len(saved)


def _first_offsets(directory: Path) -> list[tuple[str, bytes]]:
    """Return the readable files of sources in Spark's directory: relative names and contents."""
    files, found = current_files(), []
    for source in sorted(files.names(directory / _SOURCES)):
        for name in sorted(files.names(directory / _SOURCES / source)):
            path = directory / _SOURCES / source / name
            content = files.read(path)
            try:
                content = _without_digest(content)
                orjson.loads(content.split(b"\n", 1)[1])
            except (IndexError, ValueError) as error:
                if not is_object(path):
                    # Spark was killed while it wrote the file.
                    continue
                # An object appears as a whole, so a kill cannot cut it. It is damaged.
                message = (
                    f"{uri(path)} is damaged ({error}). No batch is prepared yet. Delete the "
                    "file, and start again: the topic is then read as on a first start"
                )
                raise CheckpointError(message) from error
            found.append((f"{_SOURCES}/{source}/{name}", content))
    return found


def _without_digest(content: bytes) -> bytes:
    """Return the content of Spark's file without the digest. Older versions wrote no digest.

    Raises:
        ValueError: the digest differs.
    """
    spark_file, _, found = content.rpartition(b"\n")
    if not found.startswith(b"xxh3:"):
        return content
    if digest(spark_file) != found.decode(errors="replace"):
        message = "the content is not what was written, because its digest differs"
        raise ValueError(message)
    return spark_file


def end_offsets(directory: Path, batch: int) -> Offsets:
    """Return where batch ``batch`` ends in each partition, from Spark's offset log.

    Raises:
        CheckpointError: the entry is missing or cannot be read.
    """
    path = directory / _OFFSETS / str(batch)
    ends: Offsets = {}
    try:
        # Line 1 is the version of the log, and line 2 the metadata of the batch. One line per
        # source follows, which is a hyphen for a source without offsets so far.
        for line in current_files().read(path).decode().splitlines()[2:]:
            if line == "-":
                continue
            for topic, partitions in orjson.loads(line).items():
                ends[topic] = {str(p): int(offset) for p, offset in partitions.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        message = f"Spark's offset log entry {path} cannot be read: {error}"
        raise CheckpointError(message) from error
    if not ends:
        message = f"Spark's offset log entry {path} cannot be read: it has no topic"
        raise CheckpointError(message)
    return ends


def _entry(topics: Sequence[str], offsets: Offsets, time_ms: int) -> str:
    # The format of the event log's source, because Spark compares offsets as strings.
    sources = [json.dumps({t: offsets[t]}) if t in offsets else "-" for t in topics]
    # Spark uses this time for ``current_timestamp()`` when it offers the batch again. So the batch
    # has the wall-clock time with which it was prepared (decision 0032).
    metadata = f'{{"batchWatermarkMs":0,"batchTimestampMs":{time_ms},"conf":{{}}}}'
    return "\n".join([_VERSION, metadata, *sources])
