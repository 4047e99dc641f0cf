"""The calls of a topology as text, for ``describe`` and for messages.

The table of a store records other texts (``descriptions``). They also have the internal steps of a
call, and do not depend on the texts here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import cast

from oriel.pipeline.language import Step, grouping_text, verb
from oriel.pipeline.lowered.inputs import (
    AggregateUpdates,
    Input,
    Join,
    Responses,
    StreamTableJoin,
    TableChanges,
    TableUpdates,
    joins_after_first,
)
from oriel.pipeline.lowered.one_stream import GraceBuffer, LateRecords

#: The enclosing function before the name of a function.
_DEFINED_IN = re.compile(r"[\w<>.]+\.<locals>\.")


def written(stream: Input, *, is_table: bool = False) -> str:
    """Return a stream or table with all upstream calls, and its grouping if it is grouped."""
    is_table = is_table or is_changes(stream)
    stream = without_changes(stream)
    upstream = _upstream_text(stream, is_table=is_table and not stream.became_table)
    parts = [upstream, *steps_after_source(stream, is_table=is_table)]
    if stream.is_grouped:
        parts.append(grouping_call(stream) or "group_by_key()")
    return ".".join(parts)


def is_changes(stream: Input) -> bool:
    """Return whether an input has the changes of a table, for a grouped table."""
    return stream.join is not None and stream.join.are_changes


def without_changes(stream: Input) -> Input:
    """Return a grouped table without the internal join that computes its changes."""
    table = None if stream.join is None else stream.join.changes_of
    if table is None:
        return stream
    return replace(stream, steps=(*table.steps, *stream.steps), join=table.join)


def grouping_call(stream: Input) -> str:
    """Return the call of ``group_by``, or an empty string if records are grouped by their key."""
    return f"group_by({grouping_text(stream.group_by)})" if stream.group_by else ""


def step_calls(steps: Iterable[Step]) -> list[str]:
    """Return the calls of row-wise steps. Steps that are parts of a join are left out."""
    calls = (step.text if step.call is None else step.call for step in steps)
    return [call for call in calls if call]


def steps_after_source(stream: Input, *, is_table: bool) -> list[str]:
    """Return the steps of a stream or a table, with ``to_table()`` where a stream became a table.

    For records, ``to_table()`` is before the first filter that deletes rows, or at the end. The
    place among mappings is free, because they have the same result before and after it.
    """
    steps = stream.steps
    # Updates became a table with a filter, whose call is ``to_table()``.
    if not is_table or not stream.became_table or stream.emits_rows:
        return step_calls(steps)
    end = next((n for n, step in enumerate(steps) if step.deletes_rows), len(steps))
    return [*step_calls(steps[:end]), "to_table()", *step_calls(steps[end:])]


def step_for_message(steps: Sequence[Step], number: int) -> str:
    """Return a step for a message. For an internal step of a join, it is the call of the join."""
    step, *later = steps[number:]
    if step.foreign_key:
        return f"join(foreign_key={grouping_text(step.foreign_key)})"
    # An inner join drops null keys before it computes the key.
    is_part_of_join = step.filters and step.call == ""
    lookup = later[0] if is_part_of_join and later else step
    if lookup.lookup_key:
        return f"join(key={grouping_text(lookup.lookup_key)})"
    return str(step)


@singledispatch
def join_call(join: Join, *, is_table: bool = False) -> str:
    """Return the call of a join or an aggregation, without its left input.

    With ``is_table``, a table is written. Otherwise, its updates are written, with ``to_stream()``.
    """
    del is_table
    return str(join)


@join_call.register
def _(join: StreamTableJoin, *, is_table: bool = False) -> str:
    del is_table
    words = [f"table {join.right.source.topic!r}"]
    words += [f"key={grouping_text(s.lookup_key)}" for s in join.left.steps if s.lookup_key]
    words += [] if join.history_ms is None else [f"history {join.history_ms} ms"]
    if (buffer := _grace_buffer_of(join)) is not None:
        words.append(f"grace {buffer.grace_ms} ms")
    return f"{verb(join.how)}({', '.join(words)})"


@join_call.register
def _(join: Responses, *, is_table: bool = False) -> str:
    del is_table
    return f"named by foreign_key={_foreign_key(join)}"


@join_call.register
def _(join: TableChanges, *, is_table: bool = False) -> str:
    del is_table
    return joins_after_first(join.tables, join.rows).removesuffix(".")


@join_call.register
def _(join: AggregateUpdates, *, is_table: bool = False) -> str:
    text = str(replace(join, row_steps=())).removesuffix(".to_stream()")
    return _updates_text(text, join, is_table=is_table)


@join_call.register
def _(join: TableUpdates, *, is_table: bool = False) -> str:
    if join.by_foreign_key:
        key = _foreign_key(join.responses)
        text = f"{verb(join.rows.how)}(table {join.named.source.topic!r}, foreign_key={key})"
    else:
        text = str(replace(join, row_steps=())).removesuffix(".to_stream()")
    return _updates_text(text, join, is_table=is_table)


def _updates_text(text: str, join: Join, *, is_table: bool) -> str:
    text = _DEFINED_IN.sub("", text)
    return ".".join([text, *step_calls(join.row_steps), *([] if is_table else ["to_stream()"])])


@singledispatch
def join_inputs(join: Join) -> tuple[tuple[Input, bool], ...]:
    """Return the inputs of a join, each with True if it is a table."""
    return tuple((each, False) for each in join.inputs)


@join_inputs.register
def _(join: StreamTableJoin) -> tuple[tuple[Input, bool], ...]:
    return (_stream_side(join), False), (join.right, True)


@join_inputs.register
def _(join: Responses) -> tuple[tuple[Input, bool], ...]:
    return (join.left.join.left, True), (join.right, True)  # type: ignore[union-attr]


@join_inputs.register
def _(join: TableUpdates) -> tuple[tuple[Input, bool], ...]:
    # The responses of a foreign-key join are internal, so its right table is written instead.
    tables = (join.left, join.named) if join.by_foreign_key else join.tables
    return tuple((table, True) for table in tables)


@join_inputs.register
def _(join: TableChanges) -> tuple[tuple[Input, bool], ...]:
    return tuple((table, True) for table in join.tables)


@join_inputs.register
def _(join: LateRecords) -> tuple[tuple[Input, bool], ...]:
    return ((_grouped(join.left), False),)


@join_inputs.register
def _(join: AggregateUpdates) -> tuple[tuple[Input, bool], ...]:
    return tuple((_grouped(side), False) for side in join.inputs)


def _upstream_text(stream: Input, *, is_table: bool) -> str:
    """Return the source of a stream, or its join with all inputs."""
    join = stream.join
    if join is None:
        return str(stream.source)
    left, *others = (written(side, is_table=table) for side, table in join_inputs(join))
    if join.is_between_tables:
        return f"{others[0]} {join_call(join)} of {left}"
    of_others = f" of {', '.join(f'({side})' for side in others)}" if others else ""
    return f"({left}).{join_call(join, is_table=is_table)}{of_others}"


def _stream_side(join: StreamTableJoin) -> Input:
    """Return the stream of a stream-table join, without the grace buffer."""
    buffer = _grace_buffer_of(join)
    return join.left if buffer is None else buffer.left


def _grace_buffer_of(join: StreamTableJoin) -> GraceBuffer | None:
    """Return the grace buffer of a join with a versioned table, or None."""
    buffer = join.left.join
    return cast("GraceBuffer", buffer) if buffer is not None and buffer.is_buffer else None


def _grouped(side: Input) -> Input:
    """Return an input of an aggregation with its grouping, which is its last step."""
    *steps, last = side.steps or (None,)
    if last is not None and last.is_grouping:
        return Input(side.source, tuple(steps), last.new_key, side.join)
    return Input(side.source, side.steps, (), side.join)


def _foreign_key(responses: Responses) -> str:
    subscriptions = responses.left.join
    assert subscriptions is not None, "responses have subscriptions"
    return grouping_text(subscriptions.left.steps[-1].foreign_key)
