"""Slow reference model of sessions: decision 0009, applied to the records themselves.

Pure Python, record by record, without code of the engines (``tests.models.tables`` has the types).

    c             stream time of the record's own partition at it - G - gap
    joins         the sessions [a, b] of its partition with a - gap <= t <= b + gap and b >= c
    late          it joins none, and t < c; a session with b < c is frozen
    together      sessions X, Y of two partitions, b_Y <= b_X, iff some record of X has
                  c <= b_Y and t <= b_Y + gap; a store's session is a connected component
    final         its end < min over partitions of stream time - G - gap
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.models.tables import (
    Arrived,
    FunctionOutcome,
    FunctionRow,
    Functions,
    Logs,
    Outcome,
    Window,
    arrivals,
    final_close,
    in_order,
)


@dataclass(frozen=True, eq=False)
class PartSession:
    """A session of one key in one partition: its records and their aggregate."""

    records: tuple[Arrived, ...]
    value: Any = None

    @property
    def start(self) -> int:
        """Return the least record time."""
        return min(record.time for record in self.records)

    @property
    def end(self) -> int:
        """Return the greatest record time."""
        return max(record.time for record in self.records)

    @property
    def partition(self) -> int:
        """Return the partition of its records."""
        return self.records[0].partition


#: Returns the aggregate of a session from the new record and the sessions that it joins.
_Making = Callable[[Arrived, Sequence[PartSession]], Any]


@dataclass
class _Parts:
    """The partition sessions of all keys and partitions, and the late and rejected records."""

    sessions: list[PartSession]
    late: int
    rejected: set[tuple[int, int]]


def part_sessions(logs: Logs, gap: int, grace: int) -> list[PartSession]:
    """Return the sessions of each partition on its own (the first rule of decision 0009)."""
    return _parts(logs, gap, grace, lambda *_: "").sessions


def expected_sessions(logs: Logs, gap: int, grace: int) -> Outcome:
    """Return every session of ``logs``."""
    parts = _parts(logs, gap, grace, lambda *_: "")
    close = final_close(logs, grace + gap)
    found = {}
    for component in components(parts.sessions, gap):
        records = in_order(record for session in component for record in session.records)
        start, end = records[0].time, records[-1].time
        place = records[0].key, start, end
        assert place not in found, "two sessions of one key have the same bounds"
        found[place] = Window(records, final=end < close)
    total = sum(len(log) for log in logs.values())
    return Outcome(found, total - parts.late, parts.late)


def aggregated_sessions(logs: Logs, gap: int, grace: int, functions: Functions) -> FunctionOutcome:
    """Return the user-defined aggregate of each session (semantics.md#4)."""

    def made(record: Arrived, joined: Sequence[PartSession]) -> Any:
        value = functions.initial()
        for session in sorted(joined, key=lambda s: (s.end, s.start)):
            value = functions.merged(record.key, value, session.value)
        return functions.added(record, value)

    parts = _parts(logs, gap, grace, made)
    close = final_close(logs, grace + gap)
    found = {}
    for component in components(parts.sessions, gap):
        first, *others = sorted(component, key=lambda s: (s.end, s.start, s.partition))
        key, value = first.records[0].key, first.value
        for session in others:
            value = functions.merged(key, value, session.value)
        start, end = min(s.start for s in component), max(s.end for s in component)
        found[key, start, end] = FunctionRow(value, end, final=end < close)
    total = sum(len(log) for log in logs.values())
    applied = total - parts.late - len(parts.rejected)
    return FunctionOutcome(found, applied, parts.late, parts.rejected)


def _parts(logs: Logs, gap: int, grace: int, made: _Making) -> _Parts:
    """Return partition sessions by the first rule of decision 0009, with nulls and failures.

    A null result deletes the session. A record on which the function raises joins no session.
    """
    parts = _Parts([], 0, set())
    for record in arrivals(logs, grace + gap):
        joined = [s for s in parts.sessions if _joins(record, s, gap)]
        if not joined and record.time < record.close:
            parts.late += 1
            continue
        try:
            value = made(record, joined)
        except ArithmeticError:
            parts.rejected.add((record.partition, record.offset))
            continue
        parts.sessions = [s for s in parts.sessions if s not in joined]
        if value is not None:
            records = (*(r for s in joined for r in s.records), record)
            parts.sessions.append(PartSession(records, value))
    return parts


def _joins(record: Arrived, session: PartSession, gap: int) -> bool:
    """Return whether a record joins a session of its own key and partition."""
    mine = (session.records[0].key, session.partition) == (record.key, record.partition)
    near = session.start - gap <= record.time <= session.end + gap
    return mine and near and session.end >= record.close


def together(one: PartSession, other: PartSession, gap: int) -> bool:
    """Return whether the second rule of decision 0009 links two sessions of one key."""
    lower, upper = (one, other) if one.end <= other.end else (other, one)
    return any(r.close <= lower.end and r.time <= lower.end + gap for r in upper.records)


def components(sessions: Sequence[PartSession], gap: int) -> list[list[PartSession]]:
    """Return the connected components (the second rule of decision 0009).

    The function merges groups until nothing changes.
    """
    groups = [[session] for session in sessions]
    merged = True
    while merged:
        merged = False
        for left, right in combinations(groups, 2):
            if any(_linked(x, y, gap) for x in left for y in right):
                groups = [g for g in groups if g is not left and g is not right]
                groups.append(left + right)
                merged = True
                break
    return groups


def _linked(one: PartSession, other: PartSession, gap: int) -> bool:
    same_key = one.records[0].key == other.records[0].key
    return same_key and one.partition != other.partition and together(one, other, gap)
