"""The position of a table version: how far into each source partition it reaches.

Modelled on Kafka Streams' ``Position`` and ``PositionBound`` (KIP-796): topic ->
partition -> offset. Our offset is *exclusive*: every record below it is included, as
in Kafka's committed offsets. For an event log the offset is a byte position, so a
producer that appended a line knows it is in once ``offset >= file size after the append``.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

Offsets = dict[str, dict[str, int]]

#: Key of the application's id in the Delta commit's ``commitInfo``: marks commits of ours,
#: which end with a ``txn`` action.
COMMIT_APPLICATION_KEY = "oriel_application"

#: Key of our JSON text in the Delta commit's ``commitInfo``.
COMMIT_INFO_KEY = "oriel"


@dataclass(frozen=True)
class CommitRecord:
    """What each commit of the pipeline says of itself, in ``commitInfo.oriel``.

    ``batch`` is Spark's batch id, ``offsets`` the exclusive end per topic and partition,
    ``stream_time_ms`` the clock of each partition (-1 before its first record),
    ``close_ms`` the time before which every window is final (min over partitions of
    stream time - grace), ``counters`` the running totals since the store began:
    ``input = applied + late + dead_lettered + filtered``.
    """

    batch: int
    offsets: Offsets
    stream_time_ms: Offsets
    close_ms: int
    counters: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The record as the text that goes into the commit."""
        return orjson.dumps(self, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "CommitRecord":
        """Read back what ``to_json`` wrote."""
        fields: dict[str, Any] = orjson.loads(text)
        return cls(**fields)
