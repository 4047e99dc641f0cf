"""A plain recomputation of one key's windows, written from the definition (KIP-450).

It shares no code with the engine: no state, no batches, one window after the other. The
check of ``oriel demo --exit`` compares the service's answers with it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Rules:
    """The windows of the demo's topology, in ms."""

    difference_ms: int
    grace_ms: int


@dataclass(frozen=True)
class Arrivals:
    """A key's departed flights in order of arrival, all of one partition.

    ``close_ms`` is each record's own close time: the greatest time of its partition so
    far, itself included, less the grace.
    """

    timestamp_ms: np.ndarray
    delay: np.ndarray
    close_ms: np.ndarray


def departed(records: pa.Table, key: str, rules: Rules) -> Arrivals:
    """Select ``key``'s departed flights; a cancelled one is filtered and moves no clock."""
    mine = records.filter(pc.and_(pc.equal(records["key"], key), pc.is_valid(records["dep_delay"])))
    timestamp_ms = np.asarray(mine["timestamp_ms"])
    stream_time_ms = np.maximum.accumulate(timestamp_ms)
    delay = np.asarray(mine["dep_delay"])
    return Arrivals(timestamp_ms, delay, stream_time_ms - rules.grace_ms)


def is_late(arrivals: Arrivals, rules: Rules) -> np.ndarray:
    """Whether each record came after its last window had closed."""
    late: np.ndarray = arrivals.timestamp_ms + rules.difference_ms < arrivals.close_ms
    return late


def windows_between(
    arrivals: Arrivals, rules: Rules, from_ms: int, to_ms: int
) -> list[dict[str, Any]]:
    """Return every window that starts in ``[from_ms, to_ms]``, in order of start.

    A window ``[s, s + difference]`` is there if an accepted record defines it (it ends at
    the record and was open then, or begins 1 ms after the record) and it has a member: an
    accepted record inside it that came while it was open.
    """
    accepted = ~is_late(arrivals, rules)
    time, close = arrivals.timestamp_ms[accepted], arrivals.close_ms[accepted]
    by_time = np.argsort(time, kind="stable")
    time, close, delay = time[by_time], close[by_time], arrivals.delay[accepted][by_time]
    # A record defines its left window only if that is still open for it: s + D >= its close time.
    left = np.maximum(time - rules.difference_ms, 0)
    left = left[left + rules.difference_ms >= close]
    starts = np.unique(np.concatenate([left, time + 1]))
    starts = starts[(starts >= from_ms) & (starts <= to_ms)]
    windows = []
    for start in starts.tolist():
        end = start + rules.difference_ms
        low, high = np.searchsorted(time, [start, end + 1]).tolist()
        came_in_time = close[low:high] <= end
        delays = delay[low:high][came_in_time].tolist()
        if delays:
            last_ms = int(time[low:high][came_in_time].max())
            windows.append(_window(start, end, delays, last_ms))
    return windows


def _window(start_ms: int, end_ms: int, delays: list[float], timestamp_ms: int) -> dict[str, Any]:
    return {
        "window_start_ms": start_ms,
        "window_end_ms": end_ms,
        "departures": len(delays),
        "mean_delay": math.fsum(delays) / len(delays),
        "worst_delay": max(delays),
        "timestamp_ms": timestamp_ms,
    }
