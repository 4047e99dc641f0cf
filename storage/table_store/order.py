"""Conditions on the position of rows in the order of several columns."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def is_after(
    columns: pa.Schema, position: Sequence[Any], *, backward: bool = False, inclusive: bool = False
) -> Any:
    """Return the condition for rows that follow a position in the order of the columns.

    Args:
        columns: The columns that define the order.
        position: A value for each column.
        backward: Use the reverse order.
        inclusive: Also select rows at the position.
    """
    condition = pc.scalar(value=inclusive)
    for field, value in reversed(list(zip(columns, position, strict=True))):
        column, bound = pc.field(field.name), pa.scalar(value, field.type)
        is_beyond = column < bound if backward else column > bound
        condition = is_beyond | ((column == bound) & condition)
    return condition
