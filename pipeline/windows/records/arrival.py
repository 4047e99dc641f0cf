"""The order of arrival."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Ints


def arrival_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys, the last first as in ``np.lexsort``, of arrival: partition, then offset."""
    names = [name for name in ("suborder", "offset", "partition") if name in records.column_names]
    # A record beside a join's results has no suborder.
    return tuple(np.asarray(pc.fill_null(records[name], 0)) for name in names)
