"""The slow model of a user's functions over sliding windows: windows as in slow_model.

Pure Python, sharing nothing with the engines.

    members   those of the window, partition by partition in offset order
    rejected  a record for which the aggregator raises on a fresh aggregate: it moves the clock,
              and is in no window; one that raises inside a window only is left out of that one
    null      a null result starts the partition's part of the window afresh
"""

from collections.abc import Sequence
from typing import Any

from tests import slow_model
from tests.slow_tables import Arrived, Folded, FoldOutcome, Functions, Logs, Place, arrivals

#: Keys of rejected records begin with it, so that they define windows of no other key.
_APART = "rejected\0"


def folded_sliding(logs: Logs, difference: int, grace: int, functions: Functions) -> FoldOutcome:
    """Fold the members of each sliding window."""
    arrived = arrivals(logs, grace)
    accepted = [record for record in arrived if record.time + difference >= record.close]
    rejected = {r for r in accepted if _raises(r, functions)}
    apart: dict[int, list[slow_model.Record]] = {p: [] for p in logs}
    # The model's values are numbers: here each record's place among all that arrived.
    for place, record in enumerate(arrived):
        key = _APART + record.key if record in rejected else record.key
        apart[record.partition].append((key, record.time, float(place)))
    found: dict[Place, Folded] = {}
    for (key, _), window in slow_model.expected(apart, difference, grace).windows.items():
        members = [arrived[int(value)] for value in window.values]
        result = _folded(key, members, functions)
        if result is not None and not key.startswith(_APART):
            found[key, window.start, window.end] = Folded(*result, final=window.final)
    late = len(arrived) - len(accepted)
    places = {(record.partition, record.offset) for record in rejected}
    return FoldOutcome(found, len(accepted) - len(rejected), late, places)


def _raises(record: Arrived, functions: Functions) -> bool:
    try:
        # A reduce has no fresh aggregate: it is tried on the record's own value.
        fresh = functions.initial()
        functions.added(record, functions.added(record, None) if fresh is None else fresh)
    except ArithmeticError:
        return True
    return False


def _folded(key: str, members: Sequence[Arrived], functions: Functions) -> tuple[Any, int] | None:
    """The value and the timestamp of one window."""
    parts: dict[int, tuple[Any, int]] = {}
    for record in sorted(members, key=lambda r: (r.partition, r.offset)):
        value, newest = parts.get(record.partition, (functions.initial(), record.time))
        try:
            value = functions.added(record, value)
        except ArithmeticError:
            continue
        parts.pop(record.partition, None)
        if value is not None:
            parts[record.partition] = value, max(newest, record.time)
    if not parts:
        return None
    (merged, timestamp), *others = (parts[p] for p in sorted(parts))
    for value, newest in others:
        merged, timestamp = functions.merged(key, merged, value), max(timestamp, newest)
    return merged, timestamp
