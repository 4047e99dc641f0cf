"""Several streams as one, in front of a join in which a record may stay without a partner.

Pairs of merged streams are those of each with each. But that a record has no partner follows from
all of them together: so there they are one side, of which the records have the log that they are of
beside their place (``merged_places``).
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.places import merged_places
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    are_behind,
    values_beside,
)
from oriel.pipeline.windows.records import PLACE_FIELDS


class MergeEngine(JoinEngine):
    """The records of several streams, each with its own place, time and stream time.

    Nothing of them stays in the state. Those that the join behind would find too late are counted
    here, where they are records: behind it they are results.
    """

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: Sequence[SideRows],
        allowed_lateness_ms: int,
    ) -> None:
        """Merge streams that all have the columns ``values``; ``rows`` are what each one's are.

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        beside = values_beside((*RESULT_FIELDS, SIDE), carried, [values])
        self._logs = SideLogs([stream.places for stream in rows])
        self._places = merged_places(self._logs.places)
        self._allowed_lateness_ms = allowed_lateness_ms
        numbers = max((places.fields for places in self._logs.places), key=len)
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, *(carried or ()), *beside])
        self.state_schema = pa.schema([*PLACE_FIELDS[:1], *(carried or ())])
        self.result_schema = pa.schema([*PLACE_FIELDS, *self._places.fields, STREAM_TIME, *beside])

    def changing(self, batch: pa.Table) -> pa.ChunkedArray:
        """No key's rows."""
        return batch["key"].slice(0, 0)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Pass on the records of ``batch`` that are not late; clocks don't matter."""
        del times
        batch = self._read(batch)
        late = are_behind(batch, self._allowed_lateness_ms)
        side = np.asarray(batch[SIDE.name])
        accepted = batch.filter(pa.array(~late))
        numbers = self._logs.merged_numbers(accepted)
        columns = dict(zip(accepted.column_names, accepted.columns, strict=True))
        columns |= self._places.written(numbers)
        names = self.result_schema.names
        results = pa.table([columns[name] for name in names], self.result_schema)
        by_stream = np.bincount(side[late], minlength=len(self._logs.places))
        return JoinResult(state, [results], late=tuple(by_stream.tolist()))
