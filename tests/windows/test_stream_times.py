"""Stream time is the maximum time so far, per partition (semantics.md#1-1)."""

import numpy as np

from oriel.pipeline.windows import NEVER_CLOSED_MS, StreamTimes, close_time_ms


def test_the_stream_time_of_a_partition_never_decreases() -> None:
    """A record has the maximum of its own partition, including its own time."""
    clock = StreamTimes({0: -1, 1: 50})
    partition = np.array([0, 1, 0, 1, 0], dtype=np.int32)
    times = np.array([7, 10, 3, 60, 9], dtype=np.int64)
    assert clock.advance(partition, times).tolist() == [7, 50, 7, 60, 9]
    assert clock.stream_time_ms == {0: 9, 1: 60}


def test_the_slowest_partition_determines_the_close_time() -> None:
    """A time closes once all partitions are past it. Without partitions, no time closes."""
    assert close_time_ms({0: 100, 1: 40}, 5) == 35
    assert close_time_ms({0: 100, 1: -1}, 0) == -1
    assert close_time_ms({}, 0) == NEVER_CLOSED_MS
