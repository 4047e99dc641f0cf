"""The late filter drops the rows that are late for all of their windows in a store."""

import numpy as np
import pyarrow as pa

from oriel.pipeline.plan import BatchPlan
from oriel.pipeline.windows import Ints


class LateFilter:
    """Decides for each row of a stream whether it is late for a store.

    Decision 0001: only the row's own times matter, which are its timestamp and the stream time of
    its partition when it arrived. Neither other partitions nor other records of the batch matter.
    So the result is the same for all cuts into batches and all orders of partitions. For sessions,
    the filter drops no record, and the operator decides. A join finds its late records itself,
    because its grace depends on the input.
    """

    def __init__(self, plan: BatchPlan) -> None:
        self._plan = plan

    def accepted(self, rows: pa.Table, stream_time_ms: Ints) -> pa.Table:
        """Return the rows that at least one window accepts, each with its ``close_ms``.

        ``stream_time_ms`` includes the row itself (semantics.md#2-1, step 2).
        """
        close_ms = stream_time_ms - self._plan.windows.close_delay_ms
        # Decision 0032: a final window stays final, also for a partition that was idle, or whose
        # stream time was set back. For all others, this is never the greater one.
        close_ms = np.maximum(close_ms, self._plan.close_ms)
        late = self._plan.assembly.engine.is_late(np.asarray(rows["timestamp_ms"]), close_ms)
        return rows.append_column("close_ms", pa.array(close_ms)).filter(pa.array(~late))
