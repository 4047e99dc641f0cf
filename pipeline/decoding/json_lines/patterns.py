"""Regular expressions that tell quickly which lines of a block Arrow's JSON reader refuses.

They are coarse both ways: a match is a reason to look at the line by itself, and where they miss
a line the reader finds it, at more cost. RE2 takes a tenth of the reader's time.
"""

import re
from functools import cache

import pyarrow as pa

_TEXT = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_SCALAR = rf"{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null"
#: So deep a line may be: the envelope, the value, and two levels in it.
_LEVELS = 4

#: An object behind another, which no object has except within a text.
_DOUBLED = r"\}\s*\{"

#: What a value that a column takes can't begin with.
_NO_BEGINNING = {
    "text": r'[^"\sn]',
    "number": r"[^-0-9\sn]",
    "boolean": r"[^tf\sn]",
    "object": r"[^{\sn]",
    "list": r"[^[\sn]",
}
#: Bits of an integer column -> so many digits may be too many for it.
_MANY_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _plain() -> str:
    value = _SCALAR
    for _ in range(_LEVELS - 1):
        value = rf"{_SCALAR}|{_object(value)}|\[\s*(?:\]|(?:(?:{value})\s*[,\]]\s*)+)"
    return rf"^\s*{_object(value)}$"


def _object(value: str) -> str:
    """An object; as nothing follows its last field, that one ends it if the line is JSON."""
    return rf"\{{\s*(?:\}}|(?:{_TEXT}\s*:\s*(?:{value})\s*[,}}]\s*)+)"


#: A line that is JSON, or nearly so.
PLAIN = _plain()


@cache
def misfits(row_type: pa.StructType) -> str:
    """A pattern of lines with a second object, or with a value that its column can't have.

    It finds the fields of ``row_type`` by their names alone, so a name that is there more than
    once is left out.
    """
    columns: list[tuple[str, pa.DataType]] = []
    _collect(row_type, columns)
    names = [name for name, _ in columns]
    by_kind: dict[str, list[str]] = {}
    by_bits: dict[int, list[str]] = {}
    for name, column_type in columns:
        if names.count(name) == 1:
            by_kind.setdefault(_kind(column_type), []).append(re.escape(name))
            inner = column_type.value_type if pa.types.is_list(column_type) else column_type
            if pa.types.is_integer(inner):
                by_bits.setdefault(inner.bit_width, []).append(re.escape(name))
    patterns = [_DOUBLED]
    patterns += [
        rf'"(?:{"|".join(some)})"\s*:\s*{_NO_BEGINNING[kind]}' for kind, some in by_kind.items()
    ]
    patterns += [
        # In a list, too: behind everything that it may have before a number.
        rf'"(?:{"|".join(some)})"\s*:[[,\snul0-9-]*(?:[.eE]|[0-9]{{{_MANY_DIGITS[bits]},}})'
        for bits, some in by_bits.items()
    ]
    return "|".join(patterns)


def _collect(row_type: pa.StructType, columns: list[tuple[str, pa.DataType]]) -> None:
    for field in row_type:
        columns.append((field.name, field.type))
        inner = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(inner):
            _collect(inner, columns)


def _kind(column_type: pa.DataType) -> str:
    types = pa.types
    if types.is_struct(column_type):
        return "object"
    if types.is_list(column_type):
        return "list"
    if types.is_string(column_type):
        return "text"
    return "boolean" if types.is_boolean(column_type) else "number"
