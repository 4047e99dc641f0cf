"""A caller's demand for a minimum position (KIP-796 ``PositionBound``; promise 4).

Two ways to say it: a table version (from an earlier answer: monotonic reads), or an offset per
topic and partition (from a producer: read your writes). Offsets are exclusive ends, as in
every position of ours: ``flights:0:12345`` is reached when all records below 12345 are in.
"""

import re
from typing import NamedTuple

from oriel.storage.position import Offsets

_OFFSET = re.compile(r"([^:]+):(\d{1,9}):(\d{1,18})")


class OffsetBound(NamedTuple):
    """One partition's least exclusive end offset."""

    topic: str
    partition: str
    offset: int

    def __str__(self) -> str:
        """Show it as it is written in a request."""
        return f"{self.topic}:{self.partition}:{self.offset}"


class PositionBound(NamedTuple):
    """The least position that an answer may have; the default demands nothing."""

    min_version: int = -1
    min_offsets: tuple[OffsetBound, ...] = ()

    def missing(self, version: int, offsets: Offsets) -> list[str]:
        """What a position lacks to satisfy this bound, for people; empty when it does.

        A topic or partition that the position doesn't name counts as not reached.
        """
        lacks = [] if version >= self.min_version else [f"version {version} < {self.min_version}"]
        for bound in self.min_offsets:
            reached = offsets.get(bound.topic, {}).get(bound.partition, -1)
            if reached < bound.offset:
                place = f"{bound.topic}:{bound.partition}"
                lacks.append(f"{place} is at {max(reached, 0)} < {bound.offset}")
        return lacks


def parse_offset_bound(text: str) -> OffsetBound | None:
    """Read ``TOPIC:PARTITION:OFFSET``; None when the text isn't of that form."""
    match = _OFFSET.fullmatch(text)
    return None if match is None else OffsetBound(match[1], str(int(match[2])), int(match[3]))
