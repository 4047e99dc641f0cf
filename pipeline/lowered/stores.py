"""Stores, and the output topics of streams, with their lowered inputs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from oriel.pipeline.language import (
    SCOPE_COLUMNS,
    WINDOW_BOUNDS,
    Aggregation,
    Filter,
    MapValues,
    Publication,
    Source,
    verb,
)
from oriel.pipeline.lowered.inputs import Input
from oriel.pipeline.windows import EmitStrategy, TableJoin, Windows
from oriel.storage import TEXT, KeyType

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class TableRows(Aggregation):
    """The rows of a table, or of several tables that are joined by key, without aggregation.

    Attributes:
        join: The join of the inputs of the store by their indexes. For one table, it is 0.
    """

    join: TableJoin | int
    is_table: ClassVar[bool] = True

    def computed_by(self, inputs: int) -> str:
        return f"{self.how} join of tables" if inputs > 1 else super().computed_by(inputs)

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
class VersionRows(Aggregation):
    """The versions of a versioned table, without aggregation."""

    is_table: ClassVar[bool] = True

    def __str__(self) -> str:
        """Return the kind of the rows, for ``describe``."""
        return "versions of the table"


@dataclass(frozen=True)
class Records(Aggregation):
    """The records of a stream that is written to a topic, without aggregation."""

    def __str__(self) -> str:
        """Return the content of the topic, for ``describe``."""
        return "records"


@dataclass(frozen=True)
class AggregatedRows:
    """The rows of a store between its aggregation and its table, with their steps.

    A filter deletes the rows that it drops.

    Attributes:
        steps: The steps over the rows.
        windowed: Whether the rows have windows, so that the steps can read the window bounds.
    """

    steps: tuple[Filter | MapValues, ...]
    windowed: bool
    #: Whether it is the rows of an aggregation, and not the records of an input.
    are_rows: ClassVar[bool] = True
    #: The name of the rows in messages.
    input_text: ClassVar[str] = "the aggregation"

    def __str__(self) -> str:
        return ".".join(map(str, self.steps))

    @property
    def group_by(self) -> "tuple[str | Column, ...]":
        """Empty, because a row keeps its key."""
        return ()

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """Empty, because a row keeps its key."""
        return ()

    @property
    def key_type(self) -> KeyType:
        """The type of keys before the steps. The aggregation has checked them."""
        return TEXT

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns that expressions can read in addition to the aggregates."""
        return (*SCOPE_COLUMNS, *(WINDOW_BOUNDS if self.windowed else ()))


@dataclass(frozen=True)
class Store:
    """A materialized aggregation or table, or a sink.

    A sink writes the records of a stream to a topic. It has no table. Like a store, it has stream
    times, the state of upstream joins, dead letters and counters.

    Attributes:
        name: The name of the store. A sink has the name ``to(TOPIC)``.
        inputs: The inputs. Merged streams, cogroups and joined tables have several.
        windows: The windows, or ``NoWindows``.
        aggregation: The aggregation, or the rows or records to write without one.
        emit: The emit strategy.
        retention_ms: How much history reads show, in milliseconds. None: all.
        publications: The Kafka topics that the rows or records are written to.
        row_steps: The steps between the aggregation and the table.
        final_table: Whether the final rows are also appended to a table of their own.
        mergeable: Whether the rows keep their partial aggregates.
    """

    name: str
    inputs: tuple[Input, ...]
    windows: Windows
    aggregation: Aggregation
    emit: EmitStrategy
    retention_ms: int | None
    publications: tuple[Publication, ...] = ()
    row_steps: tuple[Filter | MapValues, ...] = ()
    final_table: bool = False
    mergeable: bool = False

    @property
    def aggregated_rows(self) -> AggregatedRows:
        """The rows of the aggregation, with their steps."""
        return AggregatedRows(self.row_steps, self.windows.kind != "none")

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources without duplicates, in the order of first use."""
        sources = (source for origin in self.inputs for source in origin.sources)
        return tuple(dict.fromkeys(sources))

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics without duplicates, in the order of first use."""
        return tuple(dict.fromkeys(source.topic for source in self.sources))

    @property
    def streams(self) -> tuple[int, ...]:
        """The index of each input's stream in a cogroup, from 0. Merged inputs share an index."""
        return tuple(origin.stream for origin in self.inputs)

    @property
    def reads_stores(self) -> tuple[Source, ...]:
        """The sources that are final rows of other stores."""
        return tuple(source for source in self.sources if source.store_name)

    @property
    def key_type(self) -> KeyType:
        """The type of the keys, which is the same for all inputs."""
        return self.inputs[0].key_type

    @property
    def kind(self) -> str:
        """The windows, and the options that are not the default, for ``describe``."""
        return ", ".join([
            "no windows" if self.windows.kind == "none" else str(self.windows),
            *([] if self.emit == EmitStrategy.on_window_update() else [self.emit.name]),
            *([] if self.retention_ms is None else [f"retention_ms={self.retention_ms}"]),
            *(["final_table"] if self.final_table else []),
            *(["mergeable"] if self.mergeable else []),
            *([] if self.key_type is TEXT else [f"keys: {self.key_type.name}"]),
        ])  # fmt: skip

    @property
    def grouped_by(self) -> str:
        """The joins and groupings as text. The table records it to detect a changed topology."""
        return "; ".join(dict.fromkeys(origin.grouping for origin in self.inputs))
