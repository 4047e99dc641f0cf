"""How records join partition sessions (semantics.md#4, docs/decisions/0009, rule 1).

A *partition session* is the session of the records of one key in one source partition. The close
time ``c`` of a record is stream time - grace - inactivity gap. A record at ``t`` joins the sessions
``[a, b]`` of its pair (key, partition) for which all three conditions are true:

    b >= t - gap    the record is at most the gap after the session
    a <= t + gap    the record is at most the gap before the session
    b >= c          the session is open for the record (semantics.md#0-2), and not frozen

Without such a session, the record is late if ``t < c``. Otherwise, these sessions and the record
become one session, from the least start to the greatest end. ``assign_records`` finds the session
of each record. If the order of arrival has no influence, it computes chains of intervals for all
pairs together. Otherwise, it merges the records in the order of arrival.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Ranges,
    lexsort,
    pair_order,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.definitions import SessionWindows
from oriel.pipeline.windows.functions import Rejected
from oriel.pipeline.windows.records import arrival_keys


@dataclass
class PartitionSession:
    """One partition session.

    Attributes:
        pair: The (key, partition) pair.
        start_ms: The start.
        end_ms: The end.
        reach_ms: The reach (``linking``).
        state_rows: The state rows that became part of the session.
        record_rows: The records of the batch in the session.
        aggregate: The aggregate of functions of a user. None for named aggregates.
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
    """Partition sessions as arrays: pair, bounds and reach in milliseconds, one entry each."""

    pair: Ints
    start_ms: Ints
    end_ms: Ints
    reach_ms: Ints

    @classmethod
    def of_state(cls, state: pa.Table, pair: Ints) -> "SessionBounds":
        """Return the sessions of state rows, with the pair of each row."""
        names = ("window_start_ms", "window_end_ms", "reach_ms")
        return cls(pair, *(np.asarray(state[name]) for name in names))

    @classmethod
    def of_sessions(cls, sessions: Sequence[PartitionSession]) -> "SessionBounds":
        """Return the bounds of sessions that were merged in the order of arrival."""
        rows = [(s.pair, s.start_ms, s.end_ms, s.reach_ms) for s in sessions]
        # Without sessions, the array has no second dimension, so it is reshaped before its columns
        # are unpacked.
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)

    def __len__(self) -> int:
        return len(self.pair)

    def keep(self, chosen: Flags) -> "SessionBounds":
        """Return the sessions for which ``chosen`` is set."""
        return SessionBounds(
            self.pair[chosen], self.start_ms[chosen], self.end_ms[chosen], self.reach_ms[chosen]
        )

    def followed_by(self, others: "SessionBounds") -> "SessionBounds":
        """Return these sessions, followed by others."""
        return SessionBounds(
            np.concatenate([self.pair, others.pair]),
            np.concatenate([self.start_ms, others.start_ms]),
            np.concatenate([self.end_ms, others.end_ms]),
            np.concatenate([self.reach_ms, others.reach_ms]),
        )

    def sessions_by(
        self, group: Ints, rows: Ints, aggregates: Mapping[int, Any] | Sequence[Any] | None = None
    ) -> dict[int, list[PartitionSession]]:
        """Return the sessions of the chosen state rows by their group.

        ``group`` has an integer per state row, and ``aggregates`` the aggregate of each chosen row.
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
    """One record in the order of arrival, with its row in the batch (see ``SessionRecords``)."""

    row: int
    pair: int
    time_ms: int
    reach_ms: int
    is_open_alone: bool


@dataclass(frozen=True)
class SessionRecords:
    """The records of a batch as arrays, in the order of the batch.

    Attributes:
        pair: The (key, partition) pair.
        time_ms: The time of the record.
        reach_ms: The least end of a session that the record can join.
        is_older_than_grace: True if a session within the gap of the record can be closed for it.
        is_open_alone: True if a session of this record only is open for it. Such a record is never
            late.
        arrival_keys: The sort keys of arrival.
    """

    pair: Ints
    time_ms: Ints
    reach_ms: Ints
    is_older_than_grace: Flags
    is_open_alone: Flags
    arrival_keys: tuple[Ints, ...]

    @classmethod
    def of(cls, batch: pa.Table, pair: Ints, windows: SessionWindows) -> "SessionRecords":
        """Return the records of ``batch``. ``pair`` has the pair of each record."""
        time_ms, close_ms = (np.asarray(batch[name]) for name in ("timestamp_ms", "close_ms"))
        earliest_end_ms = time_ms - windows.inactivity_gap_ms
        return cls(
            pair=pair,
            time_ms=time_ms,
            # This combines b >= t - gap and b >= c.
            reach_ms=np.maximum(close_ms, earliest_end_ms),
            # The session that ends at t - gap is the first session within the gap that closes.
            is_older_than_grace=~windows.rule.is_open(earliest_end_ms, close_ms),
            is_open_alone=windows.rule.is_open(time_ms, close_ms),
            arrival_keys=arrival_keys(batch),
        )

    def in_arrival_order_by(
        self, group: Ints, rows: Ints
    ) -> Iterator[tuple[int, Iterator[Arrival]]]:
        """Yield each group of the chosen rows with its records in the order of arrival.

        ``group`` has an integer per record. The records of a group have one pair.
        """
        # The last key is the most significant one, so each group is a run of rows in the order of
        # arrival.
        rows = rows[np.lexsort((*(key[rows] for key in self.arrival_keys), group[rows]))]
        columns = (self.pair, self.time_ms, self.reach_ms, self.is_open_alone)
        for low, high in Ranges.of_runs(run_starts(group[rows])).pairs():
            chosen = rows[low:high]
            numbers = (column[chosen].tolist() for column in columns)
            yield (
                int(group[chosen[0]]),
                (Arrival(*values) for values in zip(chosen.tolist(), *numbers, strict=True)),
            )


@dataclass(frozen=True)
class AssignedSessions:
    """The sessions after a batch, and the sessions of records and of state rows.

    Attributes:
        sessions: The sessions.
        of_record: The index of the session of each record, -1 for a late record.
        of_state_row: The index of the session of each state row.
    """

    sessions: SessionBounds
    of_record: Ints
    of_state_row: Ints


def assign_records(old: SessionBounds, records: SessionRecords, gap_ms: int) -> AssignedSessions:
    """Return the session of every record. ``old`` has all sessions of the pairs of the records.

    A chain consists of records and sessions that are within the gap of each other, directly or
    through others. Chains are independent of each other. A chain is one session if the order of
    arrival has no influence on it. This is true if no record of it is older than the grace: ``c <=
    t - gap``. A session within the gap of a record is then open for it, because ``b >= t - gap >=
    c``. The record is not late, because ``t >= c``. It therefore joins everything within the gap,
    and any order of such steps ends with the connected components of "within the gap". The old
    sessions must also be more than the gap apart.
    """
    chains = chained_sessions(old, records, gap_ms)
    chained, of_state_row, of_record = chains.sessions, chains.of_state_row, chains.of_record
    # If two old sessions are within the gap of each other, one was closed when a record older than
    # the grace created or extended the other one. It is frozen, but a chain would join both. Such a
    # chain is *crowded*.
    order, old_groups = overlapping(old.pair, old.start_ms - gap_ms, old.end_ms)
    needs_arrival_order = np.zeros(len(chained), dtype=np.bool_)
    needs_arrival_order[of_record[records.is_older_than_grace]] = True
    needs_arrival_order[of_state_row[order[(old_groups.sizes > 1)[old_groups.owners]]]] = True
    if not needs_arrival_order.any():
        return AssignedSessions(chained, of_record, of_state_row)

    state_rows = np.flatnonzero(needs_arrival_order[of_state_row])
    rows = np.flatnonzero(needs_arrival_order[of_record])
    sessions_of = old.sessions_by(of_state_row, state_rows)
    sessions: list[PartitionSession] = []
    for chain, arrivals in records.in_arrival_order_by(of_record, rows):
        sessions += merge_in_arrival_order(sessions_of.pop(chain, []), arrivals, gap_ms).sessions
    # A crowded chain without a record does not change.
    sessions += [session for unchanged in sessions_of.values() for session in unchanged]
    # Their indices are after the indices of the chained sessions. Late records keep -1.
    # A kept chain has its index among the kept chains. Each state row of another chain is in one of
    # ``sessions``, so the loop replaces its index.
    number = np.cumsum(~needs_arrival_order) - 1
    of_record, of_state_row = number[of_record], number[of_state_row]
    of_record[rows] = -1
    ordered = SessionBounds.of_sessions(sessions)
    for session_number, session in enumerate(sessions, start=int((~needs_arrival_order).sum())):
        of_record[session.record_rows] = session_number
        of_state_row[session.state_rows] = session_number
    return AssignedSessions(
        chained.keep(~needs_arrival_order).followed_by(ordered), of_record, of_state_row
    )


@dataclass(frozen=True)
class ChainedSessions:
    """Each chain of sessions and records as a session, and the chain of each record."""

    sessions: SessionBounds
    of_state_row: Ints
    of_record: Ints


def chained_sessions(old: SessionBounds, records: SessionRecords, gap_ms: int) -> ChainedSessions:
    """Return each chain of sessions and records as a session. A record is the interval [t, t]."""
    single_records = SessionBounds(records.pair, records.time_ms, records.time_ms, records.reach_ms)
    old_and_records = old.followed_by(single_records)
    # Two intervals are within the gap if and only if they overlap with both starts moved by the
    # gap.
    order, chains = overlapping(
        old_and_records.pair, old_and_records.start_ms - gap_ms, old_and_records.end_ms
    )
    number = np.empty(len(order), dtype=np.int64)
    number[order] = chains.owners
    first = order[chains.low]
    # The order is by start, so the first row of a chain has the least start. The greatest end and
    # the least reach can be of any row.
    sessions = SessionBounds(
        pair=old_and_records.pair[first],
        start_ms=old_and_records.start_ms[first],
        end_ms=np.maximum.reduceat(old_and_records.end_ms[order], chains.low),
        # The reach of a session is the least reach of its records.
        reach_ms=np.minimum.reduceat(old_and_records.reach_ms[order], chains.low),
    )
    of_state_row, of_record = np.split(number, [len(old)])
    return ChainedSessions(sessions, of_state_row, of_record)


def single_sessions(
    old: SessionBounds, records: SessionRecords, chained: ChainedSessions, gap_ms: int
) -> Flags:
    """Return the chains with a record that are one session after each record of the batch.

    Such a chain has at most one old session. In the order of arrival, each of its records joins the
    session of all earlier ones. No record of the chain is older than the grace, so this session is
    open.
    """
    chain = np.concatenate([chained.of_state_row, chained.of_record])
    is_single = np.zeros(len(chained.sessions), dtype=np.bool_)
    if not len(records.time_ms):
        return is_single
    low_ms = np.concatenate([old.start_ms, records.time_ms])
    high_ms = np.concatenate([old.end_ms, records.time_ms])
    is_record = np.arange(len(chain)) >= len(old)
    # Inside a chain, the old session is first, because earlier batches applied its records. The
    # records follow in the order of arrival.
    none = np.zeros(len(old), dtype=np.int64)
    arrival = (np.concatenate([none, key]) for key in records.arrival_keys)
    order = lexsort((*arrival, is_record.astype(np.int64), chain))
    chain, low_ms, high_ms = chain[order], low_ms[order], high_ms[order]
    is_record = is_record[order]
    head = run_starts(chain)
    # The session of the earlier ones goes from their least start to their greatest end.
    end_ms, start_ms = running_max(high_ms, head), -running_max(-low_ms, head)
    # A chain can be several sessions for a while. With gap 10, the records 0, 20, 10 are one chain,
    # but the second record does not join the first one. The functions then have to merge two
    # aggregates, which one run of the loop cannot do.
    is_apart = np.zeros(len(chain), dtype=np.bool_)
    is_apart[1:] = (low_ms[1:] > end_ms[:-1] + gap_ms) | (high_ms[1:] < start_ms[:-1] - gap_ms)
    is_single[chained.of_record] = True
    # The first row of a chain was compared with the previous chain, so ``~head`` ignores it. An old
    # session after the first row is a second old session, which can be frozen.
    is_single[chain[~head & (is_apart | ~is_record)]] = False
    is_single[chained.of_record[records.is_older_than_grace]] = False
    return is_single


#: Returns the aggregate of a session that replaces the joined sessions (by end, as Kafka Streams
#: passes them to the merger) and contains one more record. None removes the session. Can raise
#: ``Rejected``.
AggregateOf = Callable[[Sequence[PartitionSession], Arrival], Any]


@dataclass
class ArrivalResult:
    """The result of the records of one pair.

    Attributes:
        sessions: The sessions of the pair, by end.
        late: The late rows of the batch.
        rejected: The rejected rows with the reason.
        removed_any: True if a session was removed because a function returned None.
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
    """Add the records of one pair to its sessions, in the order of arrival.

    Kafka Streams tests a record after the merge: it drops the record if and only if the merged end
    is before c (semantics.md#0-6). Closed sessions are not joined here. The merged end is therefore
    the end of an open session or ``t`` itself, and a record is late if and only if it joins nothing
    and ``t < c``.

    Without ``aggregate_of``, sessions have no aggregate and are not removed.
    """
    # The result has the same list as ``by_end``, so it has the sessions after the last record.
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
                # The record is a dead letter. It joins nothing, and the sessions do not change.
                result.rejected.append((record.row, str(error)))
                continue
        # The ends of the joined sessions are searched here, so this precedes ``_merged_session``,
        # which changes the bounds of one session in place.
        by_end.remove(joined)
        if aggregate_of is None or aggregate is not None:
            by_end.add(_merged_session(joined, record, aggregate))
        # If the record joined nothing, no row existed, so nothing was removed.
        elif joined:
            result.removed_any = True
    return result


