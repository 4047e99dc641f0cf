"""The nodes of steps and joins, and the checks of their arguments."""

import re
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.arguments import require_expressions
from oriel.pipeline.language.step_checks import check_inputs
from oriel.pipeline.language.topology import (
    Filter,
    JoinUpdates,
    MapValues,
    Node,
    RowStep,
    Step,
    StreamPair,
    TablePair,
    grouping_text,
)
from oriel.pipeline.windows import JoinWindows

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The maximum number of foreign-key joins that read each other's updates. Each multiplies the
#: updates of a right record by the rows that reference it.
_MAX_FAN_OUTS = 3


def stepped(node: Node, *steps: Step) -> Node:
    """Return the node with more steps."""
    return replace(node, steps=(*node.steps, *steps))


def with_row_step(table: Node, step: Filter | MapValues) -> Node:
    """Return the table with one more step over its rows.

    A stream that became a table has the steps of a topic's table.
    """
    if table.operation.emits_rows and not table.became_table:
        return Node(RowStep(table, step))
    return stepped(table, step.of_rows())


def updates_of(step: str, table: Node) -> Node:
    """Return the updates of a table, for the ``step`` that reads them.

    Raises:
        InvalidTopology: More than 3 foreign-key joins read the updates of each other.
    """
    check_fan_outs(step, table)
    return Node(JoinUpdates(table)) if table.operation.joins_rows else table


def check_fan_outs(step: str, table: Node) -> None:
    """Reject the updates of a table with more than 3 nested foreign-key joins.

    Raises:
        InvalidTopology: More than 3 foreign-key joins read the updates of each other.
    """
    if table.operation.fan_outs > _MAX_FAN_OUTS:
        message = (
            f"{step}: at most {_MAX_FAN_OUTS} joins by a foreign key can read each other's "
            f"updates, and this is number {_MAX_FAN_OUTS + 1}. Write the updates of the inner "
            "joins to a topic with to_stream().to(topic), and read this topic as a table"
        )
        raise InvalidTopology(message)


def joined_tables(
    step: str,
    how: Literal["inner", "left", "outer"],
    left: Node,
    right: Node,
    foreign_key: "str | Column | tuple[str | Column, ...] | None",
) -> Node:
    """Return two tables, joined by key or by a foreign key.

    Raises:
        InvalidTopology: The foreign key is invalid or joins a table with ``ttl_ms``, more than 128
            tables are joined, or more than 3 foreign-key joins read the updates of each other.
    """
    key = () if foreign_key is None else checked_foreign_key(step, foreign_key)
    if key and any(table.operation.expires for table in (*left.tables, *right.tables)):
        message = (
            f"{step}: a table with ttl_ms cannot be joined by a foreign key. Write its updates to "
            "a topic with to_stream().to(topic), and read this topic as a table"
        )
        raise InvalidTopology(message)
    joined = Node(TablePair(left, right, how, key))
    if joined.operation.joins_rows:
        check_inputs(step, len(joined.tables))
    else:
        check_fan_outs(step, joined)
    return joined


def joined_streams(
    how: Literal["inner", "left", "outer"],
    streams: tuple[Node, ...],
    others: tuple[Node, ...],
    windows: JoinWindows,
) -> tuple[Node, ...]:
    """Return the results of a join of two streams.

    A join of merged streams is the merge of the joins of each stream. If records without a match
    are emitted, the merged streams must be one input, because any merged stream can have the match
    (decision 0073).
    """
    if how != "inner" and (len(others) > 1 or (how == "outer" and len(streams) > 1)):
        return (Node(StreamPair(streams, others, how, windows)),)
    pairs = product(streams, others)
    return tuple(Node(StreamPair((left,), (right,), how, windows)) for left, right in pairs)


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
