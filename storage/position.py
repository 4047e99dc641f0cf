"""The position of a table version, and the least position that a request requires.

They are modeled on Kafka Streams' ``Position`` and ``PositionBound`` (KIP-796): topic -> partition
-> offset. An offset is *exclusive*: the position includes every record below it, as for committed
offsets in Kafka. For an event log, the offset is a byte position. A producer that appended a line
knows that it is included once ``offset >= file size after the append``.

A bound (guarantees.md#4) is a table version or offsets. A client that sends the version of an
earlier response has monotonic reads. A producer that sends an offset per topic and partition reads
its own writes. ``flights:0:12345`` is reached when all records below 12345 are included.

A restore of an older backup starts another history, whose versions have the numbers of the lost
ones. So a position has a ``history`` in addition to its version (docs/decisions/0086):

    history  =  TABLE - DIGEST

These are the first digits of the table's id and of the digest of the version's log entry. Entries
have times and random file names. So two histories never share an entry that was written after the
restore.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

#: Topic -> partition (as a string) -> exclusive end offset.
Offsets = dict[str, dict[str, int]]

#: Key of the application's id in the ``commitInfo`` of a Delta commit. It marks commits of Oriel,
#: which end with a ``txn`` action.
COMMIT_APPLICATION_KEY = "oriel_application"

#: Key of the commit record as JSON in the ``commitInfo`` of a Delta commit.
COMMIT_INFO_KEY = "oriel"

#: A bound in a request. The lengths keep both numbers below 2**63.
_OFFSET_BOUND = re.compile(r"([^:]+):(\d{1,9}):(\d{1,18})")

#: The ``history`` of a position.
HISTORY_PATTERN = r"([0-9a-f]{1,8})?-([0-9a-f]{1,8})?"
_HISTORY = re.compile(HISTORY_PATTERN, re.ASCII)
_HISTORY_DIGITS = 8


@dataclass(frozen=True)
class CommitRecord:
    """The position and counters in each commit of the pipeline, in ``commitInfo.oriel``.

    Attributes:
        batch: Spark's batch id.
        offsets: The exclusive end offset per topic and partition.
        stream_time_ms: The stream time of each partition. It is -1 before the first record.
        close_ms: The time before which every window is final: the minimum over partitions of stream
            time - grace.
        counters: The totals since the store began: ``input = applied + late + dead_lettered +
            filtered``.
        observed_ms: The stream time that retention uses (semantics.md#7). It is the greatest start
            (for sessions, the greatest end) of any window that the store would have written if each
            record were its own batch. It is -1 without windows.
    """

    batch: int
    offsets: Offsets
    stream_time_ms: Offsets
    close_ms: int
    counters: dict[str, int] = field(default_factory=dict)
    observed_ms: int = -1

    def to_json(self) -> str:
        """Return the record as the string under ``COMMIT_INFO_KEY``, with sorted names."""
        return orjson.dumps(self, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "CommitRecord":
        """Parse a record that ``to_json`` wrote.

        Raises:
            TypeError: the string has other fields than a record.
            orjson.JSONDecodeError: the string is not JSON.
        """
        fields: dict[str, Any] = orjson.loads(text)
        return cls(**fields)


class OffsetBound(NamedTuple):
    """The least exclusive end offset of one partition, which is a string as in ``Offsets``."""

    topic: str
    partition: str
    offset: int

    def __str__(self) -> str:
        """Return the bound as in a request, ``TOPIC:PARTITION:OFFSET``."""
        return f"{self.topic}:{self.partition}:{self.offset}"


class PositionBound(NamedTuple):
    """The least position that a response can have. The default requires nothing."""

    min_version: int = -1
    min_offsets: tuple[OffsetBound, ...] = ()

    def missing(self, version: int, offsets: Offsets) -> list[str]:
        """Return why a position does not satisfy this bound, for display. Empty if it does.

        A topic or partition that the position does not have counts as not reached.
        """
        reasons = []
        if version < self.min_version:
            reasons.append(f"version {version} is less than {self.min_version}")
        for bound in self.min_offsets:
            reached = offsets.get(bound.topic, {}).get(bound.partition, -1)
            if reached < bound.offset:
                partition = f"{bound.topic}:{bound.partition}"
                reasons.append(
                    f"offset {max(reached, 0)} of {partition} is less than {bound.offset}"
                )
        return reasons


class Place(NamedTuple):
    """A version of one history.

    Attributes:
        version: The version.
        table: The first digits of the table's id, or "" if unknown.
        digest: The first digits of the digest of the version's log entry, or "" if unknown.
    """

    version: int
    table: str
    digest: str

    @property
    def history(self) -> str:
        """The history as in positions, event ids and requests."""
        return f"{self.table}-{self.digest}"

    @classmethod
    def of(cls, version: int, table_id: str, digest: str) -> "Place":
        """Return the place of a table version, from the digest of its log entry."""
        table = re.sub("[^0-9a-f]", "", table_id)[:_HISTORY_DIGITS]
        return cls(version, table, digest[:_HISTORY_DIGITS])

    @classmethod
    def read(cls, version: int, history: str) -> "Place | None":
        """Return the place of a version in a history, or None if the string is not a history."""
        match = _HISTORY.fullmatch(history)
        return None if match is None else cls(version, match[1] or "", match[2] or "")


def parse_offset_bound(text: str) -> OffsetBound | None:
    """Parse ``TOPIC:PARTITION:OFFSET``. Return None if the string does not have this form.

    Leading zeros of the partition are removed: ``007`` is partition 7.
    """
    match = _OFFSET_BOUND.fullmatch(text)
    return None if match is None else OffsetBound(match[1], str(int(match[2])), int(match[3]))
