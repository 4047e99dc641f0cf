"""The inputs of a store: sources with row-wise steps, joined by key, and grouped."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, ClassVar, Literal, cast

from oriel.pipeline.language import (
    SCOPE_COLUMNS,
    Columns,
    Filter,
    Functions,
    MapValues,
    Source,
    Step,
    flattens,
    grouping_text,
    key_of,
    verb,
)
from oriel.pipeline.windows import (
    RIGHT,
    JoinWindows,
    Lineage,
    TableJoin,
    Windows,
    merged_lineage,
)
from oriel.storage import TEXT, KeyType

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, repr=False)
class Input:
    """One input of a store or of a join: a source or an upstream join, with row-wise steps.

    Attributes:
        source: The source. For results of a join, the source of its left input.
        steps: The row-wise steps.
        group_by: The expressions of the grouping. Empty: the records are grouped by their key.
        join: The upstream join, or None for records of a source.
        stream: The index in a cogroup, from 0. Merged streams share an index.
        key_type: The type of the store's keys. Keys of joins are strings.
        is_grouped: True for an input of a store. A join uses the keys of its records.
    """

    source: Source
    steps: tuple[Step, ...]
    group_by: tuple["str | Column", ...] = ()
    join: "Join | None" = None
    stream: int = 0
    key_type: KeyType = TEXT
    is_grouped: bool = field(default=True, compare=False)
    #: See ``AggregatedRows``.
    are_rows: ClassVar[bool] = False

    @property
    def input_text(self) -> str:
        """The name of the source in messages."""
        return str(self.source)

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns that expressions can read in addition to the columns of the value."""
        return SCOPE_COLUMNS

    @property
    def filters_table(self) -> bool:
        """Whether it is a table with a filter that deletes rows."""
        return any(step.deletes_rows for step in self.steps)

    @property
    def key_columns(self) -> "tuple[str | Column, ...]":
        """The expressions of the key, of the grouping or of a step. Empty for the topic's key."""
        if not self.is_grouped:
            return ()
        return self.group_by or key_of(_all_steps(self))

    def __str__(self) -> str:
        """Return the stream as text, with all inputs of its joins."""
        grouped = f"group_by({grouping_text(self.group_by)})" if self.group_by else "group_by_key()"
        return ".".join(map(str, (_read(self), *self.steps, *([grouped] * self.is_grouped))))

    __repr__ = __str__

    @property
    def grouping(self) -> str:
        """The joins and the grouping as text. Different joins have different texts."""
        grouped = grouping_text(self.group_by)
        return grouped if self.join is None else f"{self.join.text}: {grouped}"

    @property
    def lineage(self) -> Lineage:
        """The form of the lineages of its records."""
        before = self.lineage_before_steps
        return before.extended() if flattens(self.steps) else before

    @property
    def lineage_before_steps(self) -> Lineage:
        """The form of the lineages of the records that its steps read."""
        return Lineage() if self.join is None else self.join.lineage

    @property
    def flattened_lineage(self) -> Lineage | None:
        """The form of lineages before records are flattened, or None without flattening."""
        return self.lineage_before_steps if flattens(self.steps) else None

    @property
    def creating_join(self) -> "Join | None":
        """The join that creates its records, or None for records of a source.

        Joins with tables and updates of an aggregation keep the records of their source.
        """
        if self.join is not None and self.join.keeps_records:
            return self.join.left.creating_join
        return self.join

    @property
    def has_flattened(self) -> bool:
        """Whether its records are flattened records, before or after a join with a table.

        Updates are also flattened records if a record can change several rows.
        """
        return self.creating_join is None and self.lineage.length > 0

    @property
    def is_one_stream(self) -> bool:
        """Whether its records are from one stream, with one order and one stream time."""
        join = self.creating_join
        return join is None or (join.reorders and join.left.is_one_stream)

    @property
    def are_updates(self) -> bool:
        """Whether its records are updates or changes of several logs, in their own apply order.

        Changes of an aggregation are included, because its rows are merged from all partitions.
        """
        join = self.creating_join
        return join is not None and join.follows_each_record and join.has_several_logs

    @property
    def has_apply_order(self) -> bool:
        """Whether the apply order of its records differs from their positions in the log."""
        join = self.creating_join
        return self.are_updates or (join is not None and join.reorders)

    @property
    def emits_rows(self) -> bool:
        """Whether it is the updates of an aggregation or of joined tables.

        The last update of a key in apply order is its row. Results of later joins with tables are
        included.
        """
        return (self.join is not None and self.join.emits_rows) or self.are_updates

    @property
    def expires(self) -> bool:
        """Whether its keys expire, so that null values remove them from the state."""
        join = self.creating_join
        return join is not None and join.expires_keys

    @property
    def became_table(self) -> bool:
        """Whether a stream became this table. Filters of a topic's table delete rows."""
        is_filtered = any(step.filters and not step.deletes_rows for step in self.steps)
        is_read = self.join is None and self.source.step == "stream"
        return is_filtered or is_read or (self.join is not None and self.join.returns_stream)

    @property
    def is_aggregated(self) -> bool:
        """Whether it is the updates of an aggregation, also after a join with a table."""
        join = self.join
        if join is None:
            return False
        return join.aggregates or (join.returns_stream and join.left.is_aggregated)

    @property
    def fan_outs(self) -> int:
        """The number of nested foreign-key joins that one record can fan out through."""
        return 0 if self.join is None else self.join.fan_outs

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are read for this input."""
        return tuple(side.source for side, _ in self.read_inputs)

    @property
    def read_inputs(self) -> "tuple[tuple[Input, Join | None], ...]":
        """The sources of this input with their steps, first the left one, each with its join."""
        return _read_sides(as_join_input(self), None)


class Join(ABC):
    """A node with inputs: a join, or another operator before a store."""

    #: The first input.
    left: Input
    #: The steps of the rows of a table, before its updates are emitted.
    row_steps: tuple[Filter | MapValues, ...] = ()
    #: True if the results follow each record of tables or of updates.
    follows_each_record: bool = False
    #: True if the results are updates, and the last update of a key in apply order is its row.
    emits_rows: bool = False
    #: True if its text needs parentheses in the text of a later join.
    is_pair: bool = False
    #: True if its results are in another order than its records.
    reorders: bool = False
    #: True if records wait in it for a join with a table.
    is_buffer: bool = False
    #: True if the results are the records of a stream, which can be joined with a table.
    returns_stream: bool = False
    #: True if the results are the old and the new row of each change.
    are_changes: bool = False
    #: True if the results are updates of an aggregation.
    aggregates: bool = False
    #: True if the rows of an aggregation have windows.
    is_windowed: bool = False
    #: True if the results are messages within a foreign-key join.
    is_between_tables: bool = False
    #: True if the results are the records of all inputs.
    merges: bool = False
    #: True if it removes keys without new records (``ttl_ms``).
    expires_keys: bool = False

    @property
    @abstractmethod
    def inputs(self) -> tuple[Input, ...]:
        """All inputs, first the left one."""

    @property
    @abstractmethod
    def lineage(self) -> Lineage:
        """The form of the lineages of the results."""

    @property
    def keeps_records(self) -> bool:
        """Whether the results are the records of the left input with other columns."""
        return False

    @property
    def has_removals(self) -> bool:
        """Whether a record with a null value removes the earlier records of its key."""
        return False

    @property
    def log_inputs(self) -> tuple[Input, ...]:
        """The inputs whose logs the results are from, in order."""
        return self.inputs

    @property
    def has_several_logs(self) -> bool:
        """Whether the results are updates of several logs, if they follow each record."""
        return True

    @property
    def fan_outs(self) -> int:
        """The number of nested foreign-key joins that one record can fan out through."""
        return max(each.fan_outs for each in self.inputs)

    @property
    def changes_of(self) -> Input | None:
        """The table, if the join only computes its old and new rows. Usually None."""
        return None

    def needs_old_rows(self, *, needs_old: bool) -> bool:
        """Return whether it needs the old rows of joined tables.

        ``needs_old``: a later operator needs the old rows of the results.
        """
        return needs_old

    def inputs_with_old_rows(self, *, needs_old: bool) -> tuple[bool, ...]:
        """Return for each input whether its old rows are needed, as in Kafka (decision 0068).

        A stream that became a table has its old rows itself.
        """
        del needs_old
        return (False,) * len(self.inputs)

    def all_inputs_with_old_rows(self) -> tuple[bool, ...]:
        """Return ``inputs_with_old_rows`` for the case that all old rows are needed."""
        return tuple(not each.became_table for each in self.inputs)

    @property
    def limits_text(self) -> str:
        """The limits in time, which the table of a store keeps after the text of the join."""
        return ""

    @property
    def text(self) -> str:
        """The join with all upstream joins, as the table of a store keeps it."""
        texts = [each.join.text for each in self.inputs if each.join is not None]
        last = self.inputs[-1].creating_join
        if last is not None and last.is_pair and len(self.inputs) > 1:
            # Without parentheses, nested joins and a chain of joins have the same text.
            texts[-1] = f"({texts[-1]})"
        return ".".join([*texts, f"{self}{self.limits_text}"])


@dataclass(frozen=True)
class StreamJoin(Join):
    """A stream-stream join: results of two records within a time range."""

    is_pair = True

    left: Input
    right: Input
    how: Literal["inner", "left", "outer"]
    windows: JoinWindows

    def __str__(self) -> str:
        return f"{verb(self.how)}({self.right.source.topic!r})"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.left, self.right

    @property
    def lineage(self) -> Lineage:
        return self.left.lineage.joined(self.right.lineage, has_left=self.how != "outer")

    @property
    def log_inputs(self) -> tuple[Input, ...]:
        # An unmatched right record of an outer join has no left record.
        return self.inputs if self.how == "outer" else (self.left,)

    @property
    def limits_text(self) -> str:
        before, after, grace = self.windows.before_ms, self.windows.after_ms, self.windows.grace_ms
        return f" within -{before} and +{after} ms, grace {grace} ms"


@dataclass(frozen=True)
class MergedStreams(Join):
    """Several merged streams as one input of an outer or left join.

    A record that is later than ``allowed_lateness_ms`` finds no match in the join.
    """

    is_pair = merges = True

    streams: tuple[Input, ...]
    allowed_lateness_ms: int

    def __str__(self) -> str:
        """Return the calls of ``merge`` after the first stream."""
        return ".".join(f"merge({stream.source.topic!r})" for stream in self.streams[1:])

    @property
    def left(self) -> Input:  # type: ignore[override]
        """The first stream."""
        return self.streams[0]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.streams

    @property
    def lineage(self) -> Lineage:
        return merged_lineage([stream.lineage for stream in self.streams])

    @property
    def limits_text(self) -> str:
        return f" up to {self.allowed_lateness_ms} ms late"


@dataclass(frozen=True)
class StreamTableJoin(Join):
    """A stream-table join: each record with the row of its key.

    Attributes:
        left: The stream.
        right: The table.
        how: The kind of the join.
        history_ms: The history of a versioned table. Each record is joined with the row as of its
            time. None: the table is not versioned.
    """

    returns_stream = True

    left: Input
    right: Input
    how: Literal["inner", "left"]
    history_ms: int | None = None

    def __str__(self) -> str:
        history = "" if self.history_ms is None else f", history {self.history_ms} ms"
        return f"{verb(self.how)}(table {self.right.source.topic!r}{history})"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.left, self.right

    @property
    def lineage(self) -> Lineage:
        return self.left.lineage

    @property
    def keeps_records(self) -> bool:
        return True


class JoinOfTables(Join):
    """A node whose inputs are tables. ``rows`` joins them by their indexes."""

    tables: tuple[Input, ...]
    rows: TableJoin | int

    @property
    def left(self) -> Input:  # type: ignore[override]
        """The first table."""
        return self.tables[0]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.tables

    @property
    def has_several_logs(self) -> bool:
        # The removal of an expired key is later than records with a greater offset. So the changes
        # of an expiring table need their apply order, as the changes of several logs do.
        return len(self.tables) > 1 or any(t.emits_rows or t.expires for t in self.tables)

    def inputs_with_old_rows(self, *, needs_old: bool) -> tuple[bool, ...]:
        return _tables_with_old_rows(
            self.rows, self.tables, needs_old=self.needs_old_rows(needs_old=needs_old)
        )


@dataclass(frozen=True)
class TableUpdates(JoinOfTables):
    """The updates of joined tables: the joined row after each record of any table.

    ``rows`` joins the tables by their indexes. With ``by_foreign_key``, the second table is the
    ``Responses`` to the foreign keys of the first one.
    """

    follows_each_record = emits_rows = True

    tables: tuple[Input, ...]
    rows: TableJoin
    row_steps: tuple[Filter | MapValues, ...] = ()
    by_foreign_key: bool = False

    def __str__(self) -> str:
        """Return the joins and steps after the first table."""
        joins = joins_after_first(self.tables, self.rows)
        if self.by_foreign_key:
            joins = f"{verb(self.rows.how)}(by foreign key)."
        steps = "".join(f"{step}." for step in self.row_steps)
        return f"{joins}{steps}to_stream()"

    @property
    def lineage(self) -> Lineage:
        if not self.by_foreign_key:
            return merged_lineage([table.lineage for table in self.tables])
        # A right record updates several rows.
        return merged_lineage([self.left.lineage, self.named.lineage.extended()])

    @property
    def log_inputs(self) -> tuple[Input, ...]:
        # The responses of a foreign-key join also follow records of the left table.
        return (self.left, self.named) if self.by_foreign_key else self.tables

    @property
    def responses(self) -> "Responses":
        """The responses that a foreign-key join reads."""
        responses = self.tables[RIGHT].join
        # Only ``foreign_updates`` creates such a join.
        return cast("Responses", responses)

    @property
    def named(self) -> Input:
        """The right table of a foreign-key join."""
        return self.responses.right

    @property
    def fan_outs(self) -> int:
        # A right record updates all left rows that reference it, and the rows that reference these.
        if self.by_foreign_key:
            return max(self.left.fan_outs, 1 + self.named.fan_outs)
        return super().fan_outs

    def needs_old_rows(self, *, needs_old: bool) -> bool:
        # A filter needs the old row, because it emits nothing for a row that it dropped before.
        return needs_old or any(step.filters for step in self.row_steps)

    def inputs_with_old_rows(self, *, needs_old: bool) -> tuple[bool, ...]:
        return (
            self.all_inputs_with_old_rows()
            if self.by_foreign_key
            else super().inputs_with_old_rows(needs_old=needs_old)
        )


@dataclass(frozen=True)
class TableChanges(JoinOfTables):
    """The changes of a table or of joined tables: the old and the new row for each record.

    ``rows`` joins the tables by their indexes. For one table, it is 0.
    """

    follows_each_record = are_changes = True

    tables: tuple[Input, ...]
    rows: TableJoin | int = 0

    @property
    def changes_of(self) -> Input | None:
        return self.tables[0] if self.rows == 0 else None

    def __str__(self) -> str:
        """Return the joins after the first table."""
        return f"{joins_after_first(self.tables, self.rows)}changes()"

    @property
    def lineage(self) -> Lineage:
        # A change has an old and a new row.
        return merged_lineage([table.lineage for table in self.tables]).extended()

    def needs_old_rows(self, *, needs_old: bool) -> bool:
        del needs_old
        return True


def joins_after_first(tables: tuple[Input, ...], rows: TableJoin | int) -> str:
    """Return the joins of tables after the first one, as text."""

    def text(part: TableJoin | int) -> str:
        if isinstance(part, int):
            return f"table {tables[part].source.topic!r}"
        return f"{text(part.left)}.{verb(part.how)}({text(part.right)})"

    return f"{text(rows)}.".removeprefix(f"{text(0)}.")


@dataclass(frozen=True)
class AggregateUpdates(Join):
    """The updates of an aggregation: each record with the rows that it changes.

    With several inputs, the results are rows and not records.

    Attributes:
        left: The first input.
        aggregation: The aggregates, or the functions.
        windows: The windows.
        row_steps: The steps of the rows.
        others: The other inputs of a cogroup or of merged streams.
        streams: The index of each input in the cogroup, from 0, first the left one. Merged inputs
            share an index.
        ttl_ms: If the left input is ``ExpiringRecords`` for this aggregation, their time to live.
    """

    follows_each_record = emits_rows = aggregates = True

    left: Input
    aggregation: Columns | Functions
    windows: Windows
    row_steps: tuple[Filter | MapValues, ...] = ()
    others: tuple[Input, ...] = ()
    streams: tuple[int, ...] = (0,)
    #: The text of the left input has it.
    ttl_ms: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the step as text, with the names of functions."""
        of, windows = self.aggregation, self.windows
        windowed = "" if windows.kind == "none" else f"windowed_by({windows!r})."
        later_calls = "".join(f".{step}" for step in (*self.row_steps, "to_stream()"))
        cogroup = f"cogroup({', '.join(f'stream {n + 1}' for n in self.streams)})."
        windowed = f"{cogroup if any(self.streams) else ''}{windowed}"
        return f"{windowed}{of.definition_call}{later_calls}"

    @property
    def has_removals(self) -> bool:
        return self.ttl_ms is not None

    @property
    def makes_elements(self) -> bool:
        """Whether a record can change several rows."""
        return self.windows.rule.changes_several

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.left, *self.others

    @property
    def lineage(self) -> Lineage:
        merged = merged_lineage([each.lineage for each in self.inputs])
        return merged.of_updates(self.windows)

    @property
    def keeps_records(self) -> bool:
        # An aggregation of several streams creates new records.
        return not self.others

    @property
    def is_windowed(self) -> bool:  # type: ignore[override]
        return self.windows.kind != "none"


