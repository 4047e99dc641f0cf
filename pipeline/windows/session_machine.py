"""Sessions of one key in one partition, record by record, as Kafka Streams does it.

Needed where the order of arrival decides: for records behind the grace (a session may be
closed for one of them), and for the user's own functions. Everything else goes through
the vectorised path of ``pipeline.windows.sessions``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.windows.folds import Rejected
from pipeline.windows.session_links import NO_REGULAR_MS


@dataclass
class OpenSession:
    """One session: its bounds, how it reaches down, where it comes from, its value."""

    start: int
    end: int
    regular: int = NO_REGULAR_MS
    stragglers: list[tuple[int, int]] = field(default_factory=list)
    state_rows: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    value: Any = None

    @property
    def touched(self) -> bool:
        """Whether a record of this batch is in it."""
        return bool(self.records)


@dataclass(frozen=True)
class Arrival:
    """One record: its row in the batch, its time and its close time."""

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
    before the record's close time) is not found by it. ``value_of`` gives None for a
    session that is to be removed; without it every session has the value None and stays.
    """
    result = MachineResult(sessions, [], [])
    for arrival in arrivals:
        found = [s for s in result.sessions if _takes(s, arrival, gap)]
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
        result.sessions = [s for s in result.sessions if s not in found]
        if value_of is None or value is not None:
            result.sessions.append(_joined(found, arrival, gap, value))
        elif found:
            result.removed = True
    return result


def _takes(session: OpenSession, arrival: Arrival, gap: int) -> bool:
    near = session.start - gap <= arrival.time <= session.end + gap
    return near and session.end >= arrival.close


def _joined(found: Sequence[OpenSession], arrival: Arrival, gap: int, value: Any) -> OpenSession:
    """One session out of all that were found and the record."""
    joined = OpenSession(
        start=min([arrival.time, *(s.start for s in found)]),
        end=max([arrival.time, *(s.end for s in found)]),
        regular=min([NO_REGULAR_MS, *(s.regular for s in found)]),
        stragglers=[straggler for s in found for straggler in s.stragglers],
        state_rows=[row for s in found for row in s.state_rows],
        records=[*(row for s in found for row in s.records), arrival.row],
        value=value,
    )
    if arrival.close <= arrival.time - gap:
        joined.regular = min(joined.regular, arrival.time)
    else:
        joined.stragglers.append((arrival.close, arrival.time))
    joined.stragglers = needed_stragglers(joined.stragglers, joined.regular)
    return joined


def needed_stragglers(stragglers: list[tuple[int, int]], regular: int) -> list[tuple[int, int]]:
    """Only those that reach lower than every record with a smaller or equal close time."""
    kept: list[tuple[int, int]] = []
    lowest = regular
    for close, time in sorted(stragglers):
        if time < lowest:
            kept.append((close, time))
            lowest = time
    return kept