class _SessionsByEnd:
    """The sessions of one pair by end.

    Two sessions of a pair never have the same end. A record at the end of a frozen session is
    before c, so it is late or joins a session with a later end. The order by end is therefore the
    order of Kafka Streams by end and start.
    """

    def __init__(self, sessions: Sequence[PartitionSession]) -> None:
        self.sessions = sorted(sessions, key=_end_ms)
        # After the session with this end, starts ascend. A session can be inside another session
        # only if it was closed for a record of the other session. The c of the records of a log
        # never decreases, so no later record finds such a session open. Results of a join can.
        self._nested_end_ms: float = -math.inf
        for index in range(1, len(self.sessions)):
            self._update_nested_end(index)

    def within_reach(self, record: Arrival, gap_ms: int) -> list[PartitionSession]:
        """Return the sessions that the record joins, by end."""
        # The reach of a record is max(c, t - gap). One search therefore finds the sessions with b
        # >= c and b >= t - gap.
        low = bisect_left(self.sessions, record.reach_ms, key=_end_ms)
        latest_start_ms = record.time_ms + gap_ms
        # With ascending starts, the sessions with a <= t + gap are a range, and the search costs
        # O(log n). Otherwise, each session from ``low`` on is tested.
        if record.reach_ms > self._nested_end_ms:
            high = bisect_right(self.sessions, latest_start_ms, low, key=attrgetter("start_ms"))
            return self.sessions[low:high]
        return [one for one in self.sessions[low:] if one.start_ms <= latest_start_ms]

    def remove(self, sessions: Sequence[PartitionSession]) -> None:
        """Remove sessions."""
        for session in sessions:
            del self.sessions[bisect_left(self.sessions, session.end_ms, key=_end_ms)]

    def add(self, session: PartitionSession) -> None:
        """Insert a session."""
        index = bisect_left(self.sessions, session.end_ms, key=_end_ms)
        self.sessions.insert(index, session)
        # Starts ascend if each session starts after its predecessor. A new session has two
        # neighbors, so two pairs are tested.
        self._update_nested_end(index)
        self._update_nested_end(index + 1)

    def _update_nested_end(self, index: int) -> None:
        """Record whether the session at ``index`` starts before the previous session."""
        if 0 < index < len(self.sessions):
            before, session = self.sessions[index - 1], self.sessions[index]
            if before.start_ms > session.start_ms:
                self._nested_end_ms = max(self._nested_end_ms, before.end_ms)


def _end_ms(session: PartitionSession) -> int:
    return session.end_ms


def _merged_session(
    joined: Sequence[PartitionSession], record: Arrival, aggregate: Any
) -> PartitionSession:
    """Return one session of all joined sessions and the record."""
    if not joined:
        time_ms = record.time_ms
        return PartitionSession(
            record.pair, time_ms, time_ms, record.reach_ms, [], [record.row], aggregate
        )
    # The longest lists grow in place, so that a session of n rows does not copy them n times.
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

    Returns:
        (order, groups): ``order[groups]`` are the intervals of each group, with the least low
        first. The groups are sorted by code, then by time.
    """
    order = pair_order(code, low_ms)
    head = run_starts(code[order])
    if len(order):
        # By ascending low, an interval overlaps an earlier one if and only if it starts at or
        # before the greatest earlier high.
        highest_ms = running_max(high_ms[order], head)
        # Bounds are inclusive (KIP-94), so intervals with one common ms overlap. With starts moved
        # by a gap of 10, records at 0 and 10 overlap, and records at 0 and 11 do not.
        head[1:] |= low_ms[order][1:] > highest_ms[:-1]
    return order, Ranges.of_runs(head)
