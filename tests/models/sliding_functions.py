"""Slow reference model of user-defined functions over sliding windows.

Pure Python, without code of the engines. ``sliding`` defines the windows.

    members   the window's records, partition by partition in offset order
    rejected  a record for which the aggregator raises on a fresh aggregate: it advances the
              stream time, and is in no window; a reduce does not call its function for a first
              value, so nothing raises
    left out  a member for which the aggregator raises inside the window; the members before it
              still count
    null      a null result starts the partial aggregate of the partition afresh; a deleted
              window has the greatest time of the last removals of its partial aggregates
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.models import sliding
from tests.models.tables import (
    Arrived,
    FunctionOutcome,
    FunctionRow,
    Functions,
    Logs,
    Place,
    Removal,
    arrivals,
)

#: Prefix of the keys of rejected records, so that they define windows of no other key.
_APART = "rejected\0"


@dataclass(frozen=True)
class LeftOut:
    """A record and a window that does not contain it, because the aggregator raised."""

    record: Arrived
    start: int
    end: int
    final: bool


@dataclass(frozen=True)
class SlidingOutcome(FunctionOutcome):
    """The result of user-defined functions over sliding windows. ``left_out`` has no duplicates."""

    left_out: list[LeftOut]


def aggregated_sliding(
    logs: Logs, difference: int, grace: int, functions: Functions
) -> SlidingOutcome:
    """Return the user-defined aggregate of each sliding window."""
    arrived = arrivals(logs, grace)
    accepted = [record for record in arrived if record.time + difference >= record.close]
    rejected = {r for r in accepted if _raises(r, functions)}
    apart: dict[int, list[sliding.Record]] = {p: [] for p in logs}
    # The model's values are numbers, so each record's value is its index among all records.
    for place, record in enumerate(arrived):
        key = _APART + record.key if record in rejected else record.key
        apart[record.partition].append((key, record.time, float(place)))
    found: dict[Place, FunctionRow] = {}
    left_out: list[LeftOut] = []
    removals: list[Removal] = []
    for (key, _), window in sliding.expected(apart, difference, grace).windows.items():
        if key.startswith(_APART):
            continue
        members = [arrived[int(value)] for value in window.values]
        result, raised, removed = _folded(key, members, functions)
        removals += [Removal(record, window.start, time) for record, time in removed]
        left_out += [LeftOut(r, window.start, window.end, window.final) for r in raised]
        if result is not None:
            found[key, window.start, window.end] = FunctionRow(*result, final=window.final)
    late = len(arrived) - len(accepted)
    places = {(record.partition, record.offset) for record in rejected}
    applied = len(accepted) - len(rejected)
    return SlidingOutcome(found, applied, late, places, left_out, removals=removals)


def _raises(record: Arrived, functions: Functions) -> bool:
    try:
        functions.added(record, functions.initial())
    except ArithmeticError:
        return True
    return False


def _folded(
    key: str, members: Sequence[Arrived], functions: Functions
) -> tuple[tuple[Any, int] | None, list[Arrived], list[tuple[Arrived, int]]]:
    """Return value and timestamp of one window, the members that raised, and the removals."""
    parts: dict[int, tuple[Any, int]] = {}
    raised: list[Arrived] = []
    removed: list[tuple[Arrived, int]] = []
    for record in sorted(members, key=lambda r: (r.partition, r.offset)):
        value, newest = parts.get(record.partition, (functions.initial(), record.time))
        try:
            value = functions.added(record, value)
        except ArithmeticError:
            raised.append(record)
            continue
        parts.pop(record.partition, None)
        if value is None:
            removed.append((record, max(newest, record.time)))
        else:
            parts[record.partition] = value, max(newest, record.time)
    if not parts:
        return None, raised, removed
    (merged, timestamp), *others = (parts[p] for p in sorted(parts))
    for value, newest in others:
        merged, timestamp = functions.merged(key, merged, value), max(timestamp, newest)
    return (merged, timestamp), raised, removed
