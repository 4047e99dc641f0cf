"""Several streams as one input of a join with unmatched records.

The pairs of merged streams are the pairs of each stream. But a record is unmatched only if it has
no match in any merged stream. So a left or outer join reads the streams as one input, and the
lineage of a record begins with its log (``merged_lineage``).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RESULT_FIELDS,
    SIDE,
    InputLogs,
    InputRows,
    JoinEngine,
    JoinResult,
    are_older,
    value_fields,
)
from oriel.pipeline.windows.records import LINEAGE, RECORD_ID_FIELDS, lineage_fields, with_column


class MergeEngine(JoinEngine):
    """The records of several streams, with their record ids, times and stream times.

    It has no state. Records that are late for the downstream join are counted here as records,
    because the join would count them as results.
    """

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: Sequence[InputRows],
        allowed_lateness_ms: int,
    ) -> None:
        """Merge streams with the columns ``values``. ``rows`` has one entry per stream.

        Raises:
            IllegalArgument: A column has a name that the join needs.
        """
        value_columns = value_fields((*RESULT_FIELDS, SIDE), carried, [values])
        self._logs = InputLogs([stream.lineage for stream in rows])
        self._allowed_lateness_ms = allowed_lateness_ms
        lineage = lineage_fields(self._logs.lineages)
        self.record_schema = pa.schema([*INPUT_FIELDS, *lineage, *(carried or ()), *value_columns])
        # The state is always empty. Keyed state is stored by key, so even an empty schema has the
        # key.
        self.state_schema = pa.schema([*RECORD_ID_FIELDS[:1], *(carried or ())])
        self.result_schema = pa.schema([*RESULT_FIELDS, *value_columns])

    def changing(self, batch: pa.Table) -> pa.ChunkedArray:
        # No key has a state, so a batch writes none.
        return batch["key"].slice(0, 0)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the records of ``batch`` that are not late. Times don't matter."""
        del times
        batch = self._read(batch)
        # The stream time of a record is from its own partition, so the other streams have no
        # influence on whether it is late.
        late = are_older(batch, self._allowed_lateness_ms)
        side = np.asarray(batch[SIDE.name])
        accepted = batch.filter(pa.array(~late))
        merged = with_column(accepted, LINEAGE, self._logs.merged_lineages(accepted))
        results = merged.select(self.result_schema.names).cast(self.result_schema)
        # Each stream has its own count, 0 for a stream without a late record.
        by_stream = np.bincount(side[late], minlength=len(self._logs.lineages))
        return JoinResult(state, [results], late=tuple(by_stream.tolist()))
