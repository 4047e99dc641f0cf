"""The calls of a topology as text, for ``describe`` and for messages.

The table of a store keeps other texts (``descriptions``). They have all computed steps, also
the internal steps of a call, and do not change with the texts here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from oriel.pipeline.language.topology.aggregations import verb
from oriel.pipeline.language.topology.inputs import (
    AggregateUpdates,
    GraceBuffer,
    Input,
    Join,
    Responses,
    Side,
    TableChanges,
    TableLookup,
    TableUpdates,
    behind_first,
    sides_of,
)
from oriel.pipeline.language.topology.places import became_table, tells_rows
from oriel.pipeline.language.topology.steps import (
    HAS_KEY,
    NO_ROW_KEY,
    Filter,
    ForeignKey,
    LookupKey,
    MapValues,
    OwnKey,
    Step,
    grouping_text,
)

#: The enclosing function before the name of a function.
_DEFINED_IN = re.compile(r"[\w<>.]+\.<locals>\.")


def written(stream: Side | Input, *, is_table: bool = False) -> str:
    """Return a stream or table with everything upstream, and an ``Input`` with its grouping."""
    is_table = is_table or isinstance(stream.join, TableChanges)
    stream = without_changes(stream)
    in_front = _in_front(stream, is_table=is_table and not became_table(stream))
    parts = [in_front, *words_behind(stream, is_table=is_table)]
    if isinstance(stream, Input):
        parts.append(grouping_words(stream) or "group_by_key()")
    return ".".join(parts)


def without_changes(stream: Side | Input) -> Side | Input:
    """Return a grouped table without the internal join that computes its changes."""
    join = stream.join
    if not isinstance(join, TableChanges) or join.rows != 0:
        return stream
    (table,) = join.tables
    return replace(stream, steps=(*table.steps, *stream.steps), join=table.join)


def grouping_words(stream: Side | Input) -> str:
    """Return the grouping, or an empty text if records are grouped by their own key."""
    return f"group_by({grouping_text(stream.group_by)})" if stream.group_by else ""


def step_words(steps: Iterable[Step]) -> list[str]:
    """Return the row-wise steps, without the internal steps of a call."""
    return [
        str(replace(step, of_table=False) if isinstance(step, Filter) else step)
        for step in steps
        if not isinstance(step, LookupKey | OwnKey | ForeignKey) and not _leaves_no_row_key(step)
    ]


def words_behind(stream: Side | Input, *, is_table: bool) -> list[str]:
    """Return the steps of a stream or a table, with ``to_table()`` where a stream became a table.

    For records, ``to_table()`` is before the first filter that deletes rows, or at the end. A
    mapping has the same result before and after it.
    """
    steps = stream.steps
    if not is_table or not became_table(stream):
        return step_words(steps)
    if tells_rows(stream):
        # Updates that become a table start with this step.
        end = max(number for number, step in enumerate(steps) if str(step) == str(HAS_KEY))
        return [*step_words(steps[:end]), "to_table()", *step_words(steps[end + 1 :])]
    deletes = (isinstance(step, Filter) and step.of_table for step in steps)
    end = next((number for number, is_it in enumerate(deletes) if is_it), len(steps))
    return [*step_words(steps[:end]), "to_table()", *step_words(steps[end:])]


def told_step(steps: Sequence[Step], number: int) -> str:
    """Return a step for a message. An internal step of a join is its argument."""
    step, *behind = steps[number:]
    if isinstance(step, ForeignKey):
        return f"join(foreign_key={grouping_text(step.key)})"
    # An inner join drops null keys before it computes the key.
    looked_up = step if isinstance(step, LookupKey) else next(iter(behind), None)
    if isinstance(looked_up, LookupKey) and (looked_up is step or _wants_key(step, looked_up)):
        return f"join(key={grouping_text((looked_up.key,))})"
    return str(step)


def join_words(join: Join, *, is_table: bool = False) -> str:
    """Return a join or an aggregation without its left input, as a table or as updates."""
    if isinstance(join, TableLookup):
        return _lookup_words(join)
    if isinstance(join, Responses):
        return f"named by foreign_key={_foreign_key(join)}"
    if isinstance(join, TableChanges):
        return behind_first(join.tables, join.rows).removesuffix(".")
    if not isinstance(join, TableUpdates | AggregateUpdates):
        return str(join)
    if isinstance(join, TableUpdates) and isinstance(responses := join.tables[1].join, Responses):
        right = responses.right.source.topic
        text = f"{verb(join.rows.how)}(table {right!r}, foreign_key={_foreign_key(responses)})"
    else:
        text = str(replace(join, row_steps=())).removesuffix(".to_stream()")
    text = _DEFINED_IN.sub("", text)
    return ".".join([text, *step_words(join.row_steps), *([] if is_table else ["to_stream()"])])


def written_sides(join: Join) -> tuple[tuple[Side | Input, bool], ...]:
    """Return the inputs of a join, each with True if it is a table."""
    if isinstance(join, TableLookup):
        return (_looking_up(join), False), (join.right, True)
    if isinstance(join, Responses):
        return (join.left.join.left, True), (join.right, True)  # type: ignore[union-attr]
    if isinstance(join, TableUpdates) and isinstance(responses := join.tables[1].join, Responses):
        return (join.tables[0], True), (responses.right, True)
    if isinstance(join, AggregateUpdates):
        return tuple((_grouped(side), False) for side in sides_of(join))
    is_table = isinstance(join, TableUpdates | TableChanges)
    return tuple((side, is_table) for side in sides_of(join))


def _in_front(stream: Side | Input, *, is_table: bool) -> str:
    """Return the source of a stream, or its join with all inputs."""
    join = stream.join
    if join is None:
        return str(stream.source)
    left, *others = (written(side, is_table=table) for side, table in written_sides(join))
    if isinstance(join, Responses):
        return f"{others[0]} {join_words(join)} of {left}"
    of_others = f" of {', '.join(f'({side})' for side in others)}" if others else ""
    return f"({left}).{join_words(join, is_table=is_table)}{of_others}"


def _lookup_words(join: TableLookup) -> str:
    words = [f"table {join.right.source.topic!r}"]
    words += [f"key={grouping_text((s.key,))}" for s in join.left.steps if isinstance(s, LookupKey)]
    words += [] if join.history_ms is None else [f"history {join.history_ms} ms"]
    if isinstance(buffer := join.left.join, GraceBuffer) and join.history_ms is not None:
        words.append(f"grace {buffer.grace_ms} ms")
    return f"{verb(join.how)}({', '.join(words)})"


def _looking_up(join: TableLookup) -> Side:
    """Return the stream input of a lookup, without the internal steps and the wait of the join."""
    left = join.left
    if left.steps and isinstance(left.steps[-1], LookupKey):
        # An inner join drops null keys.
        return replace(left, steps=left.steps[: -2 if join.how == "inner" else -1])
    is_waiting = isinstance(left.join, GraceBuffer) and join.history_ms is not None
    return left.join.left if is_waiting else left  # type: ignore[union-attr]


def _grouped(side: Side) -> Input:
    """Return an input of an aggregation with its grouping, which is its last step."""
    *steps, last = side.steps or (None,)
    if isinstance(last, MapValues) and last.key and last.keep == ("*",) and not last.columns:
        return Input(side.source, tuple(steps), last.key, side.join)
    return Input(side.source, side.steps, (), side.join)


def _foreign_key(responses: Responses) -> str:
    subscriptions = responses.left.join
    assert subscriptions is not None, "responses have subscriptions"
    last = subscriptions.left.steps[-1]
    assert isinstance(last, ForeignKey), "subscriptions end with a foreign key"
    return grouping_text(last.key)


def _wants_key(step: Step, lookup: LookupKey) -> bool:
    """Return whether a step drops records with a null key for a join with a global table."""
    condition = step.condition if isinstance(step, Filter) else None
    return isinstance(condition, str) and condition == f"({lookup.key}) IS NOT NULL"


def _leaves_no_row_key(step: Step) -> bool:
    """Return whether a step drops the row with the key that a global table cannot have."""
    condition = step.condition if isinstance(step, Filter) else None
    # The comparison of two Spark columns is a column.
    return isinstance(condition, str) and condition == f"key = '{NO_ROW_KEY}'"
