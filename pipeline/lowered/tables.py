"""The lowered form of table joins, and of the updates of aggregations."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from oriel.pipeline.language import Columns, Functions, MapValues, Step
from oriel.pipeline.lowered.inputs import (
    AggregateUpdates,
    Input,
    Join,
    Responses,
    Subscriptions,
    TableUpdates,
    as_join_input,
)
from oriel.pipeline.lowered.one_stream import ExpiringRecords
from oriel.pipeline.lowered.steps import ForeignKey
from oriel.pipeline.lowered.stores import Store
from oriel.pipeline.windows import TableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Tables, and their join by their indexes. For one table, it is 0.
JoinedTables = tuple[tuple[Input, ...], TableJoin | int]


def stepped(stream: Input, *steps: Step) -> Input:
    """Return the input with more steps."""
    return replace(stream, steps=(*stream.steps, *steps))


def results_of(join: Join) -> Input:
    """Return the results of a join as an input."""
    return Input(join.left.source, (), (), join)


def aggregate_updates(store: Store, ttl_ms: int | None = None) -> Input:
    """Return the updates of the aggregation of ``store``, whose keys expire after ``ttl_ms``."""
    first, *others = map(grouped_records, store.inputs)
    if ttl_ms is not None:
        first = as_join_input(results_of(ExpiringRecords(first, ttl_ms)))
    # Only an aggregation of streams emits updates.
    of = cast("Columns | Functions", store.aggregation)
    return results_of(
        AggregateUpdates(
            first, of, store.windows, store.row_steps, tuple(others), store.streams, ttl_ms
        )
    )


def grouped_records(stream: Input) -> Input:
    """Return a grouped stream as an input of a join, with its grouping as the key of a record."""
    if not stream.group_by:
        return as_join_input(stream)
    grouping = MapValues(("*",), {}, stream.group_by, is_grouping=True)
    return as_join_input(stepped(replace(stream, group_by=()), grouping))


def table_updates(joined: JoinedTables) -> Input:
    """Return the updates of joined tables. A single table is its own updates."""
    tables, rows = joined
    if isinstance(rows, int):
        return tables[rows]
    return results_of(TableUpdates(tuple(map(as_join_input, tables)), rows))


def joined_by_key(
    how: Literal["inner", "left", "outer"], left: JoinedTables, right: JoinedTables
) -> JoinedTables:
    """Return the join of tables by key."""
    (left_tables, left_rows), (right_tables, right_rows) = left, right
    rows = TableJoin(how, left_rows, _numbered(right_rows, len(left_tables)))
    return (*left_tables, *right_tables), rows


def _numbered(rows: TableJoin | int, first: int) -> TableJoin | int:
    """Return the same joined tables with indexes from ``first``."""
    if isinstance(rows, int):
        return rows + first
    return TableJoin(rows.how, _numbered(rows.left, first), _numbered(rows.right, first))


def foreign_updates(
    how: Literal["inner", "left", "outer"],
    left: Input,
    right: Input,
    key: "tuple[str | Column, ...]",
    keyed: Input | None = None,
) -> Input:
    """Return the updates of a join by a foreign key.

    ``keyed`` is the table whose rows have the columns of the foreign key. Default: the left table.
    """
    subscriptions = Subscriptions(as_join_input(stepped(keyed or left, ForeignKey(key))), each=True)
    responses = Responses(as_join_input(results_of(subscriptions)), as_join_input(right), each=True)
    named = as_join_input(stepped(left, ForeignKey(key, keeps_columns=True)))
    both = (named, as_join_input(results_of(responses)))
    return results_of(TableUpdates(both, TableJoin(how, 0, 1), by_foreign_key=True))


def foreign_rows(left: Input, right: Input, key: "tuple[str | Column, ...]") -> Input:
    """Return the rows of a right table, with the keys of the left rows that reference them."""
    subscriptions = Subscriptions(as_join_input(stepped(left, ForeignKey(key))))
    return results_of(Responses(as_join_input(results_of(subscriptions)), as_join_input(right)))
