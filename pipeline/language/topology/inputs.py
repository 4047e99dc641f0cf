"""The inputs of a store: sources with row-wise steps, joined by key, and grouped."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.language.topology.aggregations import Columns, Functions, verb
from oriel.pipeline.language.topology.sources import Source
from oriel.pipeline.language.topology.steps import (
    Filter,
    MapValues,
    Step,
    grouping_text,
    key_of,
)
from oriel.pipeline.windows import JoinWindows, NoWindows, TableJoin, Windows
from oriel.storage import TEXT, KeyType

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class Side:
    """One input of a join by key: a source or an upstream join, with row-wise steps.

    If ``join`` is set, the records are its results, and ``source`` is the source of its left input.
    """

    source: Source
    steps: tuple[Step, ...]
    join: "Join | None" = None

    def __str__(self) -> str:
        """Return the source, the join and the steps as text."""
        return ".".join(map(str, (_read(self), *self.steps)))

    __repr__ = __str__

    @property
    def filters_table(self) -> bool:
        """Whether it is a table with a filter that deletes rows."""
        return any(isinstance(step, Filter) and step.of_table for step in self.steps)

    @property
    def group_by(self) -> "tuple[str | Column, ...]":
        """Empty, because records are joined by their key."""
        return ()

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """Empty, because records are joined by the key as a string, whatever its parts are."""
        return ()

    @property
    def key_type(self) -> KeyType:
        """Any string, because keys of joins have no type."""
        return TEXT


@dataclass(frozen=True)
class StreamJoin:
    """A stream-stream join: results of two records within a time range."""

    left: Side
    right: Side
    how: Literal["inner", "left", "outer"]
    windows: JoinWindows

    def __str__(self) -> str:
        return f"{verb(self.how)}({self.right.source.topic!r})"


@dataclass(frozen=True)
class MergedStreams:
    """Several merged streams as one input of an outer or left join.

    A record that is later than ``allowed_lateness_ms`` finds no match in the join.
    """

    streams: tuple[Side, ...]
    allowed_lateness_ms: int

    def __str__(self) -> str:
        """Return the calls of ``merge`` after the first stream."""
        return ".".join(f"merge({stream.source.topic!r})" for stream in self.streams[1:])

    @property
    def left(self) -> Side:
        """The first stream."""
        return self.streams[0]


@dataclass(frozen=True)
class GraceBuffer:
    """Records that wait until stream time is ``grace_ms`` later, in the order of time (KIP-923)."""

    left: Side
    grace_ms: int
    right: None = None

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"buffer(grace {self.grace_ms} ms)"


@dataclass(frozen=True)
class TableLookup:
    """A stream-table join: each record with the row of its key.

    ``history_ms``: the history of a versioned table, whose row as of the record's time is joined.
    """

    left: Side
    right: Side
    how: Literal["inner", "left"]
    history_ms: int | None = None

    def __str__(self) -> str:
        history = "" if self.history_ms is None else f", history {self.history_ms} ms"
        return f"{verb(self.how)}(table {self.right.source.topic!r}{history})"


@dataclass(frozen=True)
class VersionedRecords:
    """The records of a versioned table, without records older than ``history_ms``.

    ``newest_only``: also without records that are older than the newest version of their key.
    """

    left: Side
    history_ms: int
    newest_only: bool
    right: None = None

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"versions({'newest, ' if self.newest_only else ''}history {self.history_ms} ms)"


@dataclass(frozen=True)
class TableUpdates:
    """The updates of joined tables: the joined row after each record of any table.

    ``rows`` joins the tables by their indexes. With ``by_foreign_key``, the second table is the
    ``Responses`` to the foreign keys of the first one.
    """

    tables: tuple[Side, ...]
    rows: TableJoin
    row_steps: tuple[Filter | MapValues, ...] = ()
    by_foreign_key: bool = False

    def __str__(self) -> str:
        """Return the joins and steps after the first table."""
        joins = behind_first(self.tables, self.rows)
        if self.by_foreign_key:
            joins = f"{verb(self.rows.how)}(by foreign key)."
        steps = "".join(f"{step}." for step in self.row_steps)
        return f"{joins}{steps}to_stream()"

    @property
    def left(self) -> Side:
        """The first table."""
        return self.tables[0]


@dataclass(frozen=True)
class TableChanges:
    """The changes of a table or of joined tables: the old and the new row for each record.

    ``rows`` joins the tables by their indexes. For one table, it is 0.
    """

    tables: tuple[Side, ...]
    rows: TableJoin | int = 0

    def __str__(self) -> str:
        """Return the joins after the first table."""
        return f"{behind_first(self.tables, self.rows)}changes()"

    @property
    def left(self) -> Side:
        """The first table."""
        return self.tables[0]


def behind_first(tables: tuple[Side, ...], rows: TableJoin | int) -> str:
    """Return the joins of tables after the first one, as text."""

    def text(part: TableJoin | int) -> str:
        if isinstance(part, int):
            return f"table {tables[part].source.topic!r}"
        return f"{text(part.left)}.{verb(part.how)}({text(part.right)})"

    return f"{text(rows)}.".removeprefix(f"{text(0)}.")


@dataclass(frozen=True)
class AggregateUpdates:
    """The updates of an aggregation: each record with the rows that it changes.

    ``others`` are the other inputs of a cogroup or of merged streams. With several inputs, results
    are rows and not records. ``streams`` has the index in the cogroup of each input, from 0, first
    the left one. Merged inputs share an index.
    """

    left: Side
    aggregation: Columns | Functions
    windows: Windows
    row_steps: tuple[Filter | MapValues, ...] = ()
    others: tuple[Side, ...] = ()
    streams: tuple[int, ...] = (0,)
    right: None = None

    def __str__(self) -> str:
        """Return the step as text, with the names of functions."""
        of, windows = self.aggregation, self.windows
        windowed = "" if isinstance(windows, NoWindows) else f"windowed_by({windows!r})."
        told = "".join(f".{step}" for step in (*self.row_steps, "to_stream()"))
        cogroup = f"cogroup({', '.join(f'stream {n + 1}' for n in self.streams)})."
        windowed = f"{cogroup if any(self.streams) else ''}{windowed}"
        if not isinstance(of, Functions):
            return f"{windowed}aggregate({of}){told}"
        schemas = () if of.schema is None else (f"schema {of.schema}",)
        return f"{windowed}{of.step}({', '.join((*of.names, *schemas))}){told}"

    @property
    def makes_elements(self) -> bool:
        """Whether a record can change several rows."""
        return self.windows.rule.changes_several


@dataclass(frozen=True)
class Subscriptions:
    """Subscriptions of a foreign-key join (KIP-213): the right key of each left row.

    The last step of the input computes the foreign key. This input only feeds subscriptions.
    Another input reads the left table again, produces its rows and counts its records. ``each``:
    one subscription per record instead of one per batch.
    """

    left: Side
    right: None = None
    each: bool = False

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"subscriptions({'each' if self.each else ''})"


@dataclass(frozen=True)
class Responses:
    """The rows of the right table for each subscription, with the key of the left row.

    ``each``: after each record instead of after each batch.
    """

    left: Side
    right: Side
    each: bool = False

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"rows({'each, ' if self.each else ''}table {self.right.source.topic!r})"


Join = (
    StreamJoin
    | MergedStreams
    | GraceBuffer
    | TableLookup
    | VersionedRecords
    | TableUpdates
    | TableChanges
    | AggregateUpdates
    | Subscriptions
    | Responses
)


def side_of(origin: "Input") -> Side:
    """Return a stream or a table as an input of a join."""
    return Side(origin.source, origin.steps, origin.join)


def sides_of(join: Join) -> tuple[Side, ...]:
    """Return the inputs of a join, first the left one. Some joins have only one."""
    if isinstance(join, TableUpdates | TableChanges):
        return join.tables
    if isinstance(join, MergedStreams):
        return join.streams
    if isinstance(join, AggregateUpdates):
        return (join.left, *join.others)
    return (join.left,) if join.right is None else (join.left, join.right)


@dataclass(frozen=True, repr=False)
class Input:
    """One stream that a store aggregates, grouped by ``group_by`` (empty: by its key).

    If ``join`` is set, the records are its results, and ``source`` is the source of its left input.
    ``stream`` is the index in a cogroup, from 0. Merged streams share an index. ``key_type`` is the
    type of the store's keys.
    """

    source: Source
    steps: tuple[Step, ...]
    group_by: tuple["str | Column", ...]
    join: Join | None = None
    stream: int = 0
    key_type: KeyType = TEXT

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """The expressions of the key, of the grouping or of a step. Empty for the topic's key."""
        return self.group_by or key_of(_steps_in_front(self))

    def __str__(self) -> str:
        """Return the stream as text, with all inputs of its joins."""
        grouped = f"group_by({grouping_text(self.group_by)})" if self.group_by else "group_by_key()"
        return ".".join(map(str, (_read(self), *self.steps, grouped)))

    __repr__ = __str__

    @property
    def grouping(self) -> str:
        """The joins and the grouping as text. Different joins have different texts."""
        grouped = grouping_text(self.group_by)
        return grouped if self.join is None else f"{_joins_text(self.join)}: {grouped}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are read for this input."""
        return tuple(side.source for side, _ in self.read_sides)

    @property
    def read_sides(self) -> "tuple[tuple[Side, Join | None], ...]":
        """The sources of this input with their steps, first the left one, each with its join."""
        return _read_sides(Side(self.source, self.steps, self.join), None)


