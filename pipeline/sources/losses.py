"""Records that Kafka deleted before they were read, and the facts that a checkpoint keeps.

``CHECKPOINT/kafka.json`` contains the start of the checkpoint, the id of each topic, and the
offsets that were skipped since then (docs/decisions/0033). Gaps in the offsets by compaction and
transactions are not losses. If a partition begins at or before the offset up to which it was read,
no record is lost.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import orjson

from oriel.pipeline.errors import CheckpointError, RecordsLost
from oriel.pipeline.sources.brokers import TopicLog
from oriel.storage import Offsets, current_files, replace_file, with_digest, without_digest

#: The file's name.
KAFKA_CHECKPOINT_FILE = "kafka.json"
#: The topic id from brokers without topic ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
#: An error names at most this many gaps.
_MAX_NAMED_GAPS = 3

_START_AGAIN = "Start again with another data directory"


class Gap(NamedTuple):
    """Offsets of a partition from ``start`` to before ``end``."""

    topic: str
    partition: str
    start: int
    end: int

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r}, partition {self.partition}: {self.end - self.start} offsets, "
            f"{self.start} to {self.end - 1}, were deleted from Kafka before they were read"
        )


def gaps(read: Offsets, firsts: Offsets) -> list[Gap]:
    """Return the gaps between offsets that were read and the first offsets that exist.

    Topics that were not read have no gaps.

    Args:
        read: The offset up to which each partition was read. A partition that is missing is read
            from 0.
        firsts: The first offset that exists in each partition.
    """
    return [
        Gap(topic, partition, known.get(partition, 0), first)
        for topic, known in read.items()
        for partition, first in firsts.get(topic, {}).items()
        if first > known.get(partition, 0)
    ]


def reject_another_log(
    topic: str, log: TopicLog | Mapping[str, int], read: Mapping[str, int], known: str | None = None
) -> None:
    """Reject a topic whose offsets no longer identify the records that were read.

    Args:
        topic: The name of the topic.
        log: The topic, or the ends of its partitions.
        read: The offset up to which each partition was read.
        known: The id of the topic that was read. None: unknown.

    Raises:
        RecordsLost: The topic was re-created, or ends before an offset of ``read``.
    """
    if isinstance(log, TopicLog):
        if known not in {None, _NO_ID, log.id} and log.id != _NO_ID:
            message = (
                f"topic {topic!r} was deleted and created again since this checkpoint began, so "
                f"its offsets name other records. {_START_AGAIN}"
            )
            raise RecordsLost(message)
        ends = log.latest
    else:
        ends = log
    for partition, offset in read.items():
        if ends.get(partition, -1) < offset:
            now = f"ends at {ends[partition]} now" if partition in ends else "is missing now"
            message = (
                f"topic {topic!r}, partition {partition}: it was read up to offset {offset}, but "
                f"it {now}. It was truncated or created again, so its offsets name other records. "
                f"{_START_AGAIN}"
            )
            raise RecordsLost(message)


@dataclass
class KafkaCheckpoint:
    """The facts about topics that a checkpoint keeps in one file.

    Attributes:
        path: The file.
        start: The start of the checkpoint, for topics that are not in ``topic_starts``.
        topic_ids: Topic -> its id.
        lost: Topic -> partition -> spans of skipped offsets, in order and without overlaps.
        topic_starts: Topic -> its start.
        firsts: Topic -> partition -> the offset of the start.
    """

    path: Path
    start: str
    topic_ids: dict[str, str] = field(default_factory=dict)
    lost: dict[str, dict[str, list[tuple[int, int]]]] = field(default_factory=dict)
    topic_starts: dict[str, str] = field(default_factory=dict)
    firsts: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def opened(cls, path: Path, start: str, topic_starts: Mapping[str, str]) -> Self:
        """Return the record at ``path``, or a new record, which is not written yet.

        Raises:
            CheckpointError: The file is damaged.
        """
        try:
            content = orjson.loads(without_digest(current_files().read(path)))
            return cls(
                path, content["start"], content["topic_ids"], content["lost"],
                # Files of earlier versions have no start per topic and no first offsets.
                content.get("topic_starts", {}), content.get("firsts", {}),
            )  # fmt: skip
        except FileNotFoundError:
            return cls(path, start, topic_starts=dict(topic_starts))
        except (KeyError, TypeError, ValueError) as error:
            message = (
                f"{path} is damaged ({error}). Restore the file from a backup, or delete it if "
                "Kafka still has the topics that were read before"
            )
            raise CheckpointError(message) from error

    def start_of(self, topic: str) -> str:
        """Return the start of a topic in this checkpoint."""
        return self.topic_starts.get(topic, self.start)

    def record_topic_ids(self, topic_ids: Mapping[str, str]) -> None:
        """Write the ids of topics."""
        if any(self.topic_ids.get(topic) != known for topic, known in topic_ids.items()):
            self.topic_ids |= topic_ids
            self._write()

    def record_first_offsets(self, firsts: Offsets) -> None:
        """Write the offsets at which the checkpoint begins with topics."""
        if any(self.firsts.get(topic) != known for topic, known in firsts.items()):
            self.firsts |= firsts
            self._write()

    def refuse(self, found: list[Gap]) -> None:
        """Reject gaps.

        Raises:
            RecordsLost: ``found`` has a gap.
        """
        if found:
            more = (
                f" (and {len(found) - _MAX_NAMED_GAPS} more)"
                if len(found) > _MAX_NAMED_GAPS
                else ""
            )
            message = (
                f"{'; '.join(map(str, found[:_MAX_NAMED_GAPS]))}{more}. Use --on-data-loss "
                "continue to count them and continue, or start again with another data directory"
            )
            raise RecordsLost(message)

    def record_gaps(self, found: Iterable[Gap]) -> list[Gap]:
        """Write gaps, and return the new ones: a repeated batch finds known gaps."""
        new = []
        for gap in found:
            spans = self.lost.setdefault(gap.topic, {}).setdefault(gap.partition, [])
            if any(start <= gap.start and gap.end <= end for start, end in spans):
                continue
            new.append(gap)
            spans[:] = _joined([*spans, (gap.start, gap.end)])
        if new:
            self._write()
        return new

    def lost_records(self) -> dict[str, int]:
        """Return how many offsets of each topic were skipped."""
        return {
            topic: sum(end - start for spans in partitions.values() for start, end in spans)
            for topic, partitions in self.lost.items()
        }

    def _write(self) -> None:
        content = {
            "start": self.start, "topic_starts": self.topic_starts,
            "topic_ids": self.topic_ids, "lost": self.lost, "firsts": self.firsts,
        }  # fmt: skip
        replace_file(self.path, with_digest(orjson.dumps(content)), sync=True)


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans in order, with adjacent spans joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(map(tuple, spans)):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
