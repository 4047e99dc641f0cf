"""Spark's own logs in a checkpoint: which batches there are, and the topics that they name.

spark/offsets/<n>    where batch n ends: its version, its metadata, a line for each topic
spark/commits/<n>    batch n is done
"""

from collections.abc import Iterable
from pathlib import Path
from shutil import rmtree

import orjson

from oriel.pipeline.errors import CheckpointError
from oriel.storage import replace_file

#: Lines of an entry in front of those of the topics.
_HEAD = 2


def newest_batch(spark: Path) -> int | None:
    """The newest batch that Spark has planned; None before the first."""
    return max(_batches(spark / "offsets"), default=None)


def committed_batch(spark: Path) -> int | None:
    """The newest batch that Spark will not offer again; None before the first."""
    return max(_batches(spark / "commits"), default=None)


def follow_topics(checkpoint: Path, topics: Iterable[str], *, sync: bool) -> None:
    """Let the entries from which Spark goes on name ``topics`` and no others.

    Spark knows its sources by their order, so that it could not go on with one more, or one less.
    A topic that comes to a topology begins where nothing of it is read; one that goes is
    forgotten. Killed in between, it is done again: ``topics.json`` is written at the end.

    Raises:
        CheckpointError: an entry has other topics than the pipeline had: a part of it is lost.
    """
    wanted = sorted(topics)
    path = checkpoint / "topics.json"
    try:
        recorded = orjson.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        # The entries say it as well.
        recorded = None
    if recorded == wanted:
        return
    offsets = checkpoint / "spark" / "offsets"
    # The batch before the newest one tells where that begins, if it is still to be done.
    for batch in sorted(_batches(offsets))[-2:]:
        _name_topics(offsets / str(batch), recorded, wanted, sync=sync)
    # Kafka's source keeps there, by its number, where its topic began.
    rmtree(checkpoint / "spark" / "sources", ignore_errors=True)
    replace_file(path, orjson.dumps(wanted), sync=sync)


def _name_topics(entry: Path, recorded: list[str] | None, wanted: list[str], *, sync: bool) -> None:
    """Let one entry name the topics ``wanted``, where it named ``recorded`` (None: not known)."""
    lines = entry.read_text().splitlines()
    try:
        named = [orjson.loads(line) for line in lines[_HEAD:]]
        ends = {topic: of_topic for line in named for topic, of_topic in line.items()}
    except (ValueError, AttributeError):
        ends = {}
    if list(ends) == wanted:
        return
    if not ends or (recorded is not None and list(ends) != recorded):
        message = (
            f"Spark's offset log entry {entry} names the topics {list(ends)}, the pipeline read "
            f"{recorded}: a part of it is lost; restore the checkpoint"
        )
        raise CheckpointError(message)
    new_lines = [orjson.dumps({topic: ends.get(topic, {})}).decode() for topic in wanted]
    # Spark would find that a checksum of the old entry is wrong.
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    replace_file(entry, "\n".join([*lines[:_HEAD], *new_lines]).encode(), sync=sync)


def _batches(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