def _read(stream: Side | Input) -> str:
    """Return the source of a stream, or its join with all inputs."""
    join = stream.join
    if join is None:
        return str(stream.source)
    left, *others = sides_of(join)
    of_others = f" of {', '.join(f'({side})' for side in others)}" if others else ""
    return f"({left}).{join}{of_others}"


def _read_sides(side: Side, join: Join | None) -> tuple[tuple[Side, Join | None], ...]:
    if side.join is None:
        return ((side, join),)
    sides = (_read_sides(each, side.join) for each in sides_of(side.join))
    return tuple(read for of_side in sides for read in of_side)


def _steps_in_front(stream: Side | Input) -> tuple[Step, ...]:
    """Return all steps of a stream, through joins by the left input, which has its key."""
    return (*(_steps_in_front(stream.join.left) if stream.join else ()), *stream.steps)


def pairing_join(stream: Side | Input) -> Join | None:
    """Return the join that creates the records of a stream, or None for records of a source.

    Joins with tables and updates of an aggregation keep the records of their source. An aggregation
    of several streams creates new ones.
    """
    join = stream.join
    if isinstance(join, TableLookup | VersionedRecords) or (
        isinstance(join, AggregateUpdates) and not join.others
    ):
        return pairing_join(join.left)
    return join


def _joins_text(join: Join) -> str:
    """Return a join as the table of a store keeps it, after its upstream joins."""
    texts = [_joins_text(side.join) for side in sides_of(join) if side.join is not None]
    behind = pairing_join(sides_of(join)[-1])
    if isinstance(behind, StreamJoin | MergedStreams) and len(sides_of(join)) > 1:
        # Without parentheses, nested joins and a chain of joins have the same text.
        texts[-1] = f"({texts[-1]})"
    within = ""
    if isinstance(join, StreamJoin):
        windows = join.windows
        within = (
            f" within -{windows.before_ms} and +{windows.after_ms} ms, grace {windows.grace_ms} ms"
        )
    if isinstance(join, MergedStreams):
        within = f" up to {join.allowed_lateness_ms} ms late"
    return ".".join([*texts, f"{join}{within}"])
