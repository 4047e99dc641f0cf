"""Records as they are, on their way to a topic: nothing is aggregated, and nothing is late."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import lexsort
from oriel.pipeline.windows.definitions import NoWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.records import EFFECT, NULL_VALUE, RECORD_FIELDS, arrival_keys


class RecordsEngine(WindowEngine):
    """Gives the records of a batch as its changes, in the order of their log; has no state.

    Branches of a stream that are merged again are several inputs that read one partition: their
    records are in its order, too. Updates of joined tables are in the order in which they take
    effect: the last one of a key is its row.
    """

    def __init__(self, values: pa.Schema, inputs: int = 1, *, share_elements: bool = False) -> None:
        """``values`` are the columns of the records' values, of each of so many ``inputs``.

        ``share_elements``: rows of all inputs are elements of the same records, and so in order.
        """
        self.windows = NoWindows()
        self.aggregate_types = {field.name: field.type for field in values}
        self.record_schema = pa.schema([*RECORD_FIELDS, NULL_VALUE, *values])
        self.state_schema = pa.schema([])
        self._inputs, self._share_elements = inputs, share_elements

    def process(
        self, state: pa.Table, batch: pa.Table, previous_close_ms: int, close_ms: int
    ) -> EngineResult:
        """See ``WindowEngine``; the changes have the columns of records."""
        del previous_close_ms, close_ms
        batch = self._read(batch).drop_columns(["close_ms"])
        # Partitions of several inputs are numbered together (``hops.PartitionNumbers``).
        partition, input_number = np.divmod(np.asarray(batch["partition"]), self._inputs)
        effect = []
        if EFFECT.name in batch.column_names:
            effect.append(np.asarray(pc.fill_null(batch[EFFECT.name], 0)))
            batch = batch.drop_columns([EFFECT.name])
        # ``arrival_keys`` end with offset and the number, which is taken apart here.
        numbers, place = arrival_keys(batch)[:-2], [np.asarray(batch["offset"]), partition]
        beside = [*numbers, input_number]
        if self._share_elements:
            beside = [input_number, *numbers]
        keys = [*beside, *place, *effect]
        return EngineResult(state, batch.take(pa.array(lexsort(keys))))
