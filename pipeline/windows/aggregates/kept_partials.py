"""Partial aggregates that the rows of a store keep, and that the service merges.

The pipeline encodes the partial aggregates of each window in its row (``KeptPartials.encoded``). A
reader decodes them, merges the windows of a range, and computes the results with the functions that
the engine uses. So a result equals the result of one window with the same records.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from oriel.pipeline.windows.aggregates.approximations import approx_count_distinct, approx_quantile
from oriel.pipeline.windows.aggregates.built_in import Aggregate, built_in, is_scalar
from oriel.pipeline.windows.aggregates.part_columns import PartialAggregates
from oriel.pipeline.windows.aggregates.parts import LIST, widened
from oriel.pipeline.windows.aggregates.row_encoding import decoded_rows, encoded_rows
from oriel.pipeline.windows.arrays import Ints, Ranges


class KeptAggregate(NamedTuple):
    """An aggregate whose partial aggregates are kept.

    Attributes:
        name: The name of the output column.
        aggregate: The name of the aggregate.
        column: The column that it reads. None for ``count()``.
        type: The widest type of the column. None if the aggregate accepts any type.
        arguments: The further arguments of the aggregate.
        has_lineage: True if the records have a lineage.
    """

    name: str
    aggregate: str
    column: str | None
    type: pa.DataType | None
    arguments: tuple[float, ...]
    has_lineage: bool


def can_be_kept(aggregate: Aggregate) -> bool:
    """Return whether rows can keep the partial aggregates, and a reader can merge them.

    A reader runs no code of users, so their aggregates cannot be merged. ``collect_list`` keeps all
    records.
    """
    parts = [part for rule in aggregate.rules for part in rule.parts]
    return all(part.functions is None and part.name != LIST.name for part in parts)


def kept_aggregates(
    aggregates: Mapping[str, Aggregate], values: pa.Schema
) -> tuple[KeptAggregate, ...]:
    """Return the aggregates that can be kept, of aggregates of the columns ``values``."""
    kept = []
    for name, aggregate in aggregates.items():
        if can_be_kept(aggregate):
            column_type = aggregate.column_type(values)
            of_type = widened(column_type) if is_scalar(column_type) else None
            kept.append(
                KeptAggregate(
                    name, aggregate.name, aggregate.column, of_type, aggregate.arguments,
                    aggregate.has_lineage,
                )
            )  # fmt: skip
    return tuple(kept)


class KeptPartials:
    """The encoded partial aggregates of rows, and their merge."""

    def __init__(self, kept: Iterable[KeptAggregate], chosen: Iterable[str] | None = None) -> None:
        """Read rows that have the partial aggregates of ``kept``.

        Args:
            kept: The aggregates, in the order in which the rows were encoded.
            chosen: The names of the aggregates to merge. None: all.
        """
        kept = tuple(kept)
        aggregates = {each.name: _aggregate(each) for each in kept}
        values = pa.schema([
            pa.field(column, each_type)
            for column, each_type in {
                each.column: each.type or pa.null() for each in kept if each.column is not None
            }.items()
        ])  # fmt: skip
        self._fields = PartialAggregates(aggregates, values).fields
        names = aggregates.keys() if chosen is None else set(chosen)
        self._columns = PartialAggregates(
            {name: each for name, each in aggregates.items() if name in names}, values
        )

    def encoded(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the partial aggregates of state rows as one binary value per row."""
        return encoded_rows([rows[field.name].combine_chunks() for field in self._fields])

    def merged(self, rows: Sequence[bytes], sizes: Ints) -> pa.Table:
        """Decode rows, and merge adjacent ones.

        Args:
            rows: The encoded rows.
            sizes: The number of rows of each range, at least 1.

        Returns:
            One row per range, with the partial aggregates of the chosen aggregates.
        """
        fields = self._columns.fields
        table = decoded_rows(rows, self._fields, [field.name for field in fields])
        return self._columns.merged(table.cast(pa.schema(fields)), Ranges.side_by_side(sizes))

    def results(self, merged: Sequence[pa.Table], sizes: Ints) -> dict[str, pa.Array]:
        """Merge rows of ``merged`` again, and return the aggregates of each range by name."""
        table = self._columns.merged(pa.concat_tables(merged), Ranges.side_by_side(sizes))
        return self._columns.results(table)


def _aggregate(kept: KeptAggregate) -> Aggregate:
    """Return the aggregate with its functions.

    Raises:
        KeyError: The aggregate is unknown, because a newer version has written it.
    """
    column = kept.column or ""
    if kept.aggregate == "approx_count_distinct":
        return approx_count_distinct(column, *map(int, kept.arguments))
    if kept.aggregate == "approx_quantile":
        return approx_quantile(column, *kept.arguments)
    aggregate = built_in(kept.aggregate, kept.column)
    return aggregate.with_lineage() if kept.has_lineage else aggregate
