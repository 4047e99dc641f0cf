"""Join two aggregations by the same time windows, as one cogroup of their streams.

Both have the same windows, so a joined row is a row of the cogroup. A table has a row for a window
if one of its streams has records in the window. Extra columns count these records. The steps over
the rows of the cogroup use the counts, and drop them.
"""

from dataclasses import replace
from typing import Literal

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language.step_checks import checked_inputs
from oriel.pipeline.language.topology import Columns, Filter, MapValues, Store, verb
from oriel.pipeline.windows import count

#: The alternatives if windows cannot be joined in this way.
_ALTERNATIVES = (
    "Create tables of both with to_stream().select_key('key', 'window_start_ms', 'window_end_ms')"
    ".map_values(n='count').to_table(), join to_stream() of both as streams, or aggregate both "
    "streams in one cogroup"
)


def joined_windows(how: Literal["inner", "left", "outer"], left: Store, right: Store) -> Store:
    """Return the aggregation whose rows are ``left`` and ``right`` joined by key and window.

    Raises:
        InvalidTopology: The windows differ or are not time windows, an aggregation has functions
            or steps, only one aggregation emits final rows, both have a column with the same
            name, or both together have more than 128 inputs.
    """
    step = verb(how)
    first, second = left.aggregation, right.aggregation
    if left.windows.kind not in {"tumbling", "hopping"} or left.windows != right.windows:
        message = (
            f"{step}: windowed tables need equal time windows to be joined, not {left.windows!r} "
            f"and {right.windows!r}. {_ALTERNATIVES}"
        )
        raise InvalidTopology(message)
    if not first.aggregates or not second.aggregates:
        message = f"{step}: windowed tables need named aggregates to be joined. {_ALTERNATIVES}"
        raise InvalidTopology(message)
    if left.row_steps or right.row_steps or left.emit != right.emit:
        message = (
            f"{step}: windowed tables must be joined directly after their aggregations, and with "
            "the same emit strategy. Call steps and suppress after the join. Aggregate three or "
            "more streams in one cogroup"
        )
        raise InvalidTopology(message)
    names = [*first.columns, *second.columns]
    twice = {name for name in first.columns if name.lower() in map(str.lower, second.columns)}
    if twice:
        message = (
            f"{step}: both tables have columns named {sorted(twice)}. Rename the columns "
            "of one table with aggregate(other=...)"
        )
        raise InvalidTopology(message)
    aggregates = (*first.aggregates, *second.aggregates)
    counts = _free_names(len(aggregates), names)
    of_left, of_right = counts[: len(first.aggregates)], counts[len(first.aggregates) :]
    right_inputs = tuple(
        replace(origin, stream=origin.stream + len(first.aggregates)) for origin in right.inputs
    )
    nullable: dict[str, str] = {}
    if how != "inner":
        nullable |= _where(of_right, second.columns)
    if how == "outer":
        nullable = _where(of_left, first.columns) | nullable
    chosen = MapValues(tuple(name for name in names if name not in nullable), dict(nullable))
    filters = {"inner": (of_left, of_right), "left": (of_left,), "outer": ()}[how]
    return replace(
        left,
        inputs=checked_inputs(step, (*left.inputs, *right_inputs)),
        aggregation=Columns(
            tuple({**of, name: count()} for of, name in zip(aggregates, counts, strict=True))
        ),
        row_steps=(*(Filter(_has_row(of_side)) for of_side in filters), chosen),
    )


def _free_names(number: int, taken: list[str]) -> list[str]:
    """Return ``number`` column names that are not in ``taken``, in any case."""
    prefix = "records"
    while any(name.lower().startswith(prefix) for name in taken):
        prefix += "_"
    return [f"{prefix}{place}" for place in range(number)]


def _has_row(counts: list[str]) -> str:
    """Return the condition that a table has a row, by the counts of its streams."""
    return " OR ".join(f"{name} > 0" for name in counts)


def _where(counts: list[str], names: list[str]) -> dict[str, str]:
    """Return the columns of a table, with null where the table has no row."""
    return {name: f"CASE WHEN {_has_row(counts)} THEN `{name}` END" for name in names}
