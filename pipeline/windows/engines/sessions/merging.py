"""How records come into partition sessions (semantics.md#4; docs/decisions/0009, rule 1).

A *partition session* is the session that the records of one key in one source partition make.
With ``c`` = a record's close time (stream time - grace - inactivity gap), a record at ``t``
joins the sessions ``[a, b]`` of its pair (key, partition) for which all three hold:

    b >= t - gap    it is not more than the gap after the session
    a <= t + gap    nor more than the gap before it
    b >= c          the session is open for it (semantics.md#0-2); a closed one is frozen

If there is none and ``t < c``, the record is late. Else all of them and the record become one
session, their hull. ``assign_records`` finds each record's session in one of two ways: as chains
of intervals, all pairs at once, and in order of arrival where that order decides.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, heads, pair_order, running_max
from oriel.pipeline.windows.definitions import SessionWindows
from oriel.pipeline.windows.functions import Rejected
from oriel.pipeline.windows.records import arrival_keys


@dataclass
class PartitionSession:
    """One partition session: number of its (key, partition) pair, bounds and reach in ms.

    ``state_rows`` and ``record_rows`` are the rows of the state and of the batch that are in it.
    ``aggregate`` is for users' functions only.
    """

    pair: int
    start_ms: int
    end_ms: int
    reach_ms: int
    state_rows: list[int] = field(default_factory=list)
    record_rows: list[int] = field(default_factory=list)
    aggregate: Any = None


@dataclass(frozen=True)
class SessionBounds:
    """Partition sessions as arrays, one entry each: pair, bounds and reach in ms."""

    pair: Ints
    start_ms: Ints
    end_ms: Ints
    reach_ms: Ints

    @classmethod
    def of_state(cls, state: pa.Table, pair: Ints) -> "SessionBounds":
        """The sessions of state rows, with the pair of each row."""
        names = ("window_start_ms", "window_end_ms", "reach_ms")
        return cls(pair, *(np.asarray(state[name]) for name in names))

    @classmethod
    def of_sessions(cls, sessions: Sequence[PartitionSession]) -> "SessionBounds":
        """The bounds of sessions that were merged in order of arrival."""
        rows = [(s.pair, s.start_ms, s.end_ms, s.reach_ms) for s in sessions]
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    def __len__(self) -> int:
        return len(self.pair)

    def keep(self, chosen: Flags) -> "SessionBounds":
        """The sessions where ``chosen`` is set."""
        return SessionBounds(
            self.pair[chosen], self.start_ms[chosen], self.end_ms[chosen], self.reach_ms[chosen]
        )

    def followed_by(self, others: "SessionBounds") -> "SessionBounds":
        """These sessions, and others behind them."""
        return SessionBounds(
            np.concatenate([self.pair, others.pair]),
            np.concatenate([self.start_ms, others.start_ms]),
            np.concatenate([self.end_ms, others.end_ms]),
            np.concatenate([self.reach_ms, others.reach_ms]),
        )

    def sessions_by(
        self, group: Ints, rows: Ints, aggregates: Sequence[Any] | None = None
    ) -> dict[int, list[PartitionSession]]:
        """The sessions of the chosen state rows by their group.

        ``group`` has a number for each state row, and so has ``aggregates`` an aggregate.
        """
        by_group: dict[int, list[PartitionSession]] = {}
        columns = (self.pair, self.start_ms, self.end_ms, self.reach_ms)
        bounds = zip(*(column[rows].tolist() for column in columns), strict=True)
        for row, (pair, start_ms, end_ms, reach_ms) in zip(rows.tolist(), bounds, strict=True):
            aggregate = None if aggregates is None else aggregates[row]
            session = PartitionSession(pair, start_ms, end_ms, reach_ms, [row], [], aggregate)
            by_group.setdefault(int(group[row]), []).append(session)
        return by_group


class Arrival(NamedTuple):
    """One record in order of arrival: its row in the batch, and what ``SessionRecords`` has."""

    row: int
    pair: int
    time_ms: int
    reach_ms: int
    is_open_alone: bool


@dataclass(frozen=True)
class SessionRecords:
    """What the records of a batch are to sessions, one entry each, in the order of the batch.

    ``reach_ms`` is the least end of a session that the record can join. ``is_behind_grace``:
    some session within its gap may be closed for it. ``is_open_alone``: a session of this record
    only is open for it, so that it is never late.
    """

    pair: Ints
    time_ms: Ints
    reach_ms: Ints
    is_behind_grace: Flags
    is_open_alone: Flags
    arrival_keys: tuple[Ints, ...]

    @classmethod
    def of(cls, batch: pa.Table, pair: Ints, windows: SessionWindows) -> "SessionRecords":
        """Read the records of ``batch``; ``pair`` has the pair of each."""
        time_ms, close_ms = (np.asarray(batch[name]) for name in ("timestamp_ms", "close_ms"))
        earliest_end_ms = time_ms - windows.inactivity_gap_ms
        return cls(
            pair=pair,
            time_ms=time_ms,
            # b >= t - gap and b >= c in one number.
            reach_ms=np.maximum(close_ms, earliest_end_ms),
            # The session that ends at t - gap is the first within the gap to close.
            is_behind_grace=~windows.rule.is_open(earliest_end_ms, close_ms),
            is_open_alone=windows.rule.is_open(time_ms, close_ms),
            arrival_keys=arrival_keys(batch),
        )

    def in_arrival_order_by(
        self, group: Ints, rows: Ints
    ) -> Iterator[tuple[int, Iterator[Arrival]]]:
        """Each group of the chosen rows, with its records in order of arrival.

        ``group`` has a number for each record; the records of a group are of one pair.
        """
        rows = rows[np.lexsort((*(key[rows] for key in self.arrival_keys), group[rows]))]
        columns = (self.pair, self.time_ms, self.reach_ms, self.is_open_alone)
        for low, high in Ranges.of_runs(heads(group[rows])).pairs():
            chosen = rows[low:high]
            numbers = (column[chosen].tolist() for column in columns)
            yield (
                int(group[chosen[0]]),
                (Arrival(*values) for values in zip(chosen.tolist(), *numbers, strict=True)),
            )


@dataclass(frozen=True)
class AssignedSessions:
    """The sessions after a batch, and the session's number of each record and each state row.

    A record that is late has the number -1.
    """

    sessions: SessionBounds
    of_record: Ints
    of_state_row: Ints


def assign_records(old: SessionBounds, records: SessionRecords, gap_ms: int) -> AssignedSessions:
    """Find the session of every record; ``old`` are all sessions of the records' pairs.

    A chain is what is within the gap of each other, directly or through others. No record of one
    chain matters to another. A chain is one session if order of arrival doesn't matter to it. Let
    no record of it be behind the grace: ``c <= t - gap``. Then a session within the gap of a
    record is open for it, since ``b >= t - gap >= c``, and the record isn't late, since
    ``t >= c``. So it joins whatever is within the gap, and any order of such steps ends at the
    connected components of "within the gap". That holds if it holds at the start: if the old
    sessions are more than the gap apart.
    """
    chained, of_state_row, of_record = _chained(old, records, gap_ms)
    # Of two old sessions within the gap of each other one was closed when a record behind the
    # grace began or extended the other. It is frozen, and a chain would join them: a crowded one.
    order, crowds = overlapping(old.pair, old.start_ms - gap_ms, old.end_ms)
    is_ordered = np.zeros(len(chained), dtype=np.bool_)
    is_ordered[of_record[records.is_behind_grace]] = True
    is_ordered[of_state_row[order[(crowds.sizes > 1)[crowds.owners]]]] = True
    if not is_ordered.any():
        return AssignedSessions(chained, of_record, of_state_row)

    state_rows = np.flatnonzero(is_ordered[of_state_row])
    rows = np.flatnonzero(is_ordered[of_record])
    sessions_of = old.sessions_by(of_state_row, state_rows)
    sessions: list[PartitionSession] = []
    for chain, arrivals in records.in_arrival_order_by(of_record, rows):
        sessions += merge_in_arrival_order(sessions_of.pop(chain, []), arrivals, gap_ms).sessions
    # A crowded chain without a record stays as it is.
    sessions += [session for untouched in sessions_of.values() for session in untouched]
    # They are numbered behind the chained ones; late records keep the -1.
    number = np.cumsum(~is_ordered) - 1
    of_record, of_state_row = number[of_record], number[of_state_row]
    of_record[rows] = -1
    ordered = SessionBounds.of_sessions(sessions)
    for session_number, session in enumerate(sessions, start=int((~is_ordered).sum())):
        of_record[session.record_rows] = session_number
        of_state_row[session.state_rows] = session_number
    return AssignedSessions(chained.keep(~is_ordered).followed_by(ordered), of_record, of_state_row)


def _chained(
    old: SessionBounds, records: SessionRecords, gap_ms: int
) -> tuple[SessionBounds, Ints, Ints]:
    """Make each chain of sessions and records a session; a record is [t, t].

    Returns (sessions, the session's number of each state row, and of each record).
    """
    alone = SessionBounds(records.pair, records.time_ms, records.time_ms, records.reach_ms)
    every = old.followed_by(alone)
    # Two intervals are within the gap iff they overlap once both begin the gap earlier.
    order, chains = overlapping(every.pair, every.start_ms - gap_ms, every.end_ms)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = chains.owners
    first = order[chains.low]
    sessions = SessionBounds(
        pair=every.pair[first],
        start_ms=every.start_ms[first],
        end_ms=np.maximum.reduceat(every.end_ms[order], chains.low),
        # A session reaches as far down as the record of it that reaches farthest.
        reach_ms=np.minimum.reduceat(every.reach_ms[order], chains.low),
    )
    of_state_row, of_record = np.split(number, [len(old)])
    return sessions, of_state_row, of_record


#: The aggregate of a session that replaces the joined ones (by end, as Kafka hands them to the
#: merger) and holds one more record; None removes the session. May raise ``Rejected``.
AggregateOf = Callable[[Sequence[PartitionSession], Arrival], Any]


@dataclass
class ArrivalResult:
    """What became of the records of one pair: its sessions after them, by end.

    ``late`` are rows of the batch, ``rejected`` rows and why. ``removed_any``: a session went
    because it has no aggregate any more.
    """

    sessions: list[PartitionSession]
    late: list[int] = field(default_factory=list)
    rejected: list[tuple[int, str]] = field(default_factory=list)
    removed_any: bool = False


def merge_in_arrival_order(
    sessions: Sequence[PartitionSession],
    arrivals: Iterator[Arrival],
    gap_ms: int,
    aggregate_of: AggregateOf | None = None,
) -> ArrivalResult:
    """Take records one by one into the sessions of their pair (semantics.md#4).

    Kafka Streams judges a record after the merge: it is dropped iff the merged end is before c
    (semantics.md#0-6). Here closed sessions aren't joined, so the merged end is that of an open
    session or ``t`` itself: a record is late iff it joins nothing and ``t < c``.

    Without ``aggregate_of`` sessions have no aggregate, and stay.
    """
    by_end = _SessionsByEnd(sessions)
    result = ArrivalResult(by_end.sessions)
    for record in arrivals:
        joined = by_end.within_reach(record, gap_ms)
        if not joined and not record.is_open_alone:
            result.late.append(record.row)
            continue
        aggregate = None
        if aggregate_of is not None:
            try:
                aggregate = aggregate_of(joined, record)
            except Rejected as error:
                # A dead letter: it joins nothing, and the sessions stay as they were.
                result.rejected.append((record.row, str(error)))
                continue
        by_end.remove(joined)
        if aggregate_of is None or aggregate is not None:
            by_end.add(_hull(joined, record, aggregate))
        elif joined:
            result.removed_any = True
    return result


class _SessionsByEnd:
    """The sessions of one pair in the order of their ends, searched in logarithmic time.

    No two sessions of a pair have the same end: a record at the end of a frozen one is behind c,
    so it is late or joins a session that ends later. So the order by end is Kafka's by
    (end, start).
    """

    def __init__(self, sessions: Sequence[PartitionSession]) -> None:
        self.sessions = sorted(sessions, key=_end_ms)
        # Starts ascend behind the session with this end. A session may lie in another only if it
        # was closed for a record of that one: records of a log find no such session open, as
        # their c never goes down. Results of a join may.
        self._nested_end_ms: float = -math.inf
        for index in range(1, len(self.sessions)):
            self._note_nested(index)

    def within_reach(self, record: Arrival, gap_ms: int) -> list[PartitionSession]:
        """The sessions that the record joins, by end."""
        low = bisect_left(self.sessions, record.reach_ms, key=_end_ms)
        latest_start_ms = record.time_ms + gap_ms
        if record.reach_ms > self._nested_end_ms:
            high = bisect_right(self.sessions, latest_start_ms, low, key=_start_ms)
            return self.sessions[low:high]
        return [one for one in self.sessions[low:] if one.start_ms <= latest_start_ms]

    def remove(self, sessions: Sequence[PartitionSession]) -> None:
        """Take sessions out."""
        for session in sessions:
            del self.sessions[bisect_left(self.sessions, session.end_ms, key=_end_ms)]

    def add(self, session: PartitionSession) -> None:
        """Put a session in."""
        index = bisect_left(self.sessions, session.end_ms, key=_end_ms)
        self.sessions.insert(index, session)
        self._note_nested(index)
        self._note_nested(index + 1)

    def _note_nested(self, index: int) -> None:
        """Look at whether the session at ``index`` begins before the one in front of it."""
        if 0 < index < len(self.sessions):
            before, session = self.sessions[index - 1], self.sessions[index]
            if before.start_ms > session.start_ms:
                self._nested_end_ms = max(self._nested_end_ms, before.end_ms)


def _start_ms(session: PartitionSession) -> int:
    return session.start_ms


def _end_ms(session: PartitionSession) -> int:
    return session.end_ms


def _hull(joined: Sequence[PartitionSession], record: Arrival, aggregate: Any) -> PartitionSession:
    """One session of all that are joined and the record."""
    if not joined:
        time_ms = record.time_ms
        return PartitionSession(
            record.pair, time_ms, time_ms, record.reach_ms, [], [record.row], aggregate
        )
    # The longest lists grow in place: a session of n rows costs no n copies of them.
    hull = max(joined, key=lambda session: len(session.record_rows) + len(session.state_rows))
    for session in joined:
        if session is not hull:
            hull.state_rows += session.state_rows
            hull.record_rows += session.record_rows
    hull.start_ms = min(record.time_ms, *(session.start_ms for session in joined))
    hull.end_ms = max(record.time_ms, *(session.end_ms for session in joined))
    hull.reach_ms = min(record.reach_ms, *(session.reach_ms for session in joined))
    hull.record_rows.append(record.row)
    hull.aggregate = aggregate
    return hull


def overlapping(code: Ints, low_ms: Ints, high_ms: Ints) -> tuple[Ints, Ranges]:
    """Group closed intervals of one code that overlap, directly or through others.

    Returns (order, groups): ``order[groups]`` are the intervals of each group, the least low
    first; groups stand by code, then time.
    """
    order = pair_order(code, low_ms)
    head = heads(code[order])
    if len(order):
        # By ascending low, an interval overlaps one before it iff it begins no later than the
        # greatest high before it.
        highest_ms = running_max(high_ms[order], head)
        head[1:] |= low_ms[order][1:] > highest_ms[:-1]
    return order, Ranges.of_runs(head)
