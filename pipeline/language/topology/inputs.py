"""What a store reads: sources with row-wise steps, joined by key, and grouped."""

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
    """One side of a join: a source, or a join in front, with row-wise steps; joined by key.

    With ``join`` the records are that join's results, and ``source`` is its left side's.
    """

    source: Source
    steps: tuple[Step, ...]
    join: "Join | None" = None

    def __str__(self) -> str:
        """The side as it is written."""
        return ".".join(map(str, (_read(self), *self.steps)))

    __repr__ = __str__

    @property
    def filters_table(self) -> bool:
        """Whether it is a table that a filter leaves rows out of."""
        return any(isinstance(step, Filter) and step.of_table for step in self.steps)

    @property
    def group_by(self) -> "tuple[str | Column, ...]":
        """Empty: the record's own key."""
        return ()

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """Empty, too: what is joined is a text, whatever it is made of."""
        return ()

    @property
    def key_type(self) -> KeyType:
        """Any text: what is joined has no type."""
        return TEXT


@dataclass(frozen=True)
class StreamJoin:
    """Pairs of records of two streams within a time range."""

    left: Side
    right: Side
    how: Literal["inner", "left", "outer"]
    windows: JoinWindows

    def __str__(self) -> str:
        """The step as it is written."""
        return f"{verb(self.how)}({self.right.source.topic!r})"


@dataclass(frozen=True)
class MergedStreams:
    """Records of several streams as those of one, as a side of a join in which some stay alone.

    Those that are later than ``allowed_lateness_ms`` pair with nothing behind it.
    """

    streams: tuple[Side, ...]
    allowed_lateness_ms: int

    def __str__(self) -> str:
        """The step as it is written behind the first stream."""
        return ".".join(f"merge({stream.source.topic!r})" for stream in self.streams[1:])

    @property
    def left(self) -> Side:
        """The first stream."""
        return self.streams[0]


@dataclass(frozen=True)
class GraceBuffer:
    """Records of a stream that go on once its clock is ``grace_ms`` further, in order of time."""

    left: Side
    grace_ms: int
    right: None = None

    def __str__(self) -> str:
        """The step, for who reads a topology."""
        return f"buffer(grace {self.grace_ms} ms)"


@dataclass(frozen=True)
class TableLookup:
    """Each record of a stream with the row that a table has for its key.

    ``history_ms``: it is the row as of the record's time, of a table that keeps so much history.
    """

    left: Side
    right: Side
    how: Literal["inner", "left"]
    history_ms: int | None = None

    def __str__(self) -> str:
        """The step as it is written."""
        history = "" if self.history_ms is None else f", history {self.history_ms} ms"
        return f"{verb(self.how)}(table {self.right.source.topic!r}{history})"


@dataclass(frozen=True)
class VersionedRecords:
    """The records of a table that keeps ``history_ms`` of history, without those that are later.

    ``newest_only``: nor those that are older than what their key has.
    """

    left: Side
    history_ms: int
    newest_only: bool
    right: None = None

    def __str__(self) -> str:
        """The step, for who reads a topology."""
        return f"versions({'newest, ' if self.newest_only else ''}history {self.history_ms} ms)"


@dataclass(frozen=True)
class TableUpdates:
    """The row of joined ``tables`` after each record of any; ``rows`` joins them by number.

    ``by_foreign_key``: the second one are ``Responses`` to the keys that the first one's rows name.
    """

    tables: tuple[Side, ...]
    rows: TableJoin
    row_steps: tuple[Filter | MapValues, ...] = ()
    by_foreign_key: bool = False

    def __str__(self) -> str:
        """The steps as they are written, behind the first table."""
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
    """What each record changes of a table, or of several that are joined: the old and the new row.

    ``rows`` joins the ``tables`` by their numbers; of one table it is 0.
    """

    tables: tuple[Side, ...]
    rows: TableJoin | int = 0

    def __str__(self) -> str:
        """The steps, as ``TableUpdates`` has them."""
        return f"{behind_first(self.tables, self.rows)}changes()"

    @property
    def left(self) -> Side:
        """The first table."""
        return self.tables[0]


def behind_first(tables: tuple[Side, ...], rows: TableJoin | int) -> str:
    """The joins of tables as they are written behind the first one, which stands in front."""

    def text(part: TableJoin | int) -> str:
        if isinstance(part, int):
            return f"table {tables[part].source.topic!r}"
        return f"{text(part.left)}.{verb(part.how)}({text(part.right)})"

    return f"{text(rows)}.".removeprefix(f"{text(0)}.")


