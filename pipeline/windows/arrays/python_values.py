"""Arrow values as Python values for functions of users and tests. Structs and maps are dicts."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pyarrow as pa


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: lists, dicts for structs and maps, and plain values.

    If a map has a key twice, as JSON can, the last value counts, as in Java. If Python cannot hash
    the keys (structs and lists), the map remains a list of pairs.
    """
    # Arrow warns of a repeated key when it creates dicts, and a test can turn warnings into errors.
    values = column.to_pylist()
    convert = _dicts_in(column.type)
    return values if convert is None else [convert(value) for value in values]


def python_rows(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts by column, with the values of ``python_values``."""
    found: list[dict[str, Any]] = rows.to_pylist()
    for field in rows.schema:
        convert = _dicts_in(field.type)
        if convert is not None:
            for row in found:
                row[field.name] = convert(row[field.name])
    return found


# The conversion depends on the type only. With the cache, a column without maps costs one lookup
# per call.
@lru_cache(maxsize=1000)
def _dicts_in(column_type: pa.DataType) -> Callable[[Any], Any] | None:
    """Return the function that converts the pairs of maps to dicts, or None without maps."""
    types = pa.types
    if types.is_list(column_type):
        of_element = _dicts_in(column_type.value_type)
        if of_element is None:
            return None
        return lambda items: None if items is None else [of_element(item) for item in items]
    if types.is_struct(column_type):
        of_fields = {field.name: _dicts_in(field.type) for field in column_type}
        changed = {name: each for name, each in of_fields.items() if each is not None}
        # Fields without a map keep their value, so only the others are converted.
        if not changed:
            return None
        return lambda fields: (
            None
            if fields is None
            else fields | {name: of_field(fields[name]) for name, of_field in changed.items()}
        )
    if types.is_map(column_type):
        of_item = _dicts_in(column_type.item_type) or (lambda value: value)
        # ``dict`` keeps the last value of a repeated key, as ``put`` of a map in Java does.
        collect: Callable[[Any], Any] = list if types.is_nested(column_type.key_type) else dict
        return lambda pairs: (
            None if pairs is None else collect((key, of_item(item)) for key, item in pairs)
        )
    return None
