"""Slow reference model of record windows (semantics.md#2-2, semantics.md#2-3, semantics.md#3)."""

from collections.abc import Iterable, Sequence

from oriel.storage import StoreKind, WindowSpec
from oriel.testing.store_models import Put, put


def windows_of(records: Sequence[tuple[str, int]], window: WindowSpec) -> list[Put]:
    """Return the windows of records (key, time) that arrive in this order from one partition.

    A window accepts a record while the window is open. If a window is already closed when the
    record that defines it arrives, the window is not created.
    """
    last = 0 if window.kind.has_inclusive_end else 1
    stream_ms = -1
    came: list[tuple[str, int, int]] = []
    made: set[tuple[str, int]] = set()
    for key, time_ms in records:
        stream_ms = max(stream_ms, time_ms)
        close_ms = stream_ms - window.grace_ms
        came.append((key, time_ms, close_ms))
        times = {time for k, time, _ in came if k == key}
        for start_ms in _defined(times, window):
            last_ms = start_ms + window.size_ms - last
            if last_ms >= close_ms and any(start_ms <= time <= last_ms for time in times):
                made.add((key, start_ms))
    puts = []
    for key, start_ms in sorted(made):
        last_ms = start_ms + window.size_ms - last
        taken = [
            time for k, time, close in came if k == key and start_ms <= time <= last_ms >= close
        ]
        if taken:
            puts.append(put(key, start_ms, window.size_ms, timestamp_ms=max(taken)))
    return puts


def _defined(times: Iterable[int], window: WindowSpec) -> set[int]:
    """Return the starts of all windows that records at these times define."""
    if window.kind is StoreKind.SLIDING:
        return {max(0, t - window.size_ms) for t in times} | {t + 1 for t in times}
    advance = window.advance_ms or window.size_ms
    return {
        start for t in times for start in range(0, t + 1, advance) if start + window.size_ms > t
    }
