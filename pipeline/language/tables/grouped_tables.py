"""Grouped tables. Their aggregates change with each change of a row."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from oriel.pipeline.language.arguments import (
    aggregation_text,
    checked_table_aggregation,
    checked_table_reducers,
)
from oriel.pipeline.language.kafka_hints import CallHints
from oriel.pipeline.language.registry import Registry
from oriel.pipeline.language.tables.ktables import KTable
from oriel.pipeline.language.topology import Aggregated, Aggregation, Node
from oriel.pipeline.windows import Aggregate, Aggregator, EmitStrategy, Merger, NoWindows, count


@dataclass(frozen=True)
class KGroupedTable(CallHints):
    """The grouped rows of a table, to aggregate.

    It corresponds to ``KGroupedTable`` of Kafka Streams. When a row changes, the old row is first
    subtracted from its group. The new row is then added to its group. When a row is deleted, it is
    only subtracted. If a group loses its last row, its aggregate remains, for example with the
    count 0 (semantics.md#9).

    Example:
        >>> by_country = airlines.group_by("country")
        >>> airlines_by_country = by_country.count()
    """

    registry: Registry = field(repr=False)
    origin: Node

    def count(self) -> "KTable":
        """Count the rows of each group.

        It corresponds to ``KGroupedTable.count`` of Kafka Streams. If all rows of a group are
        deleted, its count is 0.

        Returns:
            A table with one row per group, and a column ``count`` of type BIGINT.

        Example:
            >>> builder.table("users", schema="city STRING").group_by("city").count()
            <KTable users: aggregate(count=count())>
        """
        return self.aggregate(count=count())

    def reduce(
        self, adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any]
    ) -> "KTable":
        """Combine the rows of each group with two functions.

        It corresponds to ``KGroupedTable.reduce`` of Kafka Streams. The first row of a group is
        kept without a call. If a function returns None, the row of the group is deleted. A record
        on which a function raises becomes a dead letter.

        Args:
            adder: ``adder(kept, new)`` returns the value with the new row. Both arguments are dicts
                of the columns. If a group has rows in several partitions, it also merges the values
                of the partitions.
            subtractor: ``subtractor(kept, old)`` returns the value without the old row.

        Returns:
            A table with one row per group, and the columns of the grouped table.

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
        """Aggregate the rows of each group.

        It corresponds to ``KGroupedTable.aggregate`` of Kafka Streams. Pass either named
        aggregates, or functions with a schema. Functions are called in the order of the offsets of
        a partition. For joined tables and aggregations, they are called in the order of the
        updates. A record on which a function raises becomes a dead letter.

        Args:
            initializer: ``initializer()`` returns the aggregate of a new group.
            adder: ``adder(key, row, aggregate)`` returns the aggregate with a new row, or None to
                delete the row of the group.
            subtractor: ``subtractor(key, row, aggregate)`` returns the aggregate without an old
                row, or None to delete the row of the group.
            merger: ``merger(key, left, right)`` merges the aggregates of two partitions. Required
                if the rows of a group are in several partitions of one topic.
            schema: The columns of the aggregate as Spark DDL, for example ``"n BIGINT"``. Required
                for functions. With one column, the functions receive its value. With several, they
                receive a dict.
            **aggregates: Named aggregates, for example ``airlines=count()``. Only ``count``,
                ``sum``, ``avg`` and ``stddev`` can subtract a row.

        Returns:
            A table with one row per group.

        Raises:
            InvalidTopology: Both forms or neither form is passed, an argument is invalid, or a
                named aggregate cannot subtract a row, for example ``min``.

        Example:
            >>> airlines_by_country = airlines.group_by("country").aggregate(airlines=count())
        """
        aggregation = checked_table_aggregation(
            initializer, adder, subtractor, merger, schema, aggregates
        )
        return self._table(aggregation)

    def _table(self, aggregation: Aggregation) -> "KTable":
        rows = Aggregated(
            streams=((self.origin,),), windows=NoWindows(), aggregation=aggregation,
            emit=EmitStrategy.on_window_update(),
        )  # fmt: skip
        text = f"{self.origin.operation.source.topic}: {aggregation_text(aggregation)}"
        return KTable(self.registry, rows, text)
