"""Stream time: the running max of record times of each source partition (semantics.md#1-1).

Kafka Streams keeps one clock per operator and task, and forgets it on a restart. Ours
is one clock per source partition, carried over in the state: a record's lateness is then
a property of its partition's log alone (guarantees.md#1).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: Stream time of a partition that has had no record.
NO_STREAM_TIME_MS = -1

#: The close time before anything was seen: below every window's end.
NEVER_CLOSED_MS = -(2**61)


#: A store's clock before the first window (semantics.md#7).
NOTHING_OBSERVED_MS = -1


def greatest_ms(time_ms: NDArray[np.int64]) -> int:
    """The greatest of these times, -1 for none."""
    return int(time_ms.max(initial=NOTHING_OBSERVED_MS))


class StreamClock:
    """One clock per partition; moves forward only."""

    def __init__(self, initial: Mapping[int, int] | None = None) -> None:
        """Start from ``initial``: partition -> stream time in ms (-1 before any record)."""
        #: Partition -> the greatest record time so far.
        self.stream_time_ms: dict[int, int] = dict(initial or {})

    def advance(
        self, partition: NDArray[np.int32], timestamp_ms: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Move the clocks over records in arrival order; return each record's stream time.

        The record itself counts: it can close windows for itself (semantics.md#0-1).
        Rows of different partitions may be mixed as long as each partition is in offset order.
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

    A window is final once it is closed for every partition, so for the slowest one: any record
    to come has at least this close time. With no partition at all nothing is final.
    """
    if not stream_time_ms:
        return NEVER_CLOSED_MS
    return min(stream_time_ms.values()) - grace_ms
