"""Sessions of one key in one partition, record by record, as Kafka Streams does it.

Needed where the order of arrival decides: for records behind the grace (a session may be
closed for one of them), and for the user's own functions. Everything else goes through
the vectorised path of ``oriel.pipeline.windows.engines.sessions.sessions``.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from oriel.pipeline.windows.functions import Rejected


@dataclass
class OpenSession:
    """One session: its bounds and reach in ms, where it comes from, its value.

    ``state_rows`` and ``records`` are rows of the state and of the batch that are in it.
    """

    start: int
    end: int
    reach: int
    state_rows: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    value: Any = None

    @property
    def touched(self) -> bool:
        """Whether a record of this batch is in it."""
        return bool(self.records)


@dataclass(frozen=True)
class Arrival:
    """One record: its row in the batch, its time and its close time in ms."""

    row: int
    time: int
    close: int


#: Computes a session's value from those it replaces (in order of end, start) and a record.
ValueOf = Callable[[Sequence[OpenSession], Arrival], Any]


@dataclass
class MachineResult:
    """What became of the records: sessions at the end, rows that were late or rejected.

    ``removed`` tells whether a session went because it has no value any more.
    """

    sessions: list[OpenSession]
    late: list[int]
    rejected: list[tuple[int, str]]
    removed: bool = False


def advance(
    sessions: list[OpenSession],
    arrivals: Iterator[Arrival],
    gap: int,
    value_of: ValueOf | None = None,
) -> MachineResult:
    """Take records in offset order into the sessions of one (key, partition).

    Semantics section 4, steps 2 to 6; a session that is closed for a record (its end is
    before the record's close time) is not found by it. ``gap`` is in ms. ``value_of`` gives
    None for a session that is to be removed; without it all have the value None and stay.
    """
    result = MachineResult(sorted(sessions, key=_end), [], [])
    for arrival in arrivals:
        # By end, so that the many that ended long ago cost nothing.
        low = bisect_left(result.sessions, max(arrival.close, arrival.time - gap), key=_end)
        near, high = result.sessions[low:], arrival.time + gap
        found = [s for s in near if s.start <= high]
        if not found and arrival.time < arrival.close:
            result.late.append(arrival.row)
            continue
        found.sort(key=lambda s: (s.end, s.start))
        value = None
        if value_of is not None:
            try:
                value = value_of(found, arrival)
            except Rejected as error:
                result.rejected.append((arrival.row, str(error)))
                continue
        result.sessions[low:] = [s for s in near if s.start > high]
        if value_of is None or value is not None:
            insort(result.sessions, _joined(found, arrival, gap, value), key=_end)
        elif found:
            result.removed = True
    return result


def _end(session: OpenSession) -> int:
    return session.end


def _joined(found: Sequence[OpenSession], arrival: Arrival, gap: int, value: Any) -> OpenSession:
    """One session out of all that were found and the record."""
    reach = max(arrival.close, arrival.time - gap)
    if not found:
        return OpenSession(arrival.time, arrival.time, reach, [], [arrival.row], value)
    # The longest list grows in place: a session costs no copy a record.
    joined = max(found, key=lambda s: len(s.records))
    for other in found:
        if other is not joined:
            joined.state_rows += other.state_rows
            joined.records += other.records
    joined.start = min(arrival.time, *(s.start for s in found))
    joined.end = max(arrival.time, *(s.end for s in found))
    joined.reach = min(reach, *(s.reach for s in found))
    joined.records.append(arrival.row)
    joined.value = value
    return joined
