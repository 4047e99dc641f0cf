"""The nodes that the calls of a topology create.

A ``Node`` is a stream or a table. It has an operation, and the row-wise steps after it. An
operation has nodes as children. Nodes have what the checks of later calls need, but no plan.
``oriel.pipeline.lowered`` lowers them to the inputs and joins that the pipeline runs. Nodes are
compared by identity, because a call that is repeated creates another node.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.language import lowered_texts
from oriel.pipeline.language.topology.aggregations import Aggregation
from oriel.pipeline.language.topology.schema_texts import schema_text
from oriel.pipeline.language.topology.sources import Source
from oriel.pipeline.language.topology.steps import Filter, MapValues, Step, key_of, short_name
from oriel.pipeline.windows import (
    Aggregate,
    EmitStrategy,
    JoinWindows,
    NoWindows,
    OnTimer,
    Processor,
    VersionWindows,
    Windows,
)

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, eq=False, repr=False)
class Node:
    """A stream or a table: an operation, with row-wise steps after it.

    Attributes:
        operation: The operation.
        steps: The row-wise steps.
        group_by: The expressions of the grouping. Empty: the records are grouped by their key.
    """

    operation: "Operation"
    steps: tuple[Step, ...] = ()
    group_by: tuple["str | Column", ...] = ()

    def __repr__(self) -> str:
        """Return the calls that created the node, for messages."""
        return lowered_texts.node_text(self)

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """The expressions of the key, of the grouping or of a step. Empty for the topic's key."""
        own = self.group_by or key_of(self.steps)
        first = self.operation.children[:1]
        return own or tuple(chain(*(child.key_columns for child in first)))

    @property
    def emits_rows(self) -> bool:
        """Whether it is the updates of an aggregation or of joined tables, as its rows."""
        return self.operation.emits_rows or self.operation.creator.creates_updates

    @property
    def became_table(self) -> bool:
        """Whether a stream became this table. Filters of a topic's table delete rows."""
        is_filtered = any(step.filters and not step.deletes_rows for step in self.steps)
        return is_filtered or self.operation.returns_stream

    @property
    def tables(self) -> "tuple[Node, ...]":
        """The tables whose rows a store of it joins, by their keys. Usually only itself."""
        return self.operation.tables if self.operation.joins_rows else (self,)

    @property
    def inputs(self) -> "tuple[Node, ...]":
        """The nodes that a store of the table reads."""
        return (self,)

    @property
    def windows(self) -> Windows:
        """The windows of its rows: a table does not have windows."""
        return NoWindows()


class Operation(ABC):
    """A call that is not row-wise: its children, and what later calls need to know about it."""

    #: True if its records are the updates of the rows of a table.
    emits_rows: bool = False
    #: True if its records are new updates of several logs.
    creates_updates: bool = False
    #: True if its records are the records of its first child with other columns.
    keeps_records: bool = False
    #: True if its records are a topic's stream, also if it is joined with a table.
    returns_stream: bool = False
    #: True if its records are in another order than those of its first child.
    reorders: bool = False
    #: True if its records are results of two streams.
    is_pair: bool = False
    #: True if a store can compute the joined rows without the updates of the tables.
    joins_rows: bool = False
    #: True if a joined row can exist without a row of the first table.
    has_unmatched_rows: bool = False
    #: The tables whose rows a store joins, if ``joins_rows`` is True.
    tables: tuple[Node, ...] = ()

    @property
    @abstractmethod
    def children(self) -> tuple[Node, ...]:
        """The nodes that it reads, first the left one."""

    @property
    def source(self) -> Source:
        """The first source that it reads."""
        return self.children[0].operation.source

    @property
    def sources(self) -> tuple[Source, ...]:
        """All sources that it reads, with duplicates, first the left ones."""
        return tuple(chain(*(child.operation.sources for child in self.children)))

    @property
    def creator(self) -> "Operation":
        """The operation that creates its records. A join with a table keeps those of the stream."""
        return self.children[0].operation.creator if self.keeps_records else self

    @property
    def expires(self) -> bool:
        """Whether the keys of the table expire (``ttl_ms``)."""
        return self.keeps_records and self.children[0].operation.expires

    @cached_property
    def fan_outs(self) -> int:
        """The number of nested foreign-key joins whose updates one record can fan out through."""
        return max((child.operation.fan_outs for child in self.children), default=0)


@dataclass(frozen=True)
class Read(Operation):
    """The records of a topic, or the final rows of a store. Equal sources are one operation."""

    topic: Source
    children = ()

    @property
    def source(self) -> Source:
        return self.topic

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.topic,)

    @property
    def returns_stream(self) -> bool:  # type: ignore[override]
        return self.topic.step == "stream"


