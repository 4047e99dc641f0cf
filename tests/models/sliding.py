"""Slow reference model of sliding windows, computed record by record from the definition.

Pure Python, quadratic, and without code of the engine. A record is ``(key, timestamp_ms, value)``.
A log is a list of records per partition, in offset order.

    accepted      t + D >= c, where c = stream time of its own partition at it - G
    member        s <= t <= s + D and s + D >= c
    left window   s = max(0, t - D) if that window is open for the record
    right window  s = t + 1 if some record is a member
    final         s + D < min over partitions of stream time - G
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Record = tuple[str, int, float | None]
Logs = Mapping[int, Sequence[Record]]


@dataclass(frozen=True)
class Arrived:
    """A record with the close time of its partition at its arrival."""

    key: str
    time: int
    partition: int
    offset: int
    value: float | None
    close: int


@dataclass(frozen=True)
class Window:
    """One window with its members in the order of (timestamp, partition, offset)."""

    start: int
    end: int
    members: tuple[Arrived, ...]
    final: bool

    @property
    def values(self) -> list[float]:
        """Return the members' non-null values."""
        return [member.value for member in self.members if member.value is not None]

    @property
    def timestamp(self) -> int:
        """Return the greatest member time (KIP-259)."""
        return max(member.time for member in self.members)


@dataclass(frozen=True)
class Outcome:
    """The windows by (key, start), and the numbers of applied and late records."""

    windows: dict[tuple[str, int], Window]
    applied: int
    late: int


def expected(logs: Logs, difference: int, grace: int) -> Outcome:
    """Return every window of ``logs``."""
    arrived = [record for p, log in logs.items() for record in _arrivals(p, log, grace)]
    accepted = [r for r in arrived if r.time + difference >= r.close]
    stream_times = [max((time for _, time, _ in log), default=-1) for log in logs.values()]
    close = min(stream_times) - grace if stream_times else 0
    windows = {}
    for key in {record.key for record in accepted}:
        mine = [record for record in accepted if record.key == key]
        for start in sorted(_starts(mine, difference)):
            end = start + difference
            members = [r for r in mine if start <= r.time <= end and end >= r.close]
            if members:
                members.sort(key=lambda r: (r.time, r.partition, r.offset))
                windows[key, start] = Window(start, end, tuple(members), end < close)
    return Outcome(windows, len(accepted), len(arrived) - len(accepted))


def _arrivals(partition: int, log: Sequence[Record], grace: int) -> list[Arrived]:
    stream_time = -1
    arrivals = []
    for offset, (key, time, value) in enumerate(log):
        stream_time = max(stream_time, time)
        arrivals.append(Arrived(key, time, partition, offset, value, stream_time - grace))
    return arrivals


def _starts(records: Sequence[Arrived], difference: int) -> set[int]:
    starts = set()
    for record in records:
        left = max(0, record.time - difference)
        if left + difference >= record.close:
            starts.add(left)
        starts.add(record.time + 1)
    return starts
