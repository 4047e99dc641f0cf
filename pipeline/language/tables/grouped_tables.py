"""Grouped tables, whose aggregates follow each change of a row."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oriel.pipeline.language.arguments import (
    aggregation_text,
    checked_table_aggregation,
    checked_table_reducers,
)
from oriel.pipeline.language.other_words import OtherWords
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.tables.ktables import KTable
from oriel.pipeline.language.topology import Aggregation, Input, Store
from oriel.pipeline.windows import Aggregate, Aggregator, EmitStrategy, Merger, NoWindows, count


@dataclass(frozen=True)
class KGroupedTable(OtherWords):
    """The grouped rows of a table, to aggregate.

    When a row changes, the old row is subtracted from its group, and the new row is added to its
    group. When a row is deleted, it is subtracted. A group that loses its last row keeps its own
    row (semantics.md#9).

    Example:
        >>> by_country = airlines.group_by("country")
        >>> airlines_by_country = by_country.count()
    """

    registry: Registry = field(repr=False)
    origin: Input

    def count(self) -> "KTable":
        """Count the rows of each group in the column ``count``, a BIGINT.

        If all rows of a group are deleted, its count is 0.

        Returns:
            The table with one row per group.

        Example:
            >>> builder.table("users", schema="city STRING").group_by("city").count()
            <KTable users: aggregate(count=count())>
        """
        return self.aggregate(count=count())

    def reduce(
        self, adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any]
    ) -> "KTable":
        """Combine the rows of each group with two functions.

        The first row of a group is kept without a call. The functions get dicts of the columns of
        the table, and these columns become the columns of the result. If a group has rows in
        several partitions, ``adder`` also merges them. If a function returns ``None``, the row of
        the group is deleted.

        Args:
            adder: A function ``(kept, new row)`` that returns the value with the new row.
            subtractor: A function ``(kept, old row)`` that returns the value without the old row.

        Returns:
            The table with one row per group.

        Raises:
            InvalidTopology: An argument is not a function of two values.

        Example:
            >>> def add(kept, row):
            ...     return {"points": kept["points"] + row["points"]}
            >>> def subtract(kept, row):
            ...     return {"points": kept["points"] - row["points"]}
            >>> users = builder.table("users", schema="city STRING, points BIGINT")
            >>> points_by_city = users.group_by("city").reduce(add, subtract)
        """
        return self._table(checked_table_reducers(adder, subtractor))

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        adder: Aggregator | None = None,
        subtractor: Aggregator | None = None,
        merger: Merger | None = None,
        schema: str | None = None,
        **aggregates: Aggregate,
    ) -> "KTable":
        """Aggregate the rows of each group, by named aggregates or by functions.

        Functions are called in the order of the offsets of a partition. For joined tables, they are
        called in the order of the updates.

        Args:
            initializer: A function without arguments that returns the aggregate of a new group.
            adder: A function ``(key, row, aggregate)`` that returns the aggregate with a new row.
                ``None`` deletes the row of the group.
            subtractor: A function ``(key, row, aggregate)`` that returns the aggregate without an
                old row.
            merger: A function ``(key, left, right)`` that merges the aggregates of two partitions.
                It is required if the rows of a group are in several partitions of one table.
            schema: The columns of the aggregate, for example ``"n BIGINT"``. Required for
                functions. With one column, the functions get its value, with several a dict.
            **aggregates: The named aggregates, for example ``airlines=count()``. Only ``count``,
                ``sum``, ``avg`` and ``stddev`` can subtract a row.

        Returns:
            The table with one row per group.

        Raises:
            InvalidTopology: Both functions and aggregates are passed, or neither, an argument is
                invalid, or an aggregate cannot subtract a row, for example ``min``.

        Example:
            >>> airlines_by_country = airlines.group_by("country").aggregate(airlines=count())
        """
        aggregation = checked_table_aggregation(
            initializer, adder, subtractor, merger, schema, aggregates
        )
        return self._table(aggregation)

    def _table(self, aggregation: Aggregation) -> "KTable":
        emit = EmitStrategy.on_window_update()
        store = Store("", (self.origin,), NoWindows(), aggregation, emit, None)
        text = f"{self.origin.source.topic}: {aggregation_text(aggregation)}"
        return KTable(self.registry, store, text)
