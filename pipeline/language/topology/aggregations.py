"""The aggregations of stores, and the Kafka topics that rows are written to, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oriel.pipeline.language.topology.steps import function_name
from oriel.pipeline.windows import Aggregate, Aggregator, Merger, TableJoin


def verb(how: str) -> str:
    """Return the name of the method of a join: ``join``, ``left_join`` or ``outer_join``."""
    return "join" if how == "inner" else f"{how}_join"


@dataclass(frozen=True)
class Columns:
    """Named aggregates.

    Attributes:
        of_stream: For each stream of a cogroup, its aggregates by the name of their column.
            Otherwise, it has one item.
    """

    of_stream: tuple[Mapping[str, Aggregate], ...]

    def __str__(self) -> str:
        """Return the aggregates as arguments of ``aggregate``."""
        named = (pair for aggregates in self.of_stream for pair in aggregates.items())
        return ", ".join(f"{name}={aggregate.call}" for name, aggregate in named)

    @property
    def names(self) -> list[str]:
        """The columns of the store, in order."""
        return [name for aggregates in self.of_stream for name in aggregates]


@dataclass(frozen=True)
class Functions:
    """A user-defined aggregation with functions.

    Attributes:
        initializer: The function that returns the aggregate of a new row. None for ``reduce``.
        aggregators: One aggregator per stream of a cogroup. For a grouped table, it adds new rows.
        merger: The function that merges two aggregates, if one was passed.
        schema: The columns of the aggregate as Spark DDL. None: the columns of the value.
        step: The name of the method, ``aggregate`` or ``reduce``.
        subtractor: The function that retracts old rows of a grouped table.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Aggregator, ...]
    merger: Merger | None
    schema: str | None
    step: str
    subtractor: Aggregator | None = None

    def __str__(self) -> str:
        return f"{self.step}(functions){f': {self.schema}' if self.schema else ''}"

    @property
    def names(self) -> tuple[str, ...]:
        """The role and the name of each function."""
        functions = [
            ("initializer", self.initializer),
            *(("aggregator", function) for function in self.aggregators),
            ("subtractor", self.subtractor),
            ("merger", self.merger),
        ]
        return tuple(
            f"{role} {function_name(function)}" for role, function in functions if function
        )


@dataclass(frozen=True)
class TableRows:
    """The rows of a table, or of several tables that are joined by key, without aggregation.

    Attributes:
        join: The join of the inputs of the store by their indexes. For one table, it is 0.
    """

    join: TableJoin | int

    def __str__(self) -> str:
        """Return the kind of the rows, for ``describe``."""
        if isinstance(self.join, int):
            return "of the table"
        is_pair = self.how == self.join.how
        return f"{verb(self.how)} of tables" if is_pair else f"joins of tables: {self.how}"

    @property
    def how(self) -> str:
        """The joins as text: the kind of join for two tables, with indexes for more tables."""
        join = self.join
        if isinstance(join, TableJoin) and (join.left, join.right) == (0, 1):
            return join.how
        return str(join)


@dataclass(frozen=True)
class Records:
    """The records of a stream that is written to a topic, without aggregation."""

    def __str__(self) -> str:
        """Return the content of the topic, for ``describe``."""
        return "records"


Aggregation = Columns | Functions | TableRows | Records


@dataclass(frozen=True)
class Publication:
    """A Kafka topic that rows or records are written to.

    Attributes:
        topic: The name of the topic.
        final_only: Whether only final rows are written.
    """

    topic: str
    final_only: bool = False
