"""The aggregations of stores, and the Kafka topics that rows are written to, as data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from oriel.pipeline.language.topology.schema_texts import schema_text
from oriel.pipeline.language.topology.steps import function_name
from oriel.pipeline.windows import Aggregate, Aggregator, Merger


def verb(how: str) -> str:
    """Return the name of the method of a join: ``join``, ``left_join`` or ``outer_join``."""
    return "join" if how == "inner" else f"{how}_join"


class Aggregation:
    """How a store computes its rows from records.

    Attributes:
        is_table: Whether the rows are rows of tables, without aggregation.
        by_functions: Whether functions of the user compute the rows.
    """

    is_table: ClassVar[bool] = False
    by_functions: ClassVar[bool] = False

    @property
    def aggregates(self) -> tuple[Mapping[str, Aggregate], ...]:
        """For each stream, its named aggregates by the name of their column. Empty without any."""
        return ()

    @property
    def columns(self) -> list[str]:
        """The columns with named aggregates, in order."""
        return [name for aggregates in self.aggregates for name in aggregates]

    @property
    def function_texts(self) -> tuple[str, ...]:
        """The names of the functions and the schema of their results, for the definition."""
        return ()

    @property
    def has_schema(self) -> bool:
        """Whether the user passed a schema of the results."""
        return False

    @property
    def lacks_merger(self) -> bool:
        """Whether it cannot aggregate sessions, which merge."""
        return False

    def computed_by(self, inputs: int) -> str:
        """Return how columns without a named aggregate are computed, for users.

        ``inputs``: the number of inputs of the store.
        """
        del inputs
        return "the table's own column"


@dataclass(frozen=True)
class Columns(Aggregation):
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
    def aggregates(self) -> tuple[Mapping[str, Aggregate], ...]:
        return self.of_stream

    @property
    def definition_call(self) -> str:
        """The call for the definition of a store that reads the updates."""
        return f"aggregate({self})"


@dataclass(frozen=True)
class Functions(Aggregation):
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
    by_functions: ClassVar[bool] = True

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

    @property
    def has_schema(self) -> bool:
        return bool(self.schema)

    @property
    def lacks_merger(self) -> bool:
        return not self.merger

    @property
    def function_texts(self) -> tuple[str, ...]:
        schemas = () if self.schema is None else (f"schema {schema_text(self.schema)}",)
        return (*self.names, *schemas)

    @property
    def definition_call(self) -> str:
        """The call for the definition of a store that reads the updates."""
        schemas = () if self.schema is None else (f"schema {self.schema}",)
        return f"{self.step}({', '.join((*self.names, *schemas))})"

    def computed_by(self, inputs: int) -> str:
        del inputs
        return self.step


@dataclass(frozen=True)
class Publication:
    """A Kafka topic that rows or records are written to.

    Attributes:
        topic: The name of the topic.
        final_only: Whether only final rows are written.
        headers: Of records: the name of each header, and the column that it has instead of the
            value of the message.
    """

    topic: str
    final_only: bool = False
    headers: tuple[tuple[str, str], ...] = ()
