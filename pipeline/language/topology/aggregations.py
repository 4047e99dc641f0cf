"""What a store makes of its records, and where its rows go, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oriel.pipeline.language.topology.steps import function_name
from oriel.pipeline.windows import Aggregate, Aggregator, Merger, TableJoin


def verb(how: str) -> str:
    """A join as it is called."""
    return "join" if how == "inner" else f"{how}_join"


@dataclass(frozen=True)
class Columns:
    """Declarative aggregates: for each stream the named ones that are computed from it."""

    of_stream: tuple[Mapping[str, Aggregate], ...]

    def __str__(self) -> str:
        """The columns as they are written."""
        named = (pair for aggregates in self.of_stream for pair in aggregates.items())
        return ", ".join(f"{name}={aggregate.call}" for name, aggregate in named)

    @property
    def names(self) -> list[str]:
        """The store's columns, in order."""
        return [name for aggregates in self.of_stream for name in aggregates]


@dataclass(frozen=True)
class Functions:
    """A user's own functions, an aggregator for each stream.

    ``schema`` is the aggregate's DDL, None for the value's (reduce). ``subtractor`` takes a
    table's old rows away; its new ones are the aggregator's.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Aggregator, ...]
    merger: Merger | None
    schema: str | None
    step: str
    subtractor: Aggregator | None = None

    def __str__(self) -> str:
        """The step, and what it gives."""
        return f"{self.step}(functions){f': {self.schema}' if self.schema else ''}"

    @property
    def names(self) -> tuple[str, ...]:
        """What each function is for, and how it is called."""
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
    """The rows of a table, or of several joined by key, as they are; no aggregation.

    ``join`` joins the store's inputs by their numbers; of one table it is 0.
    """

    join: TableJoin | int

    def __str__(self) -> str:
        """How rows come about."""
        if isinstance(self.join, int):
            return "of the table"
        is_pair = self.how == self.join.how
        return f"{verb(self.how)} of tables" if is_pair else f"joins of tables: {self.how}"

    @property
    def how(self) -> str:
        """How tables are joined: of two a word, of more with their numbers."""
        join = self.join
        if isinstance(join, TableJoin) and (join.left, join.right) == (0, 1):
            return join.how
        return str(join)


@dataclass(frozen=True)
class Records:
    """The records of a stream as they are, on their way to a topic; no aggregation."""

    def __str__(self) -> str:
        """What is written."""
        return "records"


Aggregation = Columns | Functions | TableRows | Records


@dataclass(frozen=True)
class Publication:
    """A Kafka topic that rows or records are written to: all of them, or final rows only."""

    topic: str
    final_only: bool = False
