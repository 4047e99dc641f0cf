"""From what a user's function returned to values of Arrow types, decided once a column.

``typed`` is the rule, for any value and type. A ``Converter`` gives the same for one type, and
gives a value that is right already back at the price of comparing its Python type: functions are
called for every record, and nearly all that they return is right.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

_LEAST_INT64, _GREATEST_INT64 = -(2**63), 2**63 - 1


class Converter(NamedTuple):
    """What brings values to one Arrow type.

    A value whose Python type is ``exact`` stays as it is, and can't be changed in place. All
    others, and only they, need ``convert``; it takes the exact ones, too.
    """

    exact: type | None
    convert: Callable[[Any], Any]


def converter(column_type: pa.DataType) -> Converter:
    """The converter to ``column_type``; it raises as ``typed`` does."""
    convert = partial(typed, column_type=column_type)
    if pa.types.is_list(column_type):
        return Converter(None, partial(_as_list, converter(column_type.value_type), column_type))
    if pa.types.is_float64(column_type):
        return Converter(float, convert)
    if pa.types.is_boolean(column_type):
        return Converter(bool, convert)
    if pa.types.is_integer(column_type):
        return Converter(None, partial(_as_integer, column_type))
    if pa.types.is_string(column_type):
        return Converter(None, partial(_as_text, column_type))
    return Converter(None, convert)


def typed(value: Any, column_type: pa.DataType) -> Any:
    """``value`` as the Arrow type says, always a copy.

    Raises:
        TypeError, ValueError: it is of another type, or too large for it.
    """
    if value is None:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if pa.types.is_list(column_type) and isinstance(value, list | tuple):
        return [typed(item, column_type.value_type) for item in value]
    if pa.types.is_floating(column_type) and isinstance(value, int | float):
        return float(value)
    if pa.types.is_integer(column_type) and isinstance(value, int):
        if not _LEAST_INT64 <= value <= _GREATEST_INT64:
            message = f"{value} does not fit into 64 bits"
            raise ValueError(message)
        return int(value)
    if pa.types.is_string(column_type) and isinstance(value, str):
        return _as_utf8(value)
    if pa.types.is_boolean(column_type) and isinstance(value, bool):
        return value
    message = f"{value!r} is not of type {column_type}"
    raise TypeError(message)


def _as_list(items: Converter, column_type: pa.DataType, value: Any) -> Any:
    if type(value) is not list:
        return typed(value, column_type)
    exact, convert = items
    return [item if type(item) is exact else convert(item) for item in value]


def _as_integer(column_type: pa.DataType, value: Any) -> Any:
    if type(value) is int and _LEAST_INT64 <= value <= _GREATEST_INT64:
        return value
    return typed(value, column_type)


def _as_text(column_type: pa.DataType, value: Any) -> Any:
    return _as_utf8(value) if type(value) is str else typed(value, column_type)


def _as_utf8(value: str) -> str:
    """A text as it will be saved.

    Raises:
        UnicodeEncodeError (a ValueError): it has half a surrogate pair, which UTF-8 can't hold.
    """
    return value if value.isascii() else value.encode().decode()
