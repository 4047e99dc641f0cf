"""Slow reference model of a grouping without windows, and the types that all slow models share.

Pure Python, record by record, without code of the engines. A record is ``(key, timestamp_ms,
value)``. The value is a dict of columns or None. A log is a list of records per partition, in
offset order.

    row           one per key, over all of its records, never late, never final
    timestamp     the greatest time of its records
    folded        each partition's records one by one in offset order; the partitions' results
                  are merged in the order of their numbers. A null result deletes the row; a
                  record whose function raises changes nothing.
    removed       a deleted row has the time that it would have as a row: the greater of the
                  row's and the record's; over several partitions the greatest
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = Mapping[str, Any] | None
Record = tuple[str, int, Value]
Logs = Mapping[int, Sequence[Record]]
#: Key, start, end.
Place = tuple[str, int, int]

#: Represents the end of time, as in the engines' rows.
FOREVER = 2**61


@dataclass(frozen=True, eq=False)
class Arrived:
    """A record with ``close``: its partition's stream time at its arrival, minus the delay."""

    key: str
    time: int
    partition: int
    offset: int
    value: Value
    close: int

    @property
    def order(self) -> tuple[int, int, int]:
        """Return its sort key inside a window."""
        return self.time, self.partition, self.offset


@dataclass(frozen=True)
class Window:
    """One window with its members in the order of (timestamp, partition, offset)."""

    members: tuple[Arrived, ...]
    final: bool

    def values(self, column: str) -> list[Any]:
        """Return the members' non-null values of one column."""
        found = [m.value.get(column) for m in self.members if m.value is not None]
        return [value for value in found if value is not None]

    @property
    def timestamp(self) -> int:
        """Return the greatest member time (KIP-259)."""
        return max(member.time for member in self.members)


@dataclass(frozen=True)
class Outcome:
    """The windows of the logs, and the numbers of applied and late records."""

    windows: dict[Place, Window]
    applied: int
    late: int


@dataclass(frozen=True)
class Functions:
    """The user-defined functions of an aggregation. A reduce has no initializer.

    A cogroup has one aggregator per input. Partition p belongs to input p modulo their number.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Callable[[str, Any, Any], Any], ...]
    merger: Callable[[str, Any, Any], Any]

    def initial(self) -> Any:
        """Return the initial aggregate, or None for a reduce."""
        return None if self.initializer is None else self.initializer()

    def added(self, record: "Arrived", old: Any) -> Any:
        """Return the aggregate after one more record.

        A reduce calls no function for the first value.
        """
        if old is None and self.initializer is None:
            return None if record.value is None else next(iter(record.value.values()))
        aggregator = self.aggregators[record.partition % len(self.aggregators)]
        return aggregator(record.key, record.value, old)

    def merged(self, key: str, left: Any, right: Any) -> Any:
        """Return two merged aggregates. A reduce without a left aggregate returns the right one."""
        if left is None and self.initializer is None:
            return right
        return self.merger(key, left, right)


@dataclass(frozen=True)
class FunctionRow:
    """One row of a user-defined aggregate."""

    value: Any
    timestamp: int
    final: bool


@dataclass(frozen=True)
class Removal:
    """A null result: the record, the window, and the time that the row would have."""

    record: Arrived
    start: int
    timestamp: int


@dataclass(frozen=True)
class FunctionOutcome:
    """The result of user-defined functions over the logs. ``rejected`` has (partition, offset).

    ``removals`` are in offset order within a partition. Session models leave them empty, because a
    deleted session has the time of its end.
    """

    rows: dict[Place, FunctionRow]
    applied: int
    late: int
    rejected: set[tuple[int, int]]
    removals: list[Removal] = field(default_factory=list, kw_only=True)


def arrivals(logs: Logs, delay: int) -> list[Arrived]:
    """Return all records with the close times of their own partitions, in offset order."""
    arrived = []
    for partition, log in logs.items():
        stream_time = -1
        for offset, (key, time, value) in enumerate(log):
            stream_time = max(stream_time, time)
            arrived.append(Arrived(key, time, partition, offset, value, stream_time - delay))
    return arrived


def final_close(logs: Logs, delay: int) -> int:
    """Return the close time of the slowest partition. Windows that end before it are final."""
    return min(max((time for _, time, _ in log), default=-1) for log in logs.values()) - delay


def in_order(records: Iterable[Arrived]) -> tuple[Arrived, ...]:
    """Return the members of a window in order."""
    return tuple(sorted(records, key=lambda record: record.order))


def table_rows(logs: Logs) -> Outcome:
    """Return the row of each key."""
    arrived = arrivals(logs, 0)
    rows = {
        (key, 0, FOREVER): Window(in_order(r for r in arrived if r.key == key), final=False)
        for key in {record.key for record in arrived}
    }
    return Outcome(rows, len(arrived), 0)


def aggregated_table(logs: Logs, functions: Functions) -> FunctionOutcome:
    """Return the user-defined aggregate of each key, without windows."""
    starts: dict[int, list[int]] = {}
    arrived = arrivals(logs, 0)
    for record in arrived:
        starts.setdefault(id(record), []).append(0)
    made = aggregate_by_start(arrived, starts, functions)
    merged = {
        (key, 0, FOREVER): FunctionRow(value, timestamp, final=False)
        for (key, _), (value, timestamp) in made.rows.items()
    }
    applied = len(arrived) - len(made.rejected)
    return FunctionOutcome(merged, applied, 0, made.rejected, removals=made.removals)


@dataclass(frozen=True)
class IntoStarts:
    """(key, start) -> (value, timestamp), the rejected records, and the removals."""

    rows: dict[tuple[str, int], tuple[Any, int]] = field(default_factory=dict)
    rejected: set[tuple[int, int]] = field(default_factory=set)
    removals: list[Removal] = field(default_factory=list)


def aggregate_by_start(
    arrived: Sequence[Arrived], starts: Mapping[int, Sequence[int]], functions: Functions
) -> IntoStarts:
    """Aggregate records into windows with known starts per partition, then merge the partitions.

    Args:
        arrived: The records.
        starts: For each ``id(record)``, the ascending starts of the windows that accept it.
        functions: The user-defined functions.
    """
    found = IntoStarts()
    for partition in sorted({record.partition for record in arrived}):
        rows: dict[tuple[str, int], tuple[Any, int]] = {}
        for record in sorted(
            (r for r in arrived if r.partition == partition), key=lambda r: r.offset
        ):
            places = [(record.key, start) for start in starts[id(record)]]
            try:
                results = [_updated(record, rows.get(place), functions) for place in places]
            except ArithmeticError:
                found.rejected.add((record.partition, record.offset))
                continue
            for place, (value, timestamp) in zip(places, results, strict=True):
                rows.pop(place, None)
                if value is None:
                    found.removals.append(Removal(record, place[1], timestamp))
                else:
                    rows[place] = value, timestamp
        for place, (value, timestamp) in rows.items():
            if place in found.rows:
                left, other = found.rows[place]
                merged = functions.merged(place[0], left, value)
                found.rows[place] = merged, max(other, timestamp)
            else:
                found.rows[place] = value, timestamp
    return found


def _updated(record: Arrived, row: tuple[Any, int] | None, functions: Functions) -> tuple[Any, int]:
    """Return one window's value and time after the record. A None value removes the row."""
    old = functions.initial() if row is None else row[0]
    timestamp = record.time if row is None else max(row[1], record.time)
    return functions.added(record, old), timestamp
