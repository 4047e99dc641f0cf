"""Slow reference models of grouped tables, computed record by record from the definitions.

Pure Python, without code of the engines. A record is ``(key, timestamp_ms, row)``. The row is
``(group, number)``, or ``None`` for a tombstone. A row with the group ``None`` is not in a group. A
log is a list of records per partition, in offset order. A key has one row per partition that
contains it.

    declarative  after the logs, a group's members are the rows that belong to it; the group has a
                 row as soon as it has ever had a member, with the greatest time at which a member
                 was added or removed
    functions    for each partition, the steps of Kafka Streams' KTableAggregate for each update:
                 the subtractor if the old row was in the group, then the adder; without an
                 aggregate the subtractor is not called and the adder begins with the initializer;
                 the time is the greater of the aggregate's and the record's
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Row = tuple[str | None, float | None]
Record = tuple[str, int, Row | None]
Logs = Mapping[int, Sequence[Record]]


@dataclass(frozen=True)
class Update:
    """A record's time, its row, and the row that it replaces."""

    time: int
    old: Row | None
    new: Row | None


@dataclass
class Members:
    """The numbers of a group's rows, and the time of the group."""

    numbers: list[float | None] = field(default_factory=list)
    time: int = -1


def updates(log: Sequence[Record]) -> Iterator[Update]:
    """Yield the update that each record of one partition causes."""
    rows: dict[str, Row] = {}
    for key, time, new in log:
        yield Update(time, rows.pop(key, None), new)
        if new is not None:
            rows[key] = new


def members(logs: Logs) -> dict[str, Members]:
    """Return each group that has ever had a member."""
    groups: dict[str, Members] = {}
    for log in logs.values():
        newest: dict[str, Row | None] = {}
        for update in updates(log):
            for row in (update.old, update.new):
                if row is not None and row[0] is not None:
                    group = groups.setdefault(row[0], Members())
                    group.time = max(group.time, update.time)
        newest.update((key, row) for key, _, row in log)
        for row in newest.values():
            if row is not None and row[0] is not None:
                groups[row[0]].numbers.append(row[1])
    return groups


@dataclass(frozen=True)
class Functions:
    """The user-defined functions.

    A number represents the row. A None result removes the group's row.
    """

    initializer: Callable[[], str]
    adder: Callable[[float | None, str], str | None]
    subtractor: Callable[[float | None, str], str | None]
    merger: Callable[[str, str], str]


#: Group -> aggregate and time.
Aggregates = dict[str, tuple[str, int]]


def folded(logs: Logs, functions: Functions) -> Aggregates:
    """Return the aggregates of all partitions, merged in the order of the partitions."""
    merged: Aggregates = {}
    for partition in sorted(logs):
        for group, (aggregate, time) in _of_partition(logs[partition], functions).items():
            if group not in merged:
                merged[group] = aggregate, time
                continue
            other, other_time = merged[group]
            merged[group] = functions.merger(other, aggregate), max(other_time, time)
    return merged


def _of_partition(log: Sequence[Record], functions: Functions) -> Aggregates:
    store: Aggregates = {}
    for update in updates(log):
        old = None if update.old is None or update.old[0] is None else update.old
        new = None if update.new is None or update.new[0] is None else update.new
        if old is not None and new is not None and old[0] == new[0]:
            _aggregate(store, new[0], update.time, old, new, functions)
            continue
        if old is not None:
            _aggregate(store, old[0], update.time, old, None, functions)
        if new is not None:
            _aggregate(store, new[0], update.time, None, new, functions)
    return store


def _aggregate(
    store: Aggregates,
    group: str | None,
    time: int,
    old: Row | None,
    new: Row | None,
    functions: Functions,
) -> None:
    """Apply ``KTableAggregate.process``, line by line."""
    assert group is not None
    stored = store.pop(group, None)
    aggregate = None if stored is None else stored[0]
    if old is not None and aggregate is not None:
        aggregate = functions.subtractor(old[1], aggregate)
    if new is not None:
        aggregate = functions.initializer() if aggregate is None else aggregate
        aggregate = functions.adder(new[1], aggregate)
    if aggregate is not None:
        store[group] = aggregate, time if stored is None else max(stored[1], time)
