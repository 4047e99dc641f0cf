"""Stream time: the greatest record time so far of each source partition (semantics.md#1-1).

Kafka Streams has one stream time per operator and task, and loses it on a restart. Oriel has one
per source partition and keeps it in the state. Whether a record is late therefore depends only on
the log of its partition (guarantees.md#1).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: Stream time of a partition that has had no record.
NO_STREAM_TIME_MS = -1

#: The close time before the first record, which is less than the end of every window.
NEVER_CLOSED_MS = -(2**61)


#: The greatest window start of a store before its first window (semantics.md#7).
NOTHING_OBSERVED_MS = -1


def greatest_ms(time_ms: NDArray[np.int64]) -> int:
    """Return the greatest time, or -1 without a time."""
    return int(time_ms.max(initial=NOTHING_OBSERVED_MS))


class StreamTimes:
    """The stream time of each partition, which never decreases."""

    def __init__(self, initial: Mapping[int, int] | None = None) -> None:
        """Start from ``initial``: partition -> stream time in ms (-1 before any record)."""
        #: Partition -> the greatest record time so far.
        self.stream_time_ms: dict[int, int] = dict(initial or {})

    def advance(
        self, partition: NDArray[np.int32], timestamp_ms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Advance over records in arrival order, and return the stream time of each record.

        The record itself counts, so it can close its own windows (semantics.md#0-1). Rows of
        different partitions can be mixed if each partition is in offset order.
        """
        stream_time = np.empty(len(timestamp_ms), dtype=np.int64)
        for number in np.unique(partition).tolist():
            of_partition = partition == number
            before_ms = self.stream_time_ms.get(number, NO_STREAM_TIME_MS)
            running_max = np.maximum.accumulate(timestamp_ms[of_partition])
            np.maximum(running_max, before_ms, out=running_max)
            stream_time[of_partition] = running_max
            self.stream_time_ms[number] = int(running_max[-1])
        return stream_time


def close_time_ms(stream_time_ms: Mapping[int, int], grace_ms: int) -> int:
    """Return the close time of all partitions: the least of their stream times less ``grace_ms``.

    A window is final after it is closed for the slowest partition, because each later record has at
    least this close time. Without a partition, no window is final.
    """
    if not stream_time_ms:
        return NEVER_CLOSED_MS
    return min(stream_time_ms.values()) - grace_ms
