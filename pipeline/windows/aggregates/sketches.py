"""Approximate aggregates by Apache DataSketches, as mergeable parts.

An estimate may depend on the set of values only. HLL registers do, and an estimate that
is taken after a union does too (a sketch that was never in a union estimates from the
order of arrival, so each goes through one). A t-digest depends on the order in which it
is fed and how it is merged, so its part is the values themselves, and the digest is built
from them in order. KLL and REQ draw random bits and are not used.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union, tdigest_double

from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.parts import Part
from oriel.pipeline.windows.arrays import Ranges, lists

MIN_LG_K = 4
MAX_LG_K = 21


@dataclass(frozen=True)
class DistinctPart(Part):
    """A HyperLogLog sketch, null where there is no value."""

    lg_k: int

    @property
    def name(self) -> str:
        """The name of the state column."""
        return f"DistinctPart({self.column}, {self.lg_k})"

    def state_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """The sketch's bytes."""
        return pa.binary()

    def of(self, members: Members) -> pa.Array:
        """A sketch of each window's values."""
        column = members.values(str(self.column))
        values = column.column.to_pylist()
        if pa.types.is_string(column.column.type):
            # The library leaves empty strings out; they are values like others.
            values = ["=" + value for value in values]
        return pa.array([self._sketch(values[low:high]) for low, high in column.ranges.pairs()])

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """A sketch of the union."""
        sketches = rows.to_pylist()
        unions = [self._union(sketches[low:high]) for low, high in ranges.pairs()]
        return pa.array(unions, pa.binary())

    def estimates(self, rows: pa.Array) -> pa.Array:
        """The estimated number of distinct values, 0 for none."""
        return pa.array([self._estimate(sketch) for sketch in rows.to_pylist()], pa.int64())

    def _sketch(self, values: list[object]) -> bytes | None:
        if not values:
            return None
        sketch = hll_sketch(self.lg_k)
        for value in values:
            sketch.update(value)
        return bytes(sketch.serialize_compact())

    def _union(self, sketches: list[bytes | None]) -> bytes | None:
        found = [sketch for sketch in sketches if sketch is not None]
        if len(found) < 2:
            return found[0] if found else None
        union = hll_union(self.lg_k)
        for sketch in found:
            union.update(hll_sketch.deserialize(sketch))
        return bytes(union.get_result().serialize_compact())

    def _estimate(self, serialized: bytes | None) -> int:
        if serialized is None:
            return 0
        sketch = hll_sketch.deserialize(serialized)
        union = hll_union(self.lg_k)
        # The first is only copied; the second makes it a union.
        union.update(sketch)
        union.update(sketch)
        estimate: float = union.get_estimate()
        return round(estimate)


class QuantilePart(Part):
    """All values in ascending order."""

    def state_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A list of doubles."""
        return pa.list_(pa.float64())

    def of(self, members: Members) -> pa.Array:
        """The sorted values of each window."""
        values = members.values(str(self.column))
        offsets, rows = values.ranges.rows()
        items = values.doubles[rows]
        return lists(offsets, items[np.lexsort((items, values.ranges.owners))])

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """The values of all, sorted."""
        items = np.asarray(rows.flatten())
        sizes = np.diff(np.asarray(rows.offsets))
        together = Ranges.side_by_side(ranges.totals(sizes))
        offsets = np.append(0, together.high)
        return lists(offsets, items[np.lexsort((items, together.owners))])

    def estimates(self, rows: pa.Array, probability: float) -> pa.Array:
        """The t-digest's estimate of one quantile of each row, null for an empty one."""
        offsets = np.asarray(rows.offsets).tolist()
        values = np.asarray(rows.values)
        found = []
        for low, high in pairwise(offsets):
            digest = tdigest_double()
            digest.update(values[low:high].copy())
            found.append(None if digest.is_empty() else digest.get_quantile(probability))
        return pa.array(found, pa.float64())
