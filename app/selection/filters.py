"""Filter items by a condition."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.selection.columns import item_columns
from oriel.storage import StoreDefinition
from oriel.storage.expressions import Expression


@lru_cache(maxsize=256)
def parse_condition(text: str, columns: pa.Schema) -> Expression:
    """Parse a condition over ``columns``. Its result is a column of booleans.

    Raises:
        InvalidParameter: the text is not a condition, or it names an unknown column.

    Example:
        >>> parse_condition("revenue > 100 AND key LIKE 'E%'", columns)
    """
    # sqlglot needs 16 MB of memory, and most workers never have a request with a condition.
    from oriel.app.selection.conditions import parse  # noqa: PLC0415

    return parse(text, columns)


def matching_items(
    items: Sequence[bytes], definition: StoreDefinition, condition: Expression
) -> npt.NDArray[np.int64]:
    """Return the indexes of the JSON items for which a condition is true, in order."""
    return np.flatnonzero(matching_rows(item_columns(items, definition), condition))


def matching_rows(columns: pa.Table, condition: Expression) -> npt.NDArray[np.bool_]:
    """Return for each row whether a condition is true. For false and null, it is false."""
    by_name = dict(zip(columns.column_names, columns.columns, strict=True))
    result = condition.evaluate(by_name)
    if isinstance(result, pa.Scalar):
        result = pa.repeat(result, len(columns))
    mask: npt.NDArray[np.bool_] = np.asarray(pc.fill_null(result, fill_value=False))
    return mask