class ForeignKeyMessages(Join):
    """A node with messages within a foreign-key join.

    Attributes:
        each: True if it follows each record. False if it only has the rows after a batch.
    """

    is_between_tables = True
    each: bool

    @property
    def follows_each_record(self) -> bool:  # type: ignore[override]
        return self.each

    def inputs_with_old_rows(self, *, needs_old: bool) -> tuple[bool, ...]:
        # The old row has the old foreign key, or shows that nothing has changed.
        del needs_old
        return tuple(not each.became_table for each in self.inputs)


@dataclass(frozen=True)
class Subscriptions(ForeignKeyMessages):
    """Subscriptions of a foreign-key join (KIP-213): the right key of each left row.

    The last step of the input computes the foreign key. This input only feeds subscriptions.
    Another input reads the left table again, produces its rows and counts its records.

    Attributes:
        left: The left table.
        each: True for subscriptions after each record. False for subscriptions after each batch.
    """

    left: Input
    each: bool = False

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"subscriptions({'each' if self.each else ''})"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.left,)

    @property
    def lineage(self) -> Lineage:
        # A changed foreign key has two messages, to the old and to the new right key.
        return self.left.lineage.extended() if self.each else Lineage(length=1)


@dataclass(frozen=True)
class Responses(ForeignKeyMessages):
    """The rows of the right table for each subscription, with the key of the left row.

    Attributes:
        left: The subscriptions.
        right: The right table.
        each: True for responses after each record. False for responses after each batch.
    """

    left: Input
    right: Input
    each: bool = False

    def __str__(self) -> str:
        """Return the step as text, for ``describe``."""
        return f"rows({'each, ' if self.each else ''}table {self.right.source.topic!r})"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.left, self.right

    @property
    def lineage(self) -> Lineage:
        if not self.each:
            return Lineage(length=1)
        # A right record has one response per subscriber.
        return merged_lineage([self.left.lineage, self.right.lineage.extended()])


