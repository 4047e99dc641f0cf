"""The updates of an aggregation, record by record from their definition; slow, and obviously right.

Kafka Streams forwards behind each record the row of each window that it changed, with the greatest
time of the row's records (KIP-259), if no cache holds updates back.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """A record of a log with one partition."""

    key: str
    value: int | None
    timestamp_ms: int


@dataclass(frozen=True)
class Span:
    """Tumbling or hopping windows; without a size one window for ever."""

    size_ms: int | None = None
    advance_ms: int = 1
    grace_ms: int = 0

    def starts(self, time_ms: int, stream_time_ms: int) -> list[int]:
        """Where the open windows of a record begin."""
        if self.size_ms is None:
            return [0]
        return [
            start
            for start in range(0, time_ms + 1, self.advance_ms)
            if time_ms < start + self.size_ms
            and start + self.size_ms + self.grace_ms > stream_time_ms
        ]


class Update(NamedTuple):
    """A row behind the record at ``offset``, or that there is none any more."""

    offset: int
    key: str
    window_start_ms: int
    timestamp_ms: int
    row: Mapping[str, Any] | None


#: The values of a window's records, in the order of arrival, with their times -> the row, if any.
Row = Callable[[Sequence[tuple[int | None, int]]], Mapping[str, Any] | None]


def every_aggregate(records: Sequence[tuple[int | None, int]]) -> Mapping[str, Any]:
    """Of the values that are set."""
    values = [value for value, _ in records if value is not None]
    return {
        "n": len(records),
        "total": sum(values) if values else None,
        "least": min(values, default=None),
        "all": sorted(values),
    }


def updates(log: Sequence[Entry], span: Span, row_of: Row) -> Iterator[Update]:
    """All updates, in order."""
    stream_time_ms = 0
    windows: dict[tuple[str, int], list[tuple[int | None, int]]] = {}
    for offset, (key, value, time_ms) in enumerate(log):
        stream_time_ms = max(stream_time_ms, time_ms)
        for start in span.starts(time_ms, stream_time_ms):
            records = windows.setdefault((key, start), [])
            records.append((value, time_ms))
            row = row_of(records)
            yield Update(offset, key, start, max(each for _, each in records), row)
            if row is None:
                # A row that a function removes leaves nothing behind (semantics section 9).
                records.clear()
