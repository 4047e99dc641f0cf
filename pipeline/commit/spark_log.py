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


def follow_topics(spark: Path, topics: Iterable[str], *, sync: bool) -> None:
    """Let the entries from which Spark goes on name ``topics`` and no others.

    Spark knows its sources by their order, so that it could not go on with one more, or one less.
    A topic that comes to a topology begins where nothing of it is read; one that goes is
    forgotten. It changes nothing where the topics are those that the entries name. Killed in
    between, it is done again.
    """
    wanted = sorted(topics)
    # The batch before the newest one tells where that begins, if it is still to be done.
    for batch in sorted(_batches(spark / "offsets"))[-2:]:
        path = spark / "offsets" / str(batch)
        lines = path.read_text().splitlines()
        try:
            known = {topic: of_topic for line in lines[_HEAD:]
                     for topic, of_topic in orjson.loads(line).items()}  # fmt: skip
        except (ValueError, AttributeError) as error:
            message = f"Spark's offset log entry {path} can't be read: {error}"
            raise CheckpointError(message) from error
        if list(known) == wanted:
            continue
        # Kafka's source keeps by its number where its topic began.
        rmtree(spark / "sources", ignore_errors=True)
        named = [orjson.dumps({topic: known.get(topic, {})}).decode() for topic in wanted]
        # Spark would find that a checksum of the old entry is wrong.
        path.with_name(f".{batch}.crc").unlink(missing_ok=True)
        replace_file(path, "\n".join([*lines[:_HEAD], *named]).encode(), sync=sync)


def _batches(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
