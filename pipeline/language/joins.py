"""Joins of streams and tables: which inputs are joined, and which are rejected."""

import re
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal, cast

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.topology import (
    NO_ROW_KEY,
    AggregateUpdates,
    Columns,
    Filter,
    ForeignKey,
    Functions,
    GraceBuffer,
    Input,
    Join,
    LookupKey,
    MapValues,
    MergedStreams,
    OwnKey,
    Responses,
    Step,
    Store,
    StreamJoin,
    StreamTableJoin,
    Subscriptions,
    TableChanges,
    TableUpdates,
    as_join_input,
    grouping_text,
)
from oriel.pipeline.windows import LEFT, RIGHT, JoinWindows, TableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column


def stepped(stream: Input, *steps: Step) -> Input:
    """Return the input with more steps."""
    return replace(stream, steps=(*stream.steps, *steps))


def with_row_step(table: Input, step: Filter | MapValues) -> Input:
    """Return the table with one more step over its rows.

    A stream that became a table has the steps of a topic's table.
    """
    if table.join is not None and table.join.emits_rows and not table.became_table:
        # The update of a filter depends on the row before, which only the table operator knows.
        join = table.join.with_row_step(step)
        return replace(table, join=join)
    return stepped(table, step.of_rows())


def results_of(join: Join) -> Input:
    """Return the results of a join as an input."""
    return Input(join.left.source, (), (), join)


def table_joins(
    how: Literal["inner", "left"],
    streams: tuple[Input, ...],
    table: Input,
    history_ms: int | None = None,
    grace_ms: int | None = None,
) -> tuple[Input, ...]:
    """Return the records of a stream with the rows that they find in a table.

    For a table with a history of ``history_ms``, each record waits until its stream time is
    ``grace_ms`` later.
    """
    if grace_ms is not None:
        streams = tuple(results_of(GraceBuffer(as_join_input(left), grace_ms)) for left in streams)
    right = as_join_input(table)
    return tuple(
        results_of(StreamTableJoin(as_join_input(left), right, how, history_ms)) for left in streams
    )


def global_table_joins(
    how: Literal["inner", "left"],
    streams: tuple[Input, ...],
    table: Input,
    key: "str | Column",
) -> tuple[Input, ...]:
    """Return the records of a stream with the rows of the keys that ``key`` computes.

    The join uses the computed key, and the results have the own keys of the records again.
    """
    if how == "inner":
        has_key = f"({key}) IS NOT NULL" if isinstance(key, str) else key.isNotNull()
        streams = tuple(stepped(stream, Filter(has_key, call="")) for stream in streams)
    no_row = Filter(f"key = '{NO_ROW_KEY}'", is_negated=True, of_table=True, call="")
    rows = stepped(table, no_row)
    keyed = tuple(stepped(stream, LookupKey(key)) for stream in streams)
    return tuple(stepped(found, OwnKey()) for found in table_joins(how, keyed, rows))


def aggregate_updates(store: Store) -> AggregateUpdates:
    """Return the updates of the aggregation of ``store``."""
    inputs, windows, aggregation = store.inputs, store.windows, store.aggregation
    keyed = (
        stepped(
            replace(stream, group_by=()), MapValues(("*",), {}, stream.group_by, is_grouping=True)
        )
        if stream.group_by
        else stream
        for stream in inputs
    )
    first, *others = map(as_join_input, keyed)
    steps = store.row_steps
    # Only an aggregation of streams emits updates.
    of = cast("Columns | Functions", aggregation)
    return AggregateUpdates(first, of, windows, steps, tuple(others), store.streams)


def table_updates(step: str, tables: tuple[Input, ...], rows: TableJoin | int) -> Input:
    """Return the updates of the tables that ``rows`` joins, for the ``step`` that is called.

    Raises:
        InvalidTopology: The tables cannot be joined by a foreign key (see ``foreign_updates``).
    """
    tables, rows = _with_foreign_updates(step, tables, rows)
    if isinstance(rows, int):
        return tables[rows]
    return results_of(TableUpdates(tuple(map(as_join_input, tables)), rows))


def table_changes(step: str, tables: tuple[Input, ...], rows: TableJoin | int) -> TableChanges:
    """Return the old and the new row of each record of a table or of the joined tables ``rows``.

    Raises:
        InvalidTopology: The tables cannot be joined by a foreign key (see ``foreign_updates``).
    """
    tables, rows = _with_foreign_updates(step, tables, rows)
    return TableChanges(tuple(map(as_join_input, tables)), rows)


def _with_foreign_updates(
    step: str, tables: tuple[Input, ...], rows: TableJoin | int
) -> tuple[tuple[Input, ...], TableJoin | int]:
    """Replace tables that are joined by a foreign key with one input: the updates of the join."""
    if isinstance(rows, int):
        return (tables[rows],), 0
    of_left, left = _with_foreign_updates(step, tables, rows.left)
    responses = tables[rows.right].join if isinstance(rows.right, int) else None
    if responses is not None and responses.responds_to is not None:
        first = responses.responds_to
        named = responses.inputs[RIGHT]
        right = Input(named.source, named.steps, (), named.join)
        both, key = (table_updates(step, of_left, left), right), first.steps[-1].foreign_key
        # Only its rows define the subscriptions, so the upstream joins are computed once.
        return (foreign_updates(step, rows.how, both, key, first),), 0
    of_right, right_rows = _with_foreign_updates(step, tables, rows.right)
    joined = TableJoin(rows.how, left, numbered(right_rows, len(of_left)))
    return (*of_left, *of_right), joined