@dataclass(frozen=True, eq=False)
class StreamPair(Operation):
    """A join of two streams within a time range.

    Attributes:
        left: The left stream. Several merged streams are one input of the join.
        right: The right stream.
        how: The kind of the join.
        windows: The join windows.
    """

    is_pair = True

    left: tuple[Node, ...]
    right: tuple[Node, ...]
    how: Literal["inner", "left", "outer"]
    windows: JoinWindows

    @property
    def children(self) -> tuple[Node, ...]:
        return *self.left, *self.right


@dataclass(frozen=True, eq=False)
class TableLookup(Operation):
    """A join of a stream with a table.

    Attributes:
        stream: The stream.
        table: The table, or its updates.
        how: The kind of the join.
        key: The key of the row of a global table. None: the key of the record.
        history_ms: The history of a versioned table. None: the table has no versions.
        grace_ms: How long a record waits for a versioned table. None: no wait.
    """

    returns_stream = True

    stream: Node
    table: Node
    how: Literal["inner", "left"]
    key: "str | Column | None" = None
    history_ms: int | None = None
    grace_ms: int | None = None

    @property
    def children(self) -> tuple[Node, ...]:
        return self.stream, self.table

    @property
    def keeps_records(self) -> bool:  # type: ignore[override]
        return self.grace_ms is None

    @property
    def reorders(self) -> bool:  # type: ignore[override]
        return self.grace_ms is not None


@dataclass(frozen=True, eq=False)
class Distinct(Operation):
    """The records of a stream without duplicates.

    Attributes:
        stream: The stream.
        by: The columns whose values are equal in duplicates, in addition to the key.
        within_ms: How far apart the times of duplicates are at most, in milliseconds.
        grace_ms: How much older than stream time a record can be, in milliseconds.
    """

    keeps_records = returns_stream = True

    stream: Node
    by: tuple[str, ...]
    within_ms: int
    grace_ms: int

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.stream,)


@dataclass(frozen=True)
class Processing:
    """The functions of ``process``.

    Attributes:
        function: The function of records.
        schema: The columns of the rows as Spark DDL.
        state: The columns of the state of a key as Spark DDL. None: no state.
        on_timer: The function of timers. None: no timers.
    """

    function: Processor
    schema: str
    state: str | None = None
    on_timer: OnTimer | None = None

    def __str__(self) -> str:
        """Return the call, with the names of the functions."""
        timer = [] if self.on_timer is None else [f"on_timer={short_name(self.on_timer)}"]
        state = [] if self.state is None else [f"state={schema_text(self.state)!r}"]
        arguments = [short_name(self.function), f"schema={schema_text(self.schema)!r}"]
        return f"process({', '.join([*arguments, *state, *timer])})"


@dataclass(frozen=True, eq=False)
class Process(Operation):
    """The rows of functions that process the records and the timers of each key.

    Attributes:
        stream: The stream.
        processing: The functions.
    """

    returns_stream = reorders = True

    stream: Node
    processing: Processing

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.stream,)


@dataclass(frozen=True, eq=False)
class Expiry(Operation):
    """The records of a table, and the removals of its expired keys.

    Attributes:
        table: The table.
        ttl_ms: How much older than stream time a row becomes before it is removed.
    """

    reorders = expires = True

    table: Node
    ttl_ms: int

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.table,)


@dataclass(frozen=True, eq=False)
class Versions(Operation):
    """The records of a versioned table that are not late.

    Attributes:
        table: The table.
        history_ms: Its history.
        newest_only: Whether records that are older than the row of their key are left out.
    """

    keeps_records = True

    table: Node
    history_ms: int
    newest_only: bool

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.table,)


@dataclass(frozen=True, eq=False)
class Late(Operation):
    """The records of a grouped stream that missed a window.

    Attributes:
        grouped: The grouped stream.
        windows: The windows.
    """

    keeps_records = returns_stream = True

    grouped: Node
    windows: Windows

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.grouped,)


