"""The slow models of the joins: record by record, straight from their definitions.

The models are pure Python with quadratic cost, and share no code with the engines. A record is
``(key, timestamp_ms, value)``. In a table, the value None deletes the key. A log has a list of
records per partition, in the order of offsets. The models have no batches. After each batch, the
results of an engine must equal the model of the logs so far.

Joins of streams, where ``st`` is the stream time of a record's own partition and G is the grace:

    left late    l.t + max(after, 0) + G < st
    right late   r.t + max(before, 0) + G < st
    match        one key, neither late, r.t in [l.t - before, l.t + after]
    unmatched    no match, and every record of the other side that could still match is late

In a table, the last record of each partition counts for a key. The one with the greatest (time,
partition) is the row of the key. A joined row has the greatest time of both records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

#: Joined tables: the number of one, or (how, left, right).
Tree = Any
Record = tuple[str, int, str | None]
Logs = Mapping[int, Sequence[Record]]
#: Key, timestamp, partition, offset, lineage, stream time, left value, right value.
Result = tuple[str, int, int, int, tuple[int, ...], int, str | None, str | None]
#: Left value, right value, timestamp.
Row = tuple[str | None, str | None, int]


@dataclass(frozen=True)
class Span:
    """The range of times that match, and the grace."""

    before: int
    after: int
    grace: int


@dataclass(frozen=True)
class Arrived:
    """A record with the stream time of its partition when it arrived."""

    key: str
    time: int
    partition: int
    offset: int
    value: str | None
    stream_time: int


@dataclass(frozen=True)
class Joined:
    """The matched and unmatched records of two logs, for all kinds of joins."""

    pairs: list[tuple[Arrived, Arrived]]
    #: Unmatched records that can never match.
    left_alone: list[Arrived]
    right_alone: list[Arrived]
    #: Records that can still match.
    left_open: list[Arrived]
    right_open: list[Arrived]
    left_late: list[Arrived]
    right_late: list[Arrived]

    def results(self, how: str) -> list[Result]:
        """Return the results of a join of this kind."""
        # Only in an outer join, a result can be without a left record.
        first, second = ((0,), (1,)) if how == "outer" else ((), ())
        found = [_pair(left, right, first) for left, right in self.pairs]
        if how in {"left", "outer"}:
            found += [_alone(left, first, left.value, None) for left in self.left_alone]
        if how == "outer":
            found += [_alone(right, second, None, right.value) for right in self.right_alone]
        return sorted(found, key=lambda result: result[1:5])


def joined(left_logs: Logs, right_logs: Logs, span: Span) -> Joined:
    """Join two streams."""
    left_lag, right_lag = max(span.after, 0) + span.grace, max(span.before, 0) + span.grace
    left, left_late = _judged(left_logs, left_lag)
    right, right_late = _judged(right_logs, right_lag)
    pairs = [
        (one, other)
        for one in left
        for other in right
        if one.key == other.key and one.time - span.before <= other.time <= one.time + span.after
    ]
    next_left, next_right = clock(left_logs) - left_lag, clock(right_logs) - right_lag
    left_open = [one for one in left if one.time + span.after >= next_right]
    right_open = [one for one in right if one.time + span.before >= next_left]
    return Joined(
        pairs,
        _without(left, left_open, [one for one, _ in pairs]),
        _without(right, right_open, [other for _, other in pairs]),
        left_open,
        right_open,
        left_late,
        right_late,
    )


def clock(logs: Logs) -> int:
    """Return the minimum stream time of the partitions."""
    return min(max((time for _, time, _ in log), default=-1) for log in logs.values())


def arrivals(logs: Logs) -> list[Arrived]:
    """Return every record with the stream time of its own partition, in the order of offsets."""
    arrived = []
    for partition, log in logs.items():
        stream_time = -1
        for offset, (key, time, value) in enumerate(log):
            stream_time = max(stream_time, time)
            arrived.append(Arrived(key, time, partition, offset, value, stream_time))
    return arrived


def newest(logs: Logs) -> dict[tuple[str, int], Arrived]:
    """Return the last record of each key and partition."""
    return {(record.key, record.partition): record for record in arrivals(logs)}


def counting(logs: Logs) -> dict[str, Arrived]:
    """Return the record that counts for each key. A deletion has a null value."""
    found: dict[str, Arrived] = {}
    for record in sorted(newest(logs).values(), key=lambda one: (one.time, one.partition)):
        found[record.key] = record
    return found


def joined_tables(left_logs: Logs, right_logs: Logs, how: str) -> dict[str, Row]:
    """Join two tables. Return the row of each key that has one."""
    left, right = counting(left_logs), counting(right_logs)
    rows: dict[str, Row] = {}
    for key in {*left, *right}:
        sides = [table.get(key) for table in (left, right)]
        values = [None if record is None else record.value for record in sides]
        wanted = {"inner": None not in values, "left": values[0] is not None, "outer": any(values)}
        if wanted[how]:
            newest_time = max(record.time for record in sides if record is not None)
            rows[key] = (values[0], values[1], newest_time)
    return rows


def random_tree(random: Random, numbers: Sequence[int]) -> Tree:
    """Tables by number, joined somehow: a number, or (how, left, right)."""
    if len(numbers) == 1:
        return numbers[0]
    cut = random.randint(1, len(numbers) - 1)
    how = random.choice(("inner", "left", "outer"))
    return how, random_tree(random, numbers[:cut]), random_tree(random, numbers[cut:])


def joined_by_tree(tables: Sequence[Logs], tree: Tree) -> dict[str, tuple[list[str | None], int]]:
    """Join tables by a tree of (how, left, right) over their numbers: values by table, and time."""
    counted = [counting(logs) for logs in tables]

    def values(part: Tree, key: str) -> dict[int, str] | None:
        if isinstance(part, int):
            record = counted[part].get(key)
            return None if record is None or record.value is None else {part: record.value}
        how, left, right = part[0], values(part[1], key), values(part[2], key)
        if left is None and (how != "outer" or right is None):
            return None
        if right is None and how == "inner":
            return None
        return {**(left or {}), **(right or {})}

    rows: dict[str, tuple[list[str | None], int]] = {}
    for key in {key for table in counted for key in table}:
        row = values(tree, key)
        if row is not None:
            times = [table[key].time for table in counted if key in table]
            rows[key] = [row.get(number) for number in range(len(tables))], max(times)
    return rows


def _judged(logs: Logs, lag: int) -> tuple[list[Arrived], list[Arrived]]:
    """Return the accepted records, and the late ones."""
    arrived = arrivals(logs)
    late = [record for record in arrived if record.time + lag < record.stream_time]
    return _without(arrived, late), late


def _without(records: Iterable[Arrived], *others: list[Arrived]) -> list[Arrived]:
    taken = {record for other in others for record in other}
    return [record for record in records if record not in taken]


def _pair(left: Arrived, right: Arrived, log: tuple[int, ...]) -> Result:
    return (
        left.key,
        max(left.time, right.time),
        left.partition,
        left.offset,
        (*log, right.partition, right.offset + 1),
        max(left.stream_time, right.stream_time),
        left.value,
        right.value,
    )


def _alone(record: Arrived, log: tuple[int, ...], left: str | None, right: str | None) -> Result:
    place = (record.time, record.partition, record.offset, (*log, 0, 0))
    return (record.key, *place, record.stream_time, left, right)