def foreign_updates(
    step: str,
    how: Literal["inner", "left", "outer"],
    tables: tuple[Input, Input],
    key: "tuple[str | Column, ...]",
    key_input: Input | None = None,
) -> Input:
    """Return the updates of a join by a foreign key.

    Args:
        step: The step that is called, for messages.
        how: The kind of the join.
        tables: The left and the right table.
        key: The parts of the foreign key.
        key_input: The input that only computes the foreign keys, if they depend on the first of
            joined tables.

    Raises:
        InvalidTopology: The right table already consists of the maximum number of foreign-key
            joins.
    """
    left, right = tables
    if right.fan_outs >= _MAX_FAN_OUTS:
        message = (
            f"{step}: at most {_MAX_FAN_OUTS} joins by a foreign key can read each other's "
            f"updates, and this is number {_MAX_FAN_OUTS + 1}. Write the updates of the inner "
            "joins to a topic with to_stream().to(topic), and read this topic as a table"
        )
        raise InvalidTopology(message)
    subscriptions = Subscriptions(
        key_input or as_join_input(stepped(left, ForeignKey(key))), each=True
    )
    responses = Responses(as_join_input(results_of(subscriptions)), as_join_input(right), each=True)
    named = as_join_input(stepped(left, ForeignKey(key, keeps_columns=True)))
    both = (named, as_join_input(results_of(responses)))
    return results_of(TableUpdates(both, TableJoin(how, 0, 1), by_foreign_key=True))


#: The maximum number of foreign-key joins that read each other's updates. Each multiplies the
#: updates of a right record by the rows that reference it.
_MAX_FAN_OUTS = 3


def foreign_rows(left: Input, right: Input, key: "tuple[str | Column, ...]") -> Input:
    """Return the rows of a right table, with the keys of the left rows that reference them."""
    subscriptions = Subscriptions(as_join_input(stepped(left, ForeignKey(key))))
    return results_of(Responses(as_join_input(results_of(subscriptions)), as_join_input(right)))


def reject_update_times(step: str, what: str, parts: "tuple[str | Column, ...]") -> None:
    """Reject expressions that read the time of an update for ``what``, which depends on the row.

    Raises:
        InvalidTopology: An expression reads ``timestamp_ms``. The message begins with ``step``.
    """
    if re.search(r"\btimestamp_ms\b", grouping_text(parts), re.IGNORECASE):
        message = (
            f"{step}: {what} depends on the row only, so it cannot use the timestamp_ms of the "
            "update. Keep a time in the row with map_values('*', t='timestamp_ms')"
        )
        raise InvalidTopology(message)


def checked_foreign_key(
    step: str, key: "str | Column | tuple[str | Column, ...]"
) -> "tuple[str | Column, ...]":
    """Return the parts of a foreign key.

    Raises:
        InvalidTopology: It has no part, or a part is neither a string nor a ``Column`` or reads
            ``timestamp_ms``.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not parts:
        message = f"{step}: foreign_key= must name at least one column or expression"
        raise InvalidTopology(message)
    require_expressions(step, *parts)
    reject_update_times(f"{step}: foreign_key=", "the row that a row names", parts)
    return parts


def are_topics_rows(table: Input, rows: TableJoin | int, others: TableJoin | int) -> bool:
    """Return whether the rows of a foreign-key join depend only on the logs.

    The left ``table`` is the first table of ``rows``. Its rows must be rows of a topic, and the
    right input must be a single table.
    """
    return not table.emits_rows and isinstance(others, int) and not _has_outer(rows)


def _has_outer(rows: TableJoin | int) -> bool:
    """Return whether a join can have a row if its first table has no row."""
    return not isinstance(rows, int) and (rows.how == "outer" or _has_outer(rows.left))


def stream_joins(
    how: Literal["inner", "left", "outer"],
    streams: tuple[Input, ...],
    others: tuple[Input, ...],
    windows: JoinWindows,
) -> tuple[Input, ...]:
    """Return the results of a join of two streams.

    A join of merged streams is the merge of the joins of each stream. If records without a match
    are emitted, the merged streams must be one input, because any merged stream can have the match
    (decision 0073).
    """
    if how != "inner" and (len(others) > 1 or (how == "outer" and len(streams) > 1)):
        streams = _merged(streams, windows.allowed_lateness_ms(LEFT))
        others = _merged(others, windows.allowed_lateness_ms(RIGHT))
    pairs = product(map(as_join_input, streams), map(as_join_input, others))
    return tuple(results_of(StreamJoin(left, right, how, windows)) for left, right in pairs)


def _merged(streams: tuple[Input, ...], allowed_lateness_ms: int) -> tuple[Input, ...]:
    """Return merged streams as one input, and a single stream unchanged."""
    if len(streams) == 1:
        return streams
    return (results_of(MergedStreams(tuple(map(as_join_input, streams)), allowed_lateness_ms)),)


def numbered(rows: TableJoin | int, first: int) -> TableJoin | int:
    """Return the same joined tables with indexes from ``first``."""
    if isinstance(rows, int):
        return rows + first
    return TableJoin(rows.how, numbered(rows.left, first), numbered(rows.right, first))
