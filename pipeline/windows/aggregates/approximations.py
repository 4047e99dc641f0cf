"""The approximate aggregates, computed from sketches."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import SCALARS, Aggregate
from oriel.pipeline.windows.aggregates.parts import Part
from oriel.pipeline.windows.aggregates.sketches import (
    MAX_LG_K,
    MIN_LG_K,
    DistinctPart,
    QuantilePart,
)
from oriel.pipeline.windows.definitions import IllegalArgument


@dataclass(frozen=True)
class ApproxCountDistinct(Aggregate):
    """About how many distinct values (Apache DataSketches HLL)."""

    lg_k: int

    accepts = SCALARS

    @property
    def call(self) -> str:
        """The call with its precision."""
        return f"approx_count_distinct({self.column}, lg_k={self.lg_k})"

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A 64-bit integer."""
        return pa.int64()

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """A sketch."""
        return (DistinctPart(self.column, self.lg_k),)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The sketch's estimate, 0 where there is no value."""
        return DistinctPart(self.column, self.lg_k).estimates(parts[0])


@dataclass(frozen=True)
class ApproxQuantile(Aggregate):
    """About the value below which a share of the values lies (Apache DataSketches t-digest)."""

    probability: float

    @property
    def call(self) -> str:
        """The call with its share."""
        return f"approx_quantile({self.column}, {self.probability})"

    def result_type(self, found: pa.DataType) -> pa.DataType:  # noqa: ARG002
        """A double."""
        return pa.float64()

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """The values: a t-digest depends on the order in which it is fed."""
        return (QuantilePart(self.column),)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The estimate, null where there is no value."""
        return QuantilePart(self.column).estimates(parts[0], self.probability)


def approx_count_distinct(column: str, lg_k: int = 12) -> Aggregate:
    """Estimate the number of distinct values of ``column``.

    ``lg_k`` is the base-2 logarithm of the sketch's size; 12 gives about 1.6 % error.

    Raises:
        IllegalArgument: ``lg_k`` is no whole number from 4 to 21.
    """
    if not _is_number(lg_k, Integral) or not MIN_LG_K <= lg_k <= MAX_LG_K:
        message = (
            f"approx_count_distinct: lg_k must be a whole number from {MIN_LG_K} to {MAX_LG_K}, "
            f"not {lg_k!r}"
        )
        raise IllegalArgument(message)
    return ApproxCountDistinct(column, lg_k)


def approx_quantile(column: str, probability: float) -> Aggregate:
    """Estimate the value of ``column`` below which the share ``probability`` of values lies.

    Raises:
        IllegalArgument: ``probability`` is no number from 0 to 1.
    """
    if not _is_number(probability, Real) or not 0 <= probability <= 1:
        message = f"approx_quantile: probability must be a number from 0 to 1, not {probability!r}"
        raise IllegalArgument(message)
    return ApproxQuantile(column, probability)


def _is_number(value: object, wanted: type) -> bool:
    return isinstance(value, wanted) and not isinstance(value, bool)
