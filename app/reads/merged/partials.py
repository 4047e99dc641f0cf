"""Merge the partial aggregates of windows with the functions of the pipeline's engine.

A store with ``materialize(mergeable=True)`` keeps them. So a range equals one window with the same
records, also for averages, NaN and infinities. The first read of such a store imports the
engine, which needs 0.2 seconds (decision 0114).
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from oriel.app.reads.merged.ranges import Value
from oriel.storage import StoreDefinition
from oriel.storage.delta import arrow_type


@lru_cache(maxsize=64)
def partial_merge(definition: StoreDefinition, chosen: tuple[str, ...]) -> "PartialMerge":
    """Return the merge of the aggregates with the names ``chosen``, which the store must keep."""
    return PartialMerge(definition, chosen)


class PartialMerge:
    """Merges the encoded partial aggregates of a store."""

    def __init__(self, definition: StoreDefinition, chosen: Iterable[str]) -> None:
        """Merge the aggregates with the names ``chosen``, which the store must keep."""
        from oriel.pipeline.windows import KeptAggregate, KeptPartials  # noqa: PLC0415 - 0.2 seconds

        kept = (
            KeptAggregate(
                each.name,
                each.aggregate,
                each.column,
                None if each.type is None else arrow_type(each.type),
                each.arguments,
                each.has_lineage,
            )
            for each in definition.partials
        )
        self._kept = KeptPartials(kept, chosen)

    def merged(self, rows: Sequence[bytes], sizes: Sequence[int]) -> list[pa.Table]:
        """Return the merged partial aggregates of adjacent windows, as one row per range.

        ``sizes`` has the number of windows of each range.
        """
        merged = self._kept.merged(rows, np.array(sizes, np.int64))
        return [merged.slice(place, 1) for place in range(len(sizes))]

    def results(self, ranges: Sequence[Sequence[pa.Table]]) -> list[dict[str, Value]]:
        """Return the aggregates of each range, from its merged rows."""
        if not ranges:
            return []
        rows = [row for of_range in ranges for row in of_range]
        sizes = np.array([len(of_range) for of_range in ranges], np.int64)
        columns = self._kept.results(rows, sizes)
        found: list[dict[str, Value]] = pa.table(columns).to_pylist()
        return found
