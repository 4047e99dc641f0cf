"""Stream time: one running max per partition (semantics.md#1-1)."""

import numpy as np

from oriel.pipeline.windows import NEVER_CLOSED_MS, StreamTimes, close_time_ms


def test_the_clock_of_a_partition_only_moves_forward() -> None:
    """A record sees the max of its own partition, itself included; others don't count."""
    clock = StreamTimes({0: -1, 1: 50})
    partition = np.array([0, 1, 0, 1, 0], dtype=np.int32)
    times = np.array([7, 10, 3, 60, 9], dtype=np.int64)
    assert clock.advance(partition, times).tolist() == [7, 50, 7, 60, 9]
    assert clock.stream_time_ms == {0: 9, 1: 60}


def test_the_slowest_partition_gives_the_close_time() -> None:
    """Nothing is closed before every partition has passed it; without partitions nothing is."""
    assert close_time_ms({0: 100, 1: 40}, 5) == 35
    assert close_time_ms({0: 100, 1: -1}, 0) == -1
    assert close_time_ms({}, 0) == NEVER_CLOSED_MS
