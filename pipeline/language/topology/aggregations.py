"""Aggregations of stores, and the topics that their rows are written to, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oriel.pipeline.language.topology.steps import function_name
from oriel.pipeline.windows import Aggregate, Aggregator, Merger, TableJoin


def verb(how: str) -> str:
    """Return the name of the method of a join."""
    return "join" if how == "inner" else f"{how}_join"


@dataclass(frozen=True)
class Columns:
    """The declarative aggregates of each stream, by name."""

    of_stream: tuple[Mapping[str, Aggregate], ...]

    def __str__(self) -> str:
        """Return the aggregates as arguments of ``aggregate``."""
        named = (pair for aggregates in self.of_stream for pair in aggregates.items())
        return ", ".join(f"{name}={aggregate.call}" for name, aggregate in named)

    @property
    def names(self) -> list[str]:
        """The store's columns, in order."""
        return [name for aggregates in self.of_stream for name in aggregates]


@dataclass(frozen=True)
class Functions:
    """User-defined functions, with one aggregator per stream.

    ``schema`` is the DDL of the aggregate, or None for the schema of the value (``reduce``). For a
    grouped table, ``subtractor`` retracts old rows, and the aggregator adds new ones.
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

    ``join`` has the inputs of the store by their indexes. For one table, it is 0.
    """

    join: TableJoin | int

    def __str__(self) -> str:
        """Return the source of the rows, for ``describe``."""
        if isinstance(self.join, int):
            return "of the table"
        is_pair = self.how == self.join.how
        return f"{verb(self.how)} of tables" if is_pair else f"joins of tables: {self.how}"

    @property
    def how(self) -> str:
        """The joins of the tables: the kind for two tables, a text with indexes for more."""
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
    """A Kafka topic that all rows or records, or only final rows, are written to."""

    topic: str
    final_only: bool = False
