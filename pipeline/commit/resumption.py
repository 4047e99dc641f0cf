"""Spark's own checkpoint, written anew at each start from what the stores have decided.

    metadata       the query's id, for which the pipeline's application stands
    offsets/<n>    where batch n ends in each topic; Spark writes it before it runs the batch
    commits/<n>    batch n is done

Spark never forces these files to disk, and of two processes that write one of them the later wins.
So nothing is decided by them: they are in a folder of one epoch, and the next start makes a new
folder out of the state versions. What Spark wrote of a batch that no store has decided is
forgotten: a batch may end anywhere until it is decided (guarantees.md#1).
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
_VERSION = "v1"


@dataclass(frozen=True)
class Resumption:
    """Where a topology goes on: the last batch that any of its stores has decided.

    The batch goes from ``starts`` (of one store: as far as they are known) to ``ends``.
    ``is_done``: all stores have committed it, so that the next one is to come; otherwise Spark is
    to offer it again. ``time_ms`` is the wall clock of the batch, 0 where it is not known.
    """

    batch: int
    starts: Offsets
    ends: Offsets
    is_done: bool
    time_ms: int = 0


def write_spark_log(
    folder: Path, application: str, topics: Sequence[str], resumption: Resumption | None
) -> None:
    """Make the folder from which Spark goes on; its sources are ``topics`` in this order."""
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": application}))
    if resumption is None:
        return
    batch = resumption.batch
    offsets, commits = folder / _OFFSETS, folder / _COMMITS
    offsets.mkdir()
    commits.mkdir()
    if batch:
        # Spark asks for the entry before its newest one: where that begins.
        (offsets / str(batch - 1)).write_text(_entry(topics, resumption.starts, 0))
    (offsets / str(batch)).write_text(_entry(topics, resumption.ends, resumption.time_ms))
    if resumption.is_done:
        (commits / str(batch)).write_text(f'{_VERSION}\n{{"nextBatchWatermarkMs":0}}')


def keep_first_offsets(folder: Path, older: Path) -> None:
    """Take over where the sources of an earlier epoch began, as far as it is readable.

    It matters as long as no batch is decided: a topic that is read from its end would otherwise
    begin at a later end.

    Raises:
        CheckpointError: ``older`` has notes (``note_first_offsets``), and one is damaged.
    """
    for name, content in _first_offsets(older):
        copied = folder / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(content)


def note_first_offsets(folder: Path, place: Path) -> int:
    """Keep in ``place`` where sources began, as far as Spark has written it; of how many.

    What is there already stays: it is of an earlier start, and Spark goes by it.
    """
    noted = _first_offsets(folder)
    for name, content in noted:
        with suppress(FileExistsError):
            noted_content = content + f"\n{digest(content)}".encode()
            create_file(place / name, noted_content, sync=True)
    return len(noted)


def _first_offsets(folder: Path) -> list[tuple[str, bytes]]:
    """The files of sources below Spark's folder that are readable: names below it, contents."""
    files, found = current_files(), []
    for source in sorted(files.names(folder / _SOURCES)):
        for name in sorted(files.names(folder / _SOURCES / source)):
            path = folder / _SOURCES / source / name
            content = files.read(path)
            try:
                content = _without_digest(content)
                orjson.loads(content.split(b"\n", 1)[1])
            except (IndexError, ValueError) as error:
                if not is_object(path):
                    # Spark was killed while it wrote the file.
                    continue
                message = (
                    f"{uri(path)} is damaged ({error}). No batch is prepared yet. Delete the "
                    "file, and start again: the topic is then read as on a first start"
                )
                raise CheckpointError(message) from error
            found.append((f"{_SOURCES}/{source}/{name}", content))
    return found


def _without_digest(content: bytes) -> bytes:
    """Return the file of Spark's of a note; those of earlier versions have no digest.

    Raises:
        ValueError: the digest is another.
    """
    spark_file, _, found = content.rpartition(b"\n")
    if not found.startswith(b"xxh3:"):
        return content
    if digest(spark_file) != found.decode(errors="replace"):
        message = "the content is not what was written, because its digest differs"
        raise ValueError(message)
    return spark_file


def end_offsets(folder: Path, batch: int) -> Offsets:
    """Where batch ``batch`` ends in each partition, as Spark's offset log says.

    Raises:
        CheckpointError: the entry is missing or not understood.
    """
    path = folder / _OFFSETS / str(batch)
    ends: Offsets = {}
    try:
        # Line 1 is the log's version, line 2 the batch's metadata, then a line a source, which
        # is a hyphen for one that has had nothing yet.
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
    # Written as the event log's source does: Spark compares its offsets as texts.
    sources = [json.dumps({t: offsets[t]}) if t in offsets else "-" for t in topics]
    metadata = f'{{"batchWatermarkMs":0,"batchTimestampMs":{time_ms},"conf":{{}}}}'
    return "\n".join([_VERSION, metadata, *sources])
