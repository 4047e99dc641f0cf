"""The partial aggregates of functions by window and source partition, as arrays."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints

#: The fields of ``PartitionAggregates`` that are numpy arrays.
_ARRAYS = ("code", "start_ms", "partition", "time_ms", "known", "changed", "removed")


@dataclass(frozen=True)
class PartitionAggregates:
    """Aggregates of functions, one entry per key, window and partition.

    Attributes:
        code: The code of the key.
        start_ms: The start of the window.
        partition: The partition (``UserFunctions.aggregation_group``).
        time_ms: The time of the row.
        known: True if the state has the row before the batch.
        changed: True if the batch changed the row.
        removed: True if the batch removed the row.
        aggregates: The columns of the aggregate.
    """

    code: Ints
    start_ms: Ints
    partition: Ints
    time_ms: Ints
    known: Flags
    changed: Flags
    removed: Flags
    aggregates: pa.Table

    @classmethod
    def of_state(cls, rows: pa.Table, code: Ints, columns: list[str]) -> "PartitionAggregates":
        """Return the partial aggregates of state rows, with the code of each key."""
        # The partition is an int32 in the state. With one type, arrays of the state and of a batch
        # are joined and sorted together.
        start_ms, partition, time_ms = (
            np.asarray(rows[name]).astype(np.int64)
            for name in ("window_start_ms", "partition", "timestamp_ms")
        )
        no = np.zeros(len(rows), dtype=np.bool_)
        # Two fields share an array, because no code changes an array of this class in place.
        return cls(code, start_ms, partition, time_ms, ~no, no, no, rows.select(columns))

    def __len__(self) -> int:
        return len(self.code)

    @property
    def places(self) -> tuple[Ints, Ints, Ints]:
        """Partition, window and key, as sort keys with the most significant last."""
        return self.partition, self.start_ms, self.code

    def take(self, rows: Ints) -> "PartitionAggregates":
        """Return the entries with these indices."""
        columns = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return PartitionAggregates(**columns, aggregates=self.aggregates.take(pa.array(rows)))

    def keep(self, chosen: Flags) -> "PartitionAggregates":
        """Return the entries for which ``chosen`` is set."""
        return self.take(np.flatnonzero(chosen))

    def followed_by(self, others: "PartitionAggregates") -> "PartitionAggregates":
        """Return these entries, followed by others."""
        columns = {
            name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in _ARRAYS
        }
        aggregates = pa.concat_tables([self.aggregates, others.aggregates])
        return PartitionAggregates(**columns, aggregates=aggregates)
