"""Joins of streams and tables as inputs of a store: which sides are joined, and which can't be."""

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.steps import NO_ROW_KEY, Filter, LookupKey, OwnKey, Step
from oriel.pipeline.language.topology import (
    Input,
    Join,
    Side,
    StreamJoin,
    TableLookup,
    has_elements,
    pairing_join,
)
from oriel.pipeline.windows import JoinWindows, TableJoin

if TYPE_CHECKING:
    from pyspark.sql import Column


def stepped(origin: Input, *steps: Step) -> Input:
    """The same with more steps."""
    return replace(origin, steps=(*origin.steps, *steps))


def side_of(origin: Input) -> Side:
    """A stream or a table as one side of a join."""
    return Side(origin.source, origin.steps, origin.join)


def results_of(join: Join) -> Input:
    """What a join gives, as a stream."""
    return Input(join.left.source, (), (), join)


def lookups(
    how: Literal["inner", "left"], origins: tuple[Input, ...], table: Input
) -> tuple[Input, ...]:
    """The records of a stream with the rows that they find in a table."""
    right = side_of(table)
    return tuple(results_of(TableLookup(side_of(left), right, how)) for left in origins)


def global_lookups(
    how: Literal["inner", "left"],
    origins: tuple[Input, ...],
    table: Input,
    key: "str | Column",
) -> tuple[Input, ...]:
    """The records of a stream with the rows of the keys that ``key`` makes of them.

    They are looked up under that key, and get their own back.
    """
    if how == "inner":
        has_key = f"({key}) IS NOT NULL" if isinstance(key, str) else key.isNotNull()
        origins = tuple(stepped(origin, Filter(has_key)) for origin in origins)
    rows = stepped(table, Filter(f"key = '{NO_ROW_KEY}'", is_negated=True, of_table=True))
    keyed = tuple(stepped(origin, LookupKey(key)) for origin in origins)
    return tuple(stepped(found, OwnKey()) for found in lookups(how, keyed, rows))


def stream_joins(
    how: Literal["inner", "left", "outer"],
    origins: tuple[Input, ...],
    others: tuple[Input, ...],
    windows: JoinWindows,
) -> tuple[Input, ...]:
    """The pairs of two streams' records; joining merged streams is merging joined ones.

    Raises:
        InvalidTopology: a record would come without a partner from each of merged streams, or a
            side's records have no places of their own.
    """
    step = "join" if how == "inner" else f"{how}_join"
    # Each record's partners are looked for in one stream: it would be alone in each that has none.
    if (len(others) > 1 and how != "inner") or (len(origins) > 1 and how == "outer"):
        message = (
            f"{step}: a record without a partner would come once for each of the merged "
            "streams; join before merge, or use join"
        )
        raise InvalidTopology(message)
    for origin in (*origins, *others):
        _check_places(step, side_of(origin))
    pairs = product(map(side_of, origins), map(side_of, others))
    return tuple(results_of(StreamJoin(left, right, how, windows)) for left, right in pairs)


def numbered(rows: TableJoin | int, first: int) -> TableJoin | int:
    """The same joined tables with numbers from ``first``."""
    if isinstance(rows, int):
        return rows + first
    return TableJoin(rows.how, numbered(rows.left, first), numbered(rows.right, first))


def _check_places(step: str, side: Side) -> None:
    """Refuse a side of a join of streams whose records have no places of their own in one log.

    What a stream looked up is its own record still; pairs of two streams, updates of two tables,
    and elements of records are not.
    """
    join = pairing_join(side)
    if join is not None:
        message = (
            f"{step}: a side that is itself a join ({join}) can't be joined with a stream; "
            "look tables up behind it, or put the streams together with cogroup"
        )
        raise InvalidTopology(message)
    if has_elements(side):
        message = (
            f"{step}: a side of a join of streams can't be flattened ({side}); join the records "
            "as they are, and take them apart by an aggregate of functions"
        )
        raise InvalidTopology(message)