@dataclass(frozen=True, eq=False)
class TableHistory:
    """The versions of a versioned table, as the rows of a store.

    Attributes:
        table: The table.
        history_ms: Its history.
    """

    table: Node
    history_ms: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The node that it reads."""
        return (self.table,)

    @property
    def windows(self) -> Windows:
        """The versions as windows."""
        return VersionWindows(self.history_ms)


@dataclass(frozen=True, eq=False)
class TablePair(Operation):
    """A join of two tables, by key or by a foreign key.

    Attributes:
        left: The left table.
        right: The right table.
        how: The kind of the join.
        foreign_key: The expressions of the foreign key. Empty: the tables are joined by key.
    """

    emits_rows = creates_updates = True

    left: Node
    right: Node
    how: Literal["inner", "left", "outer"]
    foreign_key: tuple["str | Column", ...] = ()

    @property
    def children(self) -> tuple[Node, ...]:
        return self.left, self.right

    @cached_property
    def joins_rows(self) -> bool:  # type: ignore[override]
        """Whether the rows depend only on the logs, so that a store needs no updates.

        For a foreign key, the first table must have rows of a topic, and the right table must not
        be joined.
        """
        if not self.foreign_key:
            return True
        left, right = self.left.operation, self.right.operation
        has_topic_rows = not self.left.tables[0].emits_rows and not left.has_unmatched_rows
        return has_topic_rows and not right.joins_rows

    @property
    def has_unmatched_rows(self) -> bool:  # type: ignore[override]
        return self.joins_rows and (self.how == "outer" or self.left.operation.has_unmatched_rows)

    @property
    def tables(self) -> tuple[Node, ...]:  # type: ignore[override]
        # With a foreign key, the right rows have the keys of the first left table.
        right = self.left.tables[:1] if self.foreign_key else self.right.tables
        return *self.left.tables, *right

    @cached_property
    def fan_outs(self) -> int:
        # A right record updates all left rows that reference it, and the rows that reference these.
        left, right = self.left.operation.fan_outs, self.right.operation.fan_outs
        return max(left, right + bool(self.foreign_key))


@dataclass(frozen=True, eq=False)
class JoinUpdates(Operation):
    """The updates of joined tables: the joined row after each record of any table."""

    emits_rows = creates_updates = True

    table: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.table,)


@dataclass(frozen=True, eq=False)
class RowStep(Operation):
    """A step of the rows of a joined or aggregated table, before its updates are emitted.

    The update of a filter depends on the row before, which only the table's operator has.
    """

    emits_rows = keeps_records = True

    table: Node
    step: Filter | MapValues

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.table,)


@dataclass(frozen=True, eq=False)
class RowChanges(Operation):
    """The old and the new row of each change of a table, for ``group_by``."""

    table: Node

    @property
    def children(self) -> tuple[Node, ...]:
        return (self.table,)

    @property
    def creates_updates(self) -> bool:  # type: ignore[override]
        return self.table.operation.joins_rows or self.table.emits_rows


@dataclass(frozen=True, eq=False)
class AggregationUpdates(Operation):
    """The updates of an aggregation."""

    emits_rows = True

    rows: "Rows"

    @property
    def children(self) -> tuple[Node, ...]:
        return self.rows.inputs

    @property
    def expires(self) -> bool:
        return self.rows.ttl_ms is not None or super().expires

    @property
    def keeps_records(self) -> bool:  # type: ignore[override]
        return len(self.children) == 1

    @property
    def creates_updates(self) -> bool:  # type: ignore[override]
        return not self.keeps_records


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows(ABC):
    """The rows of an aggregation.

    Attributes:
        emit: The emit strategy.
        row_steps: The steps between the aggregation and the table.
        ttl_ms: How much older than stream time a row becomes before it is removed. None: rows
            never expire.
    """

    emit: EmitStrategy
    row_steps: tuple[Filter | MapValues, ...] = ()
    ttl_ms: int | None = None
    #: The windows, or ``NoWindows``.
    windows: Windows

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that it aggregates."""

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """The columns with named aggregates. Empty for functions."""

    @property
    def aggregates(self) -> list[Aggregate]:
        """The named aggregates. Empty for functions and joins."""
        return []

    @property
    def has_steps(self) -> bool:
        """Whether its rows have steps or are joined."""
        return bool(self.row_steps)


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregated(Rows):
    """An aggregation of one stream, of a cogroup, or of a grouped table.

    Attributes:
        streams: The nodes of each stream. Only a merged stream has several nodes.
        aggregation: The named aggregates or the functions.
    """

    streams: tuple[tuple[Node, ...], ...]
    aggregation: Aggregation

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(chain(*self.streams))

    @property
    def columns(self) -> list[str]:
        return self.aggregation.columns

    @property
    def aggregates(self) -> list[Aggregate]:
        return [each for named in self.aggregation.aggregates for each in named.values()]


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedWindows(Rows):
    """A join of two aggregations by key and window.

    Attributes:
        left: The left aggregation.
        right: The right aggregation, which has the same windows.
        how: The kind of the join.
    """

    left: Rows
    right: Rows
    how: Literal["inner", "left", "outer"]
    has_steps = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        return *self.left.inputs, *self.right.inputs

    @property
    def columns(self) -> list[str]:
        return [*self.left.columns, *self.right.columns]
