"""Conversion of the results of user-defined functions to Arrow types, prepared once per column.

``typed`` converts any value to any type. A ``Converter`` has the same results for one type. It is
faster, because it returns a value with the right Python type after one comparison of types.
Functions are called for every record, and nearly all results have the right type.
"""

from collections.abc import Callable, Mapping
from ctypes import c_float
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

#: ``typed`` for one type.
_Rule = Callable[[Any], Any]


#: Python type -> the columns that accept its values unchanged.
_PLAIN_TYPES: Mapping[type, Callable[[pa.DataType], bool]] = {
    bool: pa.types.is_boolean,
    bytes: pa.types.is_binary,
    date: pa.types.is_date,
    Decimal: pa.types.is_decimal,
}


class Converter(NamedTuple):
    """The conversion of values to one Arrow type.

    A value of the Python type ``exact`` needs no conversion, and nothing can change it in place.
    All other values need ``convert``, which also accepts exact values.
    """

    exact: type | None
    convert: Callable[[Any], Any]


def converter(column_type: pa.DataType, path: str = "") -> Converter:
    """Return the converter to ``column_type``, with the errors of ``typed``."""
    types = pa.types
    exact: type | None = None
    convert: _Rule = partial(typed, column_type=column_type, path=path)
    if types.is_list(column_type):
        convert = partial(_as_list, converter(column_type.value_type), convert)
    elif types.is_struct(column_type):
        fields = {field.name: converter(field.type) for field in column_type}
        convert = partial(_as_struct, fields, convert)
    elif types.is_map(column_type):
        entry = converter(column_type.key_type), converter(column_type.item_type)
        convert = partial(_as_map, *entry, convert)
    elif types.is_float64(column_type):
        exact = float
    elif types.is_boolean(column_type):
        exact = bool
    # An int can exceed the type, and a string can have half a surrogate pair. The Python type is
    # therefore not enough for both.
    elif types.is_integer(column_type):
        convert = partial(_as_integer, _bounds(column_type), convert)
    elif types.is_string(column_type):
        convert = partial(_as_string, convert)
    return Converter(exact, convert)


def typed(value: Any, column_type: pa.DataType, path: str = "") -> Any:
    """Return ``value`` in the Arrow type as a copy. Structs and maps are dicts.

    Args:
        value: A result of a user-defined function, or a value in it.
        column_type: The type of the column.
        path: The position of the value in the result, for messages. For example, ``top[0].clicks``,
            or an empty string for the result itself.

    Raises:
        TypeError, ValueError: The value has another type, or is too large for the type.
    """
    if value is None:
        return None
    # np.int64 is not an int, and np.bool_ is not a bool, so both would be rejected below.
    if isinstance(value, np.generic):
        value = value.item()
    if pa.types.is_nested(column_type):
        return _typed_nested(value, column_type, path)
    if pa.types.is_floating(column_type) and isinstance(value, int | float):
        return _as_float(value, column_type, path)
    if pa.types.is_integer(column_type) and isinstance(value, int):
        least, greatest = _bounds(column_type)
        if not least <= value <= greatest:
            message = (
                f"{_message_prefix(path)}{_shown(value)} does not fit into "
                f"{column_type.bit_width} bits"
            )
            raise ValueError(message)
        return int(value)
    if pa.types.is_string(column_type) and isinstance(value, str):
        try:
            return _as_utf8(value)
        except UnicodeEncodeError as error:
            message = (
                f"{_message_prefix(path)}{_shown(value)} has half a surrogate pair, which UTF-8 "
                "cannot encode"
            )
            raise ValueError(message) from error
    if type(value) in _PLAIN_TYPES and _PLAIN_TYPES[type(value)](column_type):
        # If a decimal does not fit, Arrow raises a ValueError.
        return pa.scalar(value, column_type).as_py()
    raise _type_error(value, column_type, path)


