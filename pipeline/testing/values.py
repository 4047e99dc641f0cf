"""Values of a test's records, read as the pipeline reads JSON (``pipeline/sources``)."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_RANGES = {
    found: range(-(2 ** (found.bit_width - 1)), 2 ** (found.bit_width - 1))
    for found in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
}


def plain(value: Any) -> Any:
    """``value`` made of what JSON knows: numpy's numbers and arrays and tuples are, too.

    Anything else stays as it is; no column takes it.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else repr(name): plain(value[name]) for name in value}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def as_json(value: Any) -> bytes:
    """A plain value as JSON; half of a surrogate pair becomes its escape."""
    text = json.dumps(value, default=repr, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def has_no_json(value: Any) -> bool:
    """Whether a plain value holds what is no number in JSON (NaN), or is no Unicode text."""
    if isinstance(value, dict):
        return any(has_no_json(item) for pair in value.items() for item in pair)
    if isinstance(value, list):
        return any(map(has_no_json, value))
    if isinstance(value, str):
        return any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, float) and not math.isfinite(value)


def read_as(value: Any, found: pa.DataType) -> Any:
    """A plain value as a column of the type ``found`` has it, None for null.

    As Spark's ``from_json``: fields that a struct does not name are ignored, those that are
    missing are null; what is no text becomes its JSON text where text is wanted.

    Raises:
        TypeError: it is of another type, or too large for it.
    """
    if value is None or (pa.types.is_boolean(found) and isinstance(value, bool)):
        return value
    if pa.types.is_string(found) and isinstance(value, str | int | float | list | dict):
        return value if isinstance(value, str) else as_json(value).decode()
    if isinstance(value, dict):
        return _fields(value, found)
    if pa.types.is_list(found) and isinstance(value, list):
        return [read_as(item, found.value_type) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, found)
    raise _wrong(value, found)


def _fields(value: dict[str, Any], found: pa.DataType) -> Any:
    if pa.types.is_struct(found):
        return {field.name: read_as(value.get(field.name), field.type) for field in found}
    if pa.types.is_map(found):
        return [(read_as(k, found.key_type), read_as(v, found.item_type)) for k, v in value.items()]
    raise _wrong(value, found)


def _number(value: float, found: pa.DataType) -> float:
    if pa.types.is_floating(found):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, int) and value in _RANGES.get(found, ()):
        return value
    raise _wrong(value, found)


def _wrong(value: Any, found: pa.DataType) -> TypeError:
    message = f"{value!r} is not of type {found}"
    return TypeError(message)
