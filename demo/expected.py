"""A plain recomputation of the windows of one key, by the definition of KIP-450.

It shares no code with the engine and uses no state and no batches. ``oriel demo --exit`` compares
the responses of the service with it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Rules:
    """The definition of the demo's windows in ms."""

    difference_ms: int
    grace_ms: int


@dataclass(frozen=True)
class Arrivals:
    """The departed flights of a key in order of arrival, all in one partition.

    ``close_ms`` is the close time at each record: the stream time with this record, minus the
    grace.
    """

    timestamp_ms: np.ndarray
    delay: np.ndarray
    close_ms: np.ndarray


def departed(records: pa.Table, key: str, rules: Rules) -> Arrivals:
    """Select the departed flights of ``key``. Cancelled flights do not advance stream time."""
    mine = records.filter(pc.and_(pc.equal(records["key"], key), pc.is_valid(records["dep_delay"])))
    timestamp_ms = np.asarray(mine["timestamp_ms"])
    stream_time_ms = np.maximum.accumulate(timestamp_ms)
    delay = np.asarray(mine["dep_delay"])
    return Arrivals(timestamp_ms, delay, stream_time_ms - rules.grace_ms)


def is_late(arrivals: Arrivals, rules: Rules) -> np.ndarray:
    """Return for each record if it arrived after its last window had closed."""
    late: np.ndarray = arrivals.timestamp_ms + rules.difference_ms < arrivals.close_ms
    return late


def windows_between(
    arrivals: Arrivals, rules: Rules, from_ms: int, to_ms: int
) -> list[dict[str, Any]]:
    """Return every window that starts in ``[from_ms, to_ms]``, in order of start.

    A window ``[s, s + difference]`` exists under two conditions:

    - It ends at an accepted record and was open then, or it starts 1 ms after an accepted record.
    - It has an accepted record that arrived while the window was open.
    """
    accepted = ~is_late(arrivals, rules)
    time, close = arrivals.timestamp_ms[accepted], arrivals.close_ms[accepted]
    by_time = np.argsort(time, kind="stable")
    time, close, delay = time[by_time], close[by_time], arrivals.delay[accepted][by_time]
    # A record defines its left window only if the window is open: s + D >= its close time.
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
