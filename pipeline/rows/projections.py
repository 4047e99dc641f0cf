"""The operations of a program as Spark projections.

Rows have the columns of the program and status columns: the record id, the reason why a row is
invalid, and whether it is kept. The names of status columns start with ``__``. Spark evaluates the
expression of an operation only for rows in use, but it calls Python functions for every row.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.row_program import Filter, Generate, Project, RowOperation, Tombstone
from oriel.pipeline.rows.columns import column_of, columns_of, in_use
from oriel.pipeline.rows.lowering import RowColumns
from oriel.pipeline.stage_columns import FIRST_ELEMENT

#: The names of the status columns.
Status = tuple[str, ...]
Projection = list[Column]


def projections(
    operation: RowOperation[Column], status: Status, before: RowColumns, after: RowColumns
) -> tuple[list[Projection], Status]:
    """Return the projections of an operation in order, and the status columns after it.

    Args:
        operation: The operation.
        status: The status columns before it.
        before: The other columns before it.
        after: The other columns after it.
    """
    return _PROJECTIONS[type(operation)](operation, status, before, after)


def _project(
    operation: Project[Column], status: Status, before: RowColumns, after: RowColumns
) -> tuple[list[Projection], Status]:
    del before
    is_computed = in_use()
    if operation.guard is not None:
        is_computed &= column_of(operation.guard)
    columns = [
        F.when(is_computed, operation.computed[name]).alias(name)
        if name in operation.computed
        else column_of(name)
        for name in after.names
    ]
    return [[*columns_of(status), *columns]], status


def _filter(
    operation: Filter[Column], status: Status, before: RowColumns, after: RowColumns
) -> tuple[list[Projection], Status]:
    del after
    keep = F.when(in_use(), operation.condition).otherwise(F.lit(False))  # noqa: FBT003
    return [_with(status, "__keep", keep, columns_of(before.names))], status


def _tombstone(
    operation: Tombstone[Column], status: Status, before: RowColumns, after: RowColumns
) -> tuple[list[Projection], Status]:
    del after
    is_null = F.col("__null_value")
    deleted = F.when(in_use(), is_null | operation.condition).otherwise(is_null)
    # As in a record with a null value, all columns are null for later steps.
    values = (F.when(~deleted, column_of(name)).alias(name) for name in before.values)
    columns = [*columns_of((*before.scope, *before.copies)), *values]
    return [_with(status, "__null_value", deleted, columns)], status


def _generate(
    operation: Generate[Column], status: Status, before: RowColumns, after: RowColumns
) -> tuple[list[Projection], Status]:
    name = operation.name
    rest = [each for each in before.names if each != name]
    # A deleted row also has an array if the step computes one from nulls.
    lists = F.when(~F.col("__null_value"), column_of(name)).alias(name)
    of_values = [*columns_of((*status, *rest)), lists]
    has_any = F.coalesce(F.size(column_of(name)) > 0, F.lit(False))  # noqa: FBT003
    keep = F.when(in_use(), has_any).otherwise(F.col("__keep"))
    # "outer" also returns a row for a record without elements, so that it can be counted.
    elements = F.posexplode_outer(column_of(name)).alias("__place", name)
    exploded = _with(status, "__keep", keep, [*columns_of(rest), elements])
    others = tuple(each for each in status if each != FIRST_ELEMENT.name)
    is_first = F.col("__place") == 0
    if others != status:
        # The first element of a flattened record has the mark of that record.
        is_further = F.col("__place") > 0
        is_first = F.when(is_further, F.lit(False)).otherwise(F.col(FIRST_ELEMENT.name))  # noqa: FBT003
    marked = [*columns_of(others), is_first.alias(FIRST_ELEMENT.name), *columns_of(after.names)]
    return [of_values, exploded, marked], (*others, FIRST_ELEMENT.name)


def _with(status: Status, name: str, column: Column, others: list[Column]) -> Projection:
    """Return the status columns with a new ``column`` for ``name``, and other columns."""
    return [*(column.alias(name) if each == name else column_of(each) for each in status), *others]


_PROJECTIONS: Mapping[
    type[RowOperation[Any]],
    Callable[[Any, Status, RowColumns, RowColumns], tuple[list[Projection], Status]],
] = {Filter: _filter, Generate: _generate, Project: _project, Tombstone: _tombstone}
