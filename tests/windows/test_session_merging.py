"""Sessions are merged in order of arrival, with a lookup instead of a scan of all sessions."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from oriel.pipeline.windows.engines.sessions import merging
from oriel.pipeline.windows.engines.sessions.merging import (
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    assign_records,
    merge_in_arrival_order,
)

_GAP_MS = 10


def _arrivals(random: Random, length: int, *, of_a_log: bool) -> Iterator[Arrival]:
    """Yield records. Their close time never decreases in a log, but it does after a join."""
    close_ms = 0
    for row in range(length):
        time_ms = 5 * row + random.randrange(30)
        close_ms = max(close_ms, time_ms - 4) if of_a_log else time_ms + random.randrange(-10, 10)
        reach_ms = max(close_ms, time_ms - _GAP_MS)
        yield Arrival(row, 0, time_ms, reach_ms, time_ms >= close_ms)


def _by_definition(
    arrivals: Iterator[Arrival],
) -> tuple[list[tuple[int, int, list[int]]], list[int]]:
    """Return the sessions (start, end, rows) and the late rows, with a scan for each record."""
    sessions: list[tuple[int, int, list[int]]] = []
    late = []
    for record in arrivals:
        joined = [
            one
            for one in sessions
            if one[1] >= record.reach_ms and one[0] <= record.time_ms + _GAP_MS
        ]
        if not joined and not record.is_open_alone:
            late.append(record.row)
            continue
        sessions = [one for one in sessions if one not in joined]
        times_ms = [record.time_ms, *(bound for one in joined for bound in one[:2])]
        rows = [record.row, *(row for one in joined for row in one[2])]
        sessions.append((min(times_ms), max(times_ms), sorted(rows)))
    return sorted(sessions), late


@pytest.mark.parametrize("of_a_log", [True, False])
def test_a_record_merges_open_sessions_within_the_gap(*, of_a_log: bool) -> None:
    """Sessions equal the definition, also if one session is inside another open session."""
    nested = 0
    for seed in range(600):
        length = Random(seed).randrange(60)
        result = merge_in_arrival_order(
            [], _arrivals(Random(seed), length, of_a_log=of_a_log), _GAP_MS
        )
        wanted, late = _by_definition(_arrivals(Random(seed), length, of_a_log=of_a_log))
        found = sorted((s.start_ms, s.end_ms, sorted(s.record_rows)) for s in result.sessions)
        assert (found, result.late) == (wanted, late), seed
        ends = [session.end_ms for session in result.sessions]
        starts = [session.start_ms for session in result.sessions]
        assert ends == sorted(ends)
        nested += starts != sorted(starts)
    assert nested > 10


def test_a_session_inside_another_is_not_merged() -> None:
    """A later result of a join can have an earlier close time, so that [20, 20] is open again."""
    times_and_closes = ((20, 0), (26, 21), (17, 22), (9, 0))
    arrivals = (
        Arrival(row, 0, time_ms, max(close_ms, time_ms - _GAP_MS), time_ms >= close_ms)
        for row, (time_ms, close_ms) in enumerate(times_and_closes)
    )
    result = merge_in_arrival_order([], arrivals, _GAP_MS)
    assert [(s.start_ms, s.end_ms) for s in result.sessions] == [(20, 20), (9, 26)]


class _CountedReads(PartitionSession):
    """A session that counts how often its bounds are read."""

    times = 0

    def __getattribute__(self, name: str) -> Any:
        """Count the read, and return the attribute."""
        if name in {"start_ms", "end_ms"}:
            _CountedReads.times += 1
        return super().__getattribute__(name)


def test_a_record_reads_few_of_many_open_sessions() -> None:
    """The cost of a record grows with the logarithm of the number of open sessions."""
    many, records = 4_000, 500
    sessions: Sequence[PartitionSession] = [
        _CountedReads(0, 100 * number, 100 * number + 5, 100 * number, [number])
        for number in range(many)
    ]
    arrivals = (Arrival(row, 0, 700 * row + 8, 700 * row - 2, True) for row in range(records))
    _CountedReads.times = 0
    result = merge_in_arrival_order(sessions, arrivals, _GAP_MS)
    assert len(result.sessions) == many
    assert sum(len(session.record_rows) for session in result.sessions) == records
    assert _CountedReads.times < 6 * many + 100 * records


def test_a_record_older_than_the_grace_reads_only_sessions_near_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record older than the grace does not read the other open sessions of its key."""
    made = []

    def counted(*arguments: Any) -> PartitionSession:
        made.append(arguments)
        return PartitionSession(*arguments)

    monkeypatch.setattr(merging, "PartitionSession", counted)
    start_ms = 100 * np.arange(5_000)
    none = np.zeros_like(start_ms)
    old = SessionBounds(none, start_ms, start_ms + 5, start_ms)
    time_ms = np.array([203, 1_250, 1_350])
    is_old = np.array([True, False, True])
    records = SessionRecords(
        pair=none[:3],
        time_ms=time_ms,
        reach_ms=time_ms - _GAP_MS,
        is_older_than_grace=is_old,
        is_open_alone=~is_old,
        arrival_keys=(np.arange(3),),
    )
    assigned = assign_records(old, records, _GAP_MS)
    assert len(made) == 1
    assert len(assigned.sessions) == 5_001
    bounds = list(zip(assigned.sessions.start_ms, assigned.sessions.end_ms, strict=True))
    assert [bounds[number] for number in assigned.of_record[:2]] == [(200, 205), (1_250, 1_250)]
    assert assigned.of_record[2] == -1
    rows = [bounds[number] for number in assigned.of_state_row]
    assert rows == list(zip(start_ms, start_ms + 5, strict=True))
