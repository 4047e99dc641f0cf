"""Regular expressions that quickly find the lines of a block that Arrow's JSON reader rejects.

They are approximate. A valid line that they find is parsed alone. An invalid line that they miss is
found by the reader, which costs more. RE2 needs a tenth of the reader's time.
"""

import re
from functools import cache

import pyarrow as pa

_TEXT = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_SCALAR = rf"{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null"
#: The greatest depth of a plain line: the envelope, the value, and two levels in it.
_LEVELS = 4

#: An object after another object. A valid line has this only within a string.
_SECOND_OBJECT = r"\}\s*\{"

#: Kind of a column -> a pattern of the characters with which its values cannot begin. A decimal can
#: also be a string, which then has only the characters of a number.
_INVALID_BEGINNING = {
    "text": r'[^"\sn]',
    "number": r"[^-0-9\sn]",
    "decimal": r'(?:[^-"0-9\sn]|"(?:"|[^"]*[^-+0-9.eE"]))',
    "boolean": r"[^tf\sn]",
    "object": r"[^{\sn]",
    "list": r"[^[\sn]",
}
#: The kinds of columns. Other columns have numbers.
_KINDS = (
    (pa.types.is_struct, "object"),
    (pa.types.is_list, "list"),
    (pa.types.is_string, "text"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_boolean, "boolean"),
)
#: Bits of an integer column -> a number with this many digits can be out of range.
_OUT_OF_RANGE_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _plain() -> str:
    value = _SCALAR
    for _ in range(_LEVELS - 1):
        value = rf"{_SCALAR}|{_object(value)}|\[\s*(?:\]|(?:(?:{value})\s*[,\]]\s*)+)"
    return rf"^\s*{_object(value)}$"


def _object(value: str) -> str:
    """Return a pattern of an object. It allows a comma or a brace after each field."""
    return rf"\{{\s*(?:\}}|(?:{_TEXT}\s*:\s*(?:{value})\s*[,}}]\s*)+)"


#: A pattern of lines that are JSON or nearly JSON.
PLAIN = _plain()


@cache
def misfit_pattern(row_type: pa.StructType) -> str:
    """Return a pattern of lines with a second object, or with a value that does not fit its column.

    The pattern finds the fields of ``row_type`` only by their names. So it leaves out a name that
    several fields have.
    """
    columns: list[tuple[str, pa.DataType]] = []
    _collect(row_type, columns)
    names = [name for name, _ in columns]
    by_kind: dict[str, list[str]] = {}
    by_bits: dict[int, list[str]] = {}
    for name, column_type in columns:
        if names.count(name) == 1:
            kinds = (kind for is_kind, kind in _KINDS if is_kind(column_type))
            by_kind.setdefault(next(kinds, "number"), []).append(re.escape(name))
            inner = column_type.value_type if pa.types.is_list(column_type) else column_type
            if pa.types.is_integer(inner):
                by_bits.setdefault(inner.bit_width, []).append(re.escape(name))
    patterns = [_SECOND_OBJECT]
    patterns += [
        rf'"(?:{"|".join(some)})"\s*:\s*{_INVALID_BEGINNING[kind]}'
        for kind, some in by_kind.items()
    ]
    patterns += [
        # In a list also, after the characters that can precede a number.
        rf'"(?:{"|".join(some)})"\s*:[[,\snul0-9-]*(?:[.eE]|[0-9]{{{_OUT_OF_RANGE_DIGITS[bits]},}})'
        for bits, some in by_bits.items()
    ]
    return "|".join(patterns)


def _collect(row_type: pa.StructType, columns: list[tuple[str, pa.DataType]]) -> None:
    for field in row_type:
        columns.append((field.name, field.type))
        inner = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(inner):
            _collect(inner, columns)
