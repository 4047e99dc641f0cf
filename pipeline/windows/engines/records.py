"""The engine of output topics, whose records are not aggregated and never late."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import lexsort
from oriel.pipeline.windows.definitions import NoWindows
from oriel.pipeline.windows.engines.contract import EngineResult, WindowEngine
from oriel.pipeline.windows.engines.operator import Times
from oriel.pipeline.windows.records import APPLY_ORDER, NULL_VALUE, RECORD_FIELDS, arrival_keys


class RecordsEngine(WindowEngine):
    """The engine of an output topic, which returns the records of a batch in their order.

    Merged branches of one stream are several inputs of one partition, and their records are in the
    order of this partition. Updates of joined tables are in their apply order, so the last update
    of a key is its row. The records of a batch are also the state. They are therefore stored with
    the batch until they are published.
    """

    state_layout = "output"

    def __init__(
        self, values: pa.Schema, inputs: int = 1, *, share_flattened_records: bool = False
    ) -> None:
        """Read records of several inputs.

        Args:
            values: The columns of the values.
            inputs: The number of inputs.
            share_flattened_records: True if the rows of all inputs are flattened from the same
                records. They then have one order.
        """
        self.windows = NoWindows()
        self.aggregate_types = {field.name: field.type for field in values}
        self.record_schema = pa.schema([*RECORD_FIELDS, NULL_VALUE, *values])
        self.state_schema = pa.schema([])
        self._inputs, self._share_elements = inputs, share_flattened_records

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> EngineResult:
        """Return the records of the batch as changes, with the columns of records."""
        # The records of an output topic do not depend on records of other batches, and no record is
        # late.
        del state, times
        batch = self._read(batch).drop_columns(["close_ms"])
        # The partition is partition * inputs + input (``PartitionIndexes``).
        partition, input_number = np.divmod(np.asarray(batch["partition"]), self._inputs)
        apply_order = []
        if APPLY_ORDER.name in batch.column_names:
            # A record without an apply order has the least one, which is 0.
            apply_order.append(np.asarray(pc.fill_null(batch[APPLY_ORDER.name], 0)))
            batch = batch.drop_columns([APPLY_ORDER.name])
        # The last two of ``arrival_keys`` are the offset and the partition, which is split here.
        lineage_keys, source_offset = (
            arrival_keys(batch)[:-2],
            [np.asarray(batch["offset"]), partition],
        )
        lineage = [*lineage_keys, input_number]
        if self._share_elements:
            lineage = [input_number, *lineage_keys]
        # The last key counts first. Updates are in their apply order, and other records in the
        # order of partition and offset.
        keys = [*lineage, *source_offset, *apply_order]
        records = batch.take(pa.array(lexsort(keys)))
        return EngineResult(records, records)