def as_join_input(origin: Input) -> Input:
    """Return a stream or a table as an input of a join."""
    return Input(origin.source, origin.steps, join=origin.join, is_grouped=False)


def _read(stream: Input) -> str:
    """Return the source of a stream, or its join with all inputs."""
    join = stream.join
    if join is None:
        return str(stream.source)
    left, *others = join.inputs
    of_others = f" of {', '.join(f'({side})' for side in others)}" if others else ""
    return f"({left}).{join}{of_others}"


def _read_sides(side: Input, join: Join | None) -> tuple[tuple[Input, Join | None], ...]:
    if side.join is None:
        return ((side, join),)
    sides = (_read_sides(each, side.join) for each in side.join.inputs)
    return tuple(read for of_side in sides for read in of_side)


def _all_steps(stream: Input) -> tuple[Step, ...]:
    """Return all steps of a stream, through joins by the left input, which has its key."""
    return (*(_all_steps(stream.join.left) if stream.join else ()), *stream.steps)


def share_flattened(streams: Sequence[Input]) -> bool:
    """Return whether all streams are branches of the same flattened records."""
    flattened = [
        stream.steps[: max(n for n, step in enumerate(stream.steps, 1) if flattens([step]))]
        for stream in streams
        if flattens(stream.steps)
    ]
    first = streams[0]
    return len(flattened) == len(streams) and all(
        (stream.source, len(steps)) == (first.source, len(flattened[0]))
        and stream.join is first.join
        # The steps before the split are the same objects. Spark columns cannot be compared.
        and all(map(is_, steps, flattened[0]))
        for stream, steps in zip(streams, flattened, strict=True)
    )


def _tables_with_old_rows(
    rows: TableJoin | int, tables: tuple[Input, ...], *, needs_old: bool
) -> tuple[bool, ...]:
    """Return for each joined table whether its old rows are needed.

    A left join needs the old rows of its left table, and an outer join those of both tables.
    """
    needed = [False] * len(tables)

    def mark(part: TableJoin | int, *, needs_old: bool) -> None:
        if isinstance(part, int):
            needed[part] = needs_old
        else:
            mark(part.left, needs_old=needs_old or part.how != "inner")
            mark(part.right, needs_old=needs_old or part.how == "outer")

    mark(rows, needs_old=needs_old)
    return tuple(
        is_needed and not table.became_table
        for is_needed, table in zip(needed, tables, strict=True)
    )
