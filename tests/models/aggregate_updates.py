"""Slow reference model of an aggregation's updates, computed record by record.

After each record, Kafka Streams forwards the row of each window that the record changed. The row
has the greatest time of its records (KIP-259). The model assumes that no cache holds updates back.
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
    """Tumbling or hopping windows. Without a ``size_ms``, one unbounded window."""

    size_ms: int | None = None
    advance_ms: int = 1
    grace_ms: int = 0

    def starts(self, time_ms: int, stream_time_ms: int) -> list[int]:
        """Return the start times of the open windows that contain the record."""
        if self.size_ms is None:
            return [0]
        return [
            start
            for start in range(0, time_ms + 1, self.advance_ms)
            if time_ms < start + self.size_ms
            and start + self.size_ms + self.grace_ms > stream_time_ms
        ]


class Update(NamedTuple):
    """The row of a window after the record at ``offset``, or None if the window has no row now."""

    offset: int
    key: str
    window_start_ms: int
    timestamp_ms: int
    row: Mapping[str, Any] | None


#: Values and times of a window's records in arrival order -> the row, or None.
Row = Callable[[Sequence[tuple[int | None, int]]], Mapping[str, Any] | None]


def every_aggregate(records: Sequence[tuple[int | None, int]]) -> Mapping[str, Any]:
    """Return the number of records and the aggregates of their non-null values."""
    values = [value for value, _ in records if value is not None]
    return {
        "n": len(records),
        "total": sum(values) if values else None,
        "least": min(values, default=None),
        "all": sorted(values),
    }


def updates(log: Sequence[Entry], span: Span, row_of: Row) -> Iterator[Update]:
    """Yield all updates in order."""
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
                # A null result also discards the window's records (semantics.md#9).
                records.clear()


def sliding_updates(
    log: Sequence[Entry], difference_ms: int, grace_ms: int, row_of: Row
) -> Iterator[Update]:
    """Yield all updates of sliding windows in order (semantics.md#2-1, semantics.md#2-4).

    The model computes the windows (semantics.md#2-3) again after each record.
    """
    stream_time_ms = 0
    accepted: dict[str, list[tuple[int | None, int, int]]] = {}
    for offset, (key, value, time_ms) in enumerate(log):
        stream_time_ms = max(stream_time_ms, time_ms)
        close_ms = stream_time_ms - grace_ms
        if time_ms + difference_ms < close_ms or value is None:
            continue
        own = accepted.setdefault(key, [])
        before = _sliding_windows(own, difference_ms)
        own.append((value, time_ms, close_ms))
        after = _sliding_windows(own, difference_ms)
        changed = [start for start, members in after.items() if members != before.get(start)]
        for start in _as_forwarded(changed, before, time_ms, difference_ms):
            members = [(each, time) for each, time, _ in after[start]]
            # After a removal, the row and its timestamp start again (semantics.md#9).
            removals = [n for n in range(1, len(members)) if row_of(members[:n]) is None]
            newest_ms = max(time for _, time in members[max(removals, default=0) :])
            yield Update(offset, key, start, newest_ms, row_of(members))


def _sliding_windows(
    records: Sequence[tuple[int | None, int, int]], difference_ms: int
) -> dict[int, list[tuple[int | None, int, int]]]:
    """Return the members of each window of a key, by window start.

    Each record is (value, time, close time).
    """
    starts = {time + 1 for _, time, _ in records}
    starts |= {
        max(0, time - difference_ms)
        for _, time, close_ms in records
        if max(time, difference_ms) >= close_ms
    }
    windows = {
        start: [
            record
            for record in records
            if start <= record[1] <= start + difference_ms and start + difference_ms >= record[2]
        ]
        for start in starts
    }
    return {start: members for start, members in windows.items() if members}


def _as_forwarded(
    changed: Sequence[int], before: Mapping[int, object], time_ms: int, difference_ms: int
) -> list[int]:
    """Return the starts of the changed windows in Kafka Streams' forwarding order."""
    left, right = max(0, time_ms - difference_ms), time_ms + 1
    existing = sorted((start for start in changed if start in before), reverse=True)
    new = [start for start in changed if start not in before and start not in {left, right}]
    lefts = [left] if left in changed and left not in before else []
    rights = [right] if right in changed and right not in before else []
    if time_ms < difference_ms:
        of_all = [start for start in reversed(existing) if start] + rights + new
        return of_all + [start for start in changed if not start]
    return [*existing, *sorted(new, reverse=True), *lefts, *rights]


def session_updates(
    log: Sequence[Entry], gap_ms: int, grace_ms: int, row_of: Row
) -> Iterator[Update]:
    """Yield all updates of sessions in order (semantics.md#4).

    The time of a removed session is its own end. ``row_of`` receives the records of the merged
    sessions, sorted by session end, and then the new record.
    """
    stream_time_ms = 0
    sessions: dict[str, list[list[tuple[int | None, int]]]] = {}
    for offset, (key, value, time_ms) in enumerate(log):
        stream_time_ms = max(stream_time_ms, time_ms)
        close_ms = stream_time_ms - grace_ms - gap_ms
        own = sessions.setdefault(key, [])
        joined = [
            session
            for session in sorted(own, key=_end)
            if max(time_ms - gap_ms, close_ms) <= _end(session)
            and _start(session) <= time_ms + gap_ms
        ]
        if not joined and time_ms < close_ms:
            continue
        hull = [*(record for session in joined for record in session), (value, time_ms)]
        if (_start(hull), _end(hull)) != (time_ms, time_ms):
            for session in joined:
                yield Update(offset, key, _start(session), _end(session), None)
        row = row_of(hull)
        own[:] = [session for session in own if session not in joined]
        if row is not None:
            own.append(hull)
        yield Update(offset, key, _start(hull), _end(hull), row)


def _start(session: Sequence[tuple[int | None, int]]) -> int:
    return min(time for _, time in session)


def _end(session: Sequence[tuple[int | None, int]]) -> int:
    return max(time for _, time in session)
