"""Places in an order of several columns, as conditions on rows."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def is_behind(
    columns: pa.Schema, place: Sequence[Any], *, backward: bool = False, inclusive: bool = False
) -> Any:
    """The condition that a row comes after a place, in the order of these columns.

    ``backward``: in the order the other way round. ``inclusive``: or is at it.
    """
    condition = pc.scalar(value=inclusive)
    for field, value in reversed(list(zip(columns, place, strict=True))):
        column, bound = pc.field(field.name), pa.scalar(value, field.type)
        is_beyond = column < bound if backward else column > bound
        condition = is_beyond | ((column == bound) & condition)
    return condition