@dataclass(frozen=True)
class AggregateUpdates:
    """Each record of a stream with the row that an aggregation has behind it, or the rows.

    ``others`` are the further sides where it aggregates several. Then results are the rows that
    records of any of them tell, and no records. ``streams`` says of each side, the left one first,
    which stream of a cogroup it is, from 0; merged ones are one.
    """

    left: Side
    aggregation: Columns | Functions
    windows: Windows
    row_steps: tuple[Filter | MapValues, ...] = ()
    others: tuple[Side, ...] = ()
    streams: tuple[int, ...] = (0,)
    right: None = None

    def __str__(self) -> str:
        """The step as it is written; of functions the names."""
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
        """Whether a record may change several rows."""
        return self.windows.rule.changes_several


@dataclass(frozen=True)
class Subscriptions:
    """Whose row each row of a table names by its foreign key, the last of the side's steps.

    The side is read for this alone: another input of the store, or another side, is the table, and
    tells of its records what is to be told. ``each``: of each record, not of what a batch has done.
    """

    left: Side
    right: None = None
    each: bool = False

    def __str__(self) -> str:
        """The step, for who reads a topology."""
        return f"subscriptions({'each' if self.each else ''})"


@dataclass(frozen=True)
class Responses:
    """The row of a table for each subscription to its key, under the key that subscribes.

    ``each``: after each record, not after a batch.
    """

    left: Side
    right: Side
    each: bool = False

    def __str__(self) -> str:
        """The step, for who reads a topology."""
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
    """A stream or a table as one side of a join."""
    return Side(origin.source, origin.steps, origin.join)


def sides_of(join: Join) -> tuple[Side, ...]:
    """The sides of a join, the left one first; what reads one table has one."""
    if isinstance(join, TableUpdates | TableChanges):
        return join.tables
    if isinstance(join, MergedStreams):
        return join.streams
    if isinstance(join, AggregateUpdates):
        return (join.left, *join.others)
    return (join.left,) if join.right is None else (join.left, join.right)


@dataclass(frozen=True, repr=False)
class Input:
    """One stream that a store aggregates, grouped by ``group_by`` (empty: the record's own key).

    With ``join`` the records are the join's results, and ``source`` is its left side's. ``stream``
    is which stream of a store's cogroup it is, from 0; merged streams are one. ``key_type`` is what
    the store's keys are.
    """

    source: Source
    steps: tuple[Step, ...]
    group_by: tuple["str | Column", ...]
    join: Join | None = None
    stream: int = 0
    key_type: KeyType = TEXT

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """What the key is made of, by the grouping or a step; empty: the record's own key."""
        return self.group_by or key_of(_steps_in_front(self))

    def __str__(self) -> str:
        """The stream as it is written, a joined one with both sides."""
        grouped = f"group_by({grouping_text(self.group_by)})" if self.group_by else "group_by_key()"
        return ".".join(map(str, (_read(self), *self.steps, grouped)))

    __repr__ = __str__

    @property
    def grouping(self) -> str:
        """How the records are joined and grouped; another join is another text."""
        grouped = grouping_text(self.group_by)
        return grouped if self.join is None else f"{_joins_text(self.join)}: {grouped}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are read for this input."""
        return tuple(side.source for side, _ in self.read_sides)

    @property
    def read_sides(self) -> "tuple[tuple[Side, Join | None], ...]":
        """What is read for this input, left first, each with the join that it is a side of."""
        return _read_sides(Side(self.source, self.steps, self.join), None)


def _read(stream: Side | Input) -> str:
    """What stands in front of the steps of a stream, a join with all sides."""
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
    """The steps on the way of a stream's records; through joins by the left side, as its key."""
    return (*(_steps_in_front(stream.join.left) if stream.join else ()), *stream.steps)


def pairing_join(stream: Side | Input) -> Join | None:
    """The join whose results a stream's records are, if they are any.

    None: they are records of a source; what they look up in tables, or an aggregation makes of
    them, only gives them other columns. (But one of several streams makes rows of its own.)
    """
    join = stream.join
    if isinstance(join, TableLookup | VersionedRecords) or (
        isinstance(join, AggregateUpdates) and not join.others
    ):
        return pairing_join(join.left)
    return join


def _joins_text(join: Join) -> str:
    """A join as a store's table remembers it, behind those in front of it."""
    texts = [_joins_text(side.join) for side in sides_of(join) if side.join is not None]
    behind = pairing_join(sides_of(join)[-1])
    if isinstance(behind, StreamJoin | MergedStreams) and len(sides_of(join)) > 1:
        # Else joins one behind the other would have the same text.
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
