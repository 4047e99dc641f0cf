"""The position of a table version, and a caller's demand for a least position.

Modelled on Kafka Streams' ``Position`` and ``PositionBound`` (KIP-796): topic ->
partition -> offset. Our offset is *exclusive*: every record below it is included, as
in Kafka's committed offsets. For an event log the offset is a byte position, so a
producer that appended a line knows it is in once ``offset >= file size after the append``.

A bound (guarantees.md#4) can be said in two ways: as a table version (from an earlier answer:
monotonic reads), or as an offset per topic and partition (from a producer: read your writes).
``flights:0:12345`` is reached when all records below 12345 are in.

A restore of an older backup starts another history, whose versions have the numbers of the lost
ones. So a version comes with its ``history`` (docs/decisions/0086):

    history  =  TABLE - DIGEST

These are the first digits of the table's id and of the digest of the version's log entry. Entries
have times and random file names, so no two histories share an entry that was written after they
parted.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

#: Topic -> partition (as text) -> exclusive end offset.
Offsets = dict[str, dict[str, int]]

#: Key of the application's id in the Delta commit's ``commitInfo``: marks commits of ours,
#: which end with a ``txn`` action.
COMMIT_APPLICATION_KEY = "oriel_application"

#: Key of our JSON text in the Delta commit's ``commitInfo``.
COMMIT_INFO_KEY = "oriel"

#: A bound as a request has it; the lengths keep both numbers below 2**63.
_OFFSET_BOUND = re.compile(r"([^:]+):(\d{1,9}):(\d{1,18})")

#: The ``history`` of a position.
HISTORY_PATTERN = r"([0-9a-f]{1,8})?-([0-9a-f]{1,8})?"
_HISTORY = re.compile(HISTORY_PATTERN, re.ASCII)
_SHOWN_DIGITS = 8


@dataclass(frozen=True)
class CommitRecord:
    """What each commit of the pipeline says of itself, in ``commitInfo.oriel``.

    ``batch`` is Spark's batch id, ``offsets`` the exclusive end per topic and partition,
    ``stream_time_ms`` the clock of each partition (-1 before its first record),
    ``close_ms`` the time before which every window is final (min over partitions of
    stream time - grace), ``counters`` the running totals since the store began:
    ``input = applied + late + dead_lettered + filtered``. ``observed_ms`` is the store's clock, by
    which retention counts: the greatest start (of a session the greatest end) of any window that
    the store was ever put, had each record been a batch of its own (semantics.md#7); -1 for none.
    """

    batch: int
    offsets: Offsets
    stream_time_ms: Offsets
    close_ms: int
    counters: dict[str, int] = field(default_factory=dict)
    observed_ms: int = -1

    def to_json(self) -> str:
        """The record as the text under ``COMMIT_INFO_KEY``, with sorted names."""
        return orjson.dumps(self, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "CommitRecord":
        """Read back what ``to_json`` wrote.

        Raises:
            TypeError: the text has other fields than a record has.
            orjson.JSONDecodeError: the text is no JSON.
        """
        fields: dict[str, Any] = orjson.loads(text)
        return cls(**fields)


class OffsetBound(NamedTuple):
    """One partition's least exclusive end offset; the partition is a text, as in ``Offsets``."""

    topic: str
    partition: str
    offset: int

    def __str__(self) -> str:
        """The bound as a request has it, ``TOPIC:PARTITION:OFFSET``."""
        return f"{self.topic}:{self.partition}:{self.offset}"


class PositionBound(NamedTuple):
    """The least position that an answer may have; the default demands nothing."""

    min_version: int = -1
    min_offsets: tuple[OffsetBound, ...] = ()

    def missing(self, version: int, offsets: Offsets) -> list[str]:
        """What a position lacks to satisfy this bound, for people; empty when it does.

        A topic or partition that the position doesn't name counts as not reached.
        """
        lacks = []
        if version < self.min_version:
            lacks.append(f"version {version} is less than {self.min_version}")
        for bound in self.min_offsets:
            reached = offsets.get(bound.topic, {}).get(bound.partition, -1)
            if reached < bound.offset:
                partition = f"{bound.topic}:{bound.partition}"
                lacks.append(f"offset {max(reached, 0)} of {partition} is less than {bound.offset}")
        return lacks


class Place(NamedTuple):
    """A version of one history; ``table`` and ``digest`` are "" if they are unknown."""

    version: int
    table: str
    digest: str

    @property
    def history(self) -> str:
        """The history as positions, event ids and requests have it."""
        return f"{self.table}-{self.digest}"

    @classmethod
    def of(cls, version: int, table_id: str, digest: str) -> "Place":
        """Return the place of a version of a table, by the digest of its log entry."""
        table = re.sub("[^0-9a-f]", "", table_id)[:_SHOWN_DIGITS]
        return cls(version, table, digest[:_SHOWN_DIGITS])

    @classmethod
    def read(cls, version: int, history: str) -> "Place | None":
        """Return the place of a version in a ``history``; None if the text is not a history."""
        match = _HISTORY.fullmatch(history)
        return None if match is None else cls(version, match[1] or "", match[2] or "")


def parse_offset_bound(text: str) -> OffsetBound | None:
    """Read ``TOPIC:PARTITION:OFFSET``; None when the text isn't of that form.

    Leading zeros of the partition go: ``007`` is partition 7.
    """
    match = _OFFSET_BOUND.fullmatch(text)
    return None if match is None else OffsetBound(match[1], str(int(match[2])), int(match[3]))