def _typed_nested(value: Any, column_type: pa.DataType, path: str) -> Any:
    """Return a list, a struct or a map as ``typed`` does."""
    if pa.types.is_list(column_type) and isinstance(value, list | tuple):
        item_type = column_type.value_type
        return [typed(item, item_type, f"{path}[{n}]") for n, item in enumerate(value)]
    if not isinstance(value, dict):
        raise _type_error(value, column_type, path)
    if pa.types.is_struct(column_type):
        names = [field.name for field in column_type]
        unknown = sorted(_shown(name) for name in value.keys() - set(names))
        missing = [repr(name) for name in names if name not in value]
        if unknown or missing:
            wrong = f"has no field {', '.join(unknown)}" if unknown else ""
            lacks = f"needs {', '.join(missing)} (use None for null)" if missing else ""
            problem = " and ".join(filter(None, (wrong, lacks)))
            message = f"{_type_error(value, column_type, path)}, which {problem}"
            raise TypeError(message)
        prefix = f"{path}." if path else ""
        return {
            field.name: typed(value[field.name], field.type, f"{prefix}{field.name}")
            for field in column_type
        }
    if pa.types.is_map(column_type):
        key_type, item_type = column_type.key_type, column_type.item_type
        if None in value:
            message = f"{_message_prefix(path)}None cannot be a key of a {column_type}"
            raise TypeError(message)
        return {
            typed(key, key_type, f"{path}, the key {_shown(key)}"): typed(
                item, item_type, f"{path}[{_shown(key)}]"
            )
            for key, item in value.items()
        }
    raise _type_error(value, column_type, path)


def _type_error(value: Any, column_type: pa.DataType, path: str) -> TypeError:
    return TypeError(f"{_message_prefix(path)}{_shown(value)} is not of type {column_type}")


def _shown(value: Any) -> str:
    """Return a value as text for messages."""
    try:
        return repr(value)
    # Python does not convert an integer with more than 4300 digits to text. The message must still
    # have the path.
    except ValueError:
        return f"an object of the type {type(value).__name__}"


def _message_prefix(path: str) -> str:
    """Return the start of a message about the value at ``path``."""
    return f"{path.removeprefix(', ')}: " if path else ""


def _bounds(integers: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    # Spark has only signed integers.
    half = 2 ** (integers.bit_width - 1)
    return -half, half - 1


def _as_list(items: Converter, rule: _Rule, value: Any) -> Any:
    if type(value) is not list:
        return rule(value)
    # The new list also protects the aggregate from a function that changes its own list later.
    exact, convert = items
    try:
        return [item if type(item) is exact else convert(item) for item in value]
    except (TypeError, ValueError):
        # Only the rule knows the path to the wrong value.
        return rule(value)


def _as_struct(fields: dict[str, Converter], rule: _Rule, value: Any) -> Any:
    # Only the rule names the fields that are missing or unknown.
    if type(value) is not dict or value.keys() != fields.keys():
        return rule(value)
    try:
        return {
            name: item if type(item := value[name]) is exact else convert(item)
            for name, (exact, convert) in fields.items()
        }
    except (TypeError, ValueError):
        return rule(value)


def _as_map(keys: Converter, items: Converter, rule: _Rule, value: Any) -> Any:
    # A map in Arrow cannot have a null key. The rule raises the error for it.
    if type(value) is not dict or None in value:
        return rule(value)
    try:
        return {keys.convert(key): items.convert(item) for key, item in value.items()}
    except (TypeError, ValueError):
        return rule(value)


def _as_float(value: float, column_type: pa.DataType, path: str) -> float:
    """Return a number as it is stored, without the class of the user.

    Raises:
        ValueError: An integer is too large for a double.
    """
    try:
        number = float(value)
    except OverflowError as error:
        message = f"{_message_prefix(path)}{_shown(value)} does not fit into the type {column_type}"
        raise ValueError(message) from error
    # The state has 0.10000000149011612 for 0.1 in 32 bits. The next call must receive the same
    # number if no batch ends before it. ``np.float32`` would warn about 1e39, which becomes inf.
    return c_float(number).value if pa.types.is_float32(column_type) else number


def _as_integer(bounds: tuple[int, int], rule: _Rule, value: Any) -> Any:
    least, greatest = bounds
    if type(value) is int and least <= value <= greatest:
        return value
    return rule(value)


def _as_string(rule: _Rule, value: Any) -> Any:
    try:
        return _as_utf8(value) if type(value) is str else rule(value)
    except UnicodeEncodeError:
        # Only the rule knows the path to the string.
        return rule(value)


def _as_utf8(value: str) -> str:
    """Return a string as it is stored, without the class of the user.

    Raises:
        UnicodeEncodeError (a ValueError): The string has half a surrogate pair, which UTF-8 cannot
            encode.
    """
    # Half a surrogate pair raises in ``encode``, and an ASCII string does not have it. CPython
    # keeps a flag for ASCII, so the test does not read the string.
    if type(value) is str and value.isascii():
        return value
    # A subclass can have an ``encode`` of its own.
    return str.encode(value).decode()
