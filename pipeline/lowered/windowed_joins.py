"""Lower a join of two aggregations by the same time windows to one cogroup of their streams.

Both have the same windows, so a joined row is a row of the cogroup. A table has a row for a window
if one of its streams has records in the window. Extra columns count these records. The steps over
the rows of the cogroup use the counts, and drop them.
"""

from dataclasses import replace
from typing import Literal

from oriel.pipeline.language import Columns, Filter, MapValues
from oriel.pipeline.lowered.stores import Store
from oriel.pipeline.windows import count


def joined_windows(how: Literal["inner", "left", "outer"], left: Store, right: Store) -> Store:
    """Return the aggregation whose rows are ``left`` and ``right`` joined by key and window."""
    first, second = left.aggregation, right.aggregation
    names = [*first.columns, *second.columns]
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
        inputs=(*left.inputs, *right_inputs),
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
