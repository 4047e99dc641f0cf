"""Parse a suspicious line exactly as Spark's ``from_json`` does.

Python's JSON scanner reads a line into tokens. They keep information that Python's own types lose:
all pairs of an object with repeated names, and the text of a number. One reader per type converts
tokens to values of columns. This is about ten times slower than Arrow.
"""

import json
import math
import re
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from typing import Any, NoReturn

import pyarrow as pa

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.json_lines.spark_values import base64_bytes, date_days, decimal_value
from oriel.pipeline.decoding.row_errors import WrongType, out_of_range

#: Jackson's limits: levels, digits of a number, and UTF-16 characters of a name and of a string in
#: a column. Two more levels are in use for the list that Spark's decoder puts around a line.
MAX_DEPTH = 998
MAX_DIGITS = 1000
MAX_NAME_LENGTH = 50_000
MAX_STRING_LENGTH = 20_000_000

#: A line with at most this many brackets cannot be deeper than the stack of the scanner allows.
_FEW_BRACKETS = 100

#: The characters of a number with a fraction or an exponent that do not count as digits.
_NOT_DIGITS = re.compile(r"^-?0(?=\.[0-9]+$|[eE])|[-+.eE]")
#: A string, or a bracket outside of strings. A string without an end extends to the line's end.
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|([\[\]{}])', re.DOTALL)
#: JSON's escape of a surrogate pair. ``_SURROGATE`` is the escape of either half.
_SURROGATE_PAIR = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}", re.ASCII
)
#: In JSON of this module: an escape, and a character that Jackson writes as two escapes.
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]", re.ASCII)

#: Converts a token that is not null to a value of a column.
Reader = Callable[[Any], Any]

#: Replaces a record's key that is not a string.
_NOT_A_STRING = object()


class _Integer(str):
    """The text of a number without fraction and exponent."""

    __slots__ = ()


class _Decimal(str):
    """The text of a number with a fraction or an exponent."""

    __slots__ = ()


class _Object(list[tuple[str, Any]]):
    """The names and values of a JSON object, in order."""

    __slots__ = ()


def decode_line(line: bytes, row_type: pa.StructType, string_field: str | None = None) -> Any:
    """Return one line as a dict with the fields of ``row_type``.

    If a field is repeated, the last value counts, but each value must have the type of the column.
    Two checks apply only to the last value: ``string_field`` must be a string, and a number must be
    in the range of a FLOAT or DOUBLE column. Other STRING columns accept each value as JSON text.

    Args:
        line: The bytes of the line.
        row_type: The type of the line.
        string_field: The field that must be a string. Default: no field.

    Returns:
        A dict, or None for JSON's null. For an invalid line, a ``Reason``, or a ``WrongType`` that
        names the field.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return Reason.NOT_UTF8
    depth = _depth(text)
    try:
        with _recursion_limit(depth):
            token = _SCANNER.decode(text) if depth <= MAX_DEPTH else _reject(text)
            row = None if token is None else _row_reader(row_type, string_field)(token)
    except WrongType as error:
        return error
    except ValueError:
        return Reason.NOT_JSON
    # UTF-8 cannot encode half of a surrogate pair. An escaped backslash does not begin an escape.
    if "\\ud" in text or "\\uD" in text:
        pairs_replaced = _SURROGATE_PAIR.sub("_", text.replace("\\\\", "__"))
        if _SURROGATE.search(pairs_replaced):
            return Reason.NOT_JSON
    if string_field is not None and isinstance(row, dict) and row[string_field] is _NOT_A_STRING:
        wrong = WrongType(pa.string(), "a value that is not a string")
        wrong.path.append(string_field)
        return wrong
    return row


def _reject(text: str) -> NoReturn:
    message = f"not JSON: {text[:20]}"
    raise ValueError(message)


def _pairs(pairs: list[tuple[str, Any]]) -> _Object:
    for name, _ in pairs:
        if len(name) > MAX_NAME_LENGTH // 2 and _java_length(name) > MAX_NAME_LENGTH:
            _reject(name)
    return _Object(pairs)


def _integer(digits: str) -> _Integer:
    if len(digits) > MAX_DIGITS and len(digits.lstrip("-")) > MAX_DIGITS:
        _reject(digits)
    return _Integer(digits)


def _decimal(digits: str) -> _Decimal:
    # Jackson does not count a leading zero, unless a fraction and an exponent follow.
    if len(digits) > MAX_DIGITS and len(_NOT_DIGITS.sub("", digits)) > MAX_DIGITS:
        _reject(digits)
    return _Decimal(digits)


_SCANNER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_decimal, parse_constant=_reject
)


def _depth(text: str) -> int:
    """Return the depth of a JSON text, or 0 if it has at most ``_FEW_BRACKETS`` brackets."""
    if text.count("[") + text.count("{") <= _FEW_BRACKETS:
        return 0
    depth = deepest = 0
    for found in _BRACKET.finditer(text):
        if found[1]:
            depth += 1 if found[1] in "[{" else -1
            deepest = max(deepest, depth)
    return deepest


@contextmanager
def _recursion_limit(depth: int) -> Iterator[None]:
    """Raise the recursion limit for the scanner and the readers of a deeply nested text."""
    limit = sys.getrecursionlimit()
    if depth:
        sys.setrecursionlimit(limit + 4 * min(depth, MAX_DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@cache
def _row_reader(row_type: pa.StructType, string_field: str | None) -> Reader:
    """Return the reader of objects as dicts of ``row_type``.

    The reader raises WrongType if a type is wrong. If a number is out of range, it returns a
    WrongType, because the field can be repeated and Spark checks only the last value.
    """
    readers = {field.name: _reader(field.type) for field in row_type}
    if string_field is not None:
        readers[string_field] = lambda token: (
            _checked_string(token) if type(token) is str else _NOT_A_STRING
        )
    names = dict.fromkeys(readers)

    def read(token: Any) -> dict[str, Any] | WrongType:
        if type(token) is not _Object:
            raise _wrong_type(row_type, token)
        row: dict[str, Any] = dict(names)
        name = ""
        try:
            for name, item in token:
                if name in readers:
                    row[name] = None if item is None else readers[name](item)
        except WrongType as error:
            error.path.insert(0, name)
            raise
        for name, value in row.items():
            if type(value) is WrongType:
                value.path.insert(0, name)
                return value
        return row

    return read


def _wrong_type(column_type: pa.DataType, token: Any) -> WrongType:
    return WrongType(column_type, _shown(token))


def _shown(token: Any) -> str:
    """Return a value for a detail: its JSON, or only its kind if it is an object or a list."""
    if type(token) is _Object:
        return "an object"
    if type(token) is list:
        return "a list"
    return str(token) if isinstance(token, _Integer | _Decimal) else json.dumps(token)


def _reader(column_type: pa.DataType) -> Reader:
    types = pa.types
    if types.is_struct(column_type):
        return _row_reader(column_type, None)
    if types.is_map(column_type):
        return _map_reader(column_type)
    if types.is_list(column_type):
        return _list_reader(column_type)
    if types.is_integer(column_type):
        return _integer_reader(column_type)
    if types.is_decimal(column_type):
        return _decimal_reader(column_type)
    return {
        pa.date32(): _read_date,
        pa.binary(): _read_binary,
        pa.string(): lambda token: (
            _checked_string(token) if type(token) is str else _json_text(token)
        ),
        pa.bool_(): _read_boolean,
        pa.float32(): _read_float,
        pa.float64(): _read_double,
    }[column_type]


def _checked_string(text: str) -> str:
    if len(text) > MAX_STRING_LENGTH // 2 and _java_length(text) > MAX_STRING_LENGTH:
        wanted = f"a string of at most {MAX_STRING_LENGTH} characters"
        raise WrongType(wanted, "a longer string")
    return text


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _read_boolean(token: Any) -> bool:
    if type(token) is not bool:
        raise _wrong_type(pa.bool_(), token)
    return token


def _integer_reader(column_type: pa.DataType) -> Reader:
    bits = column_type.bit_width
    fitting = range(-(2 ** (bits - 1)), 2 ** (bits - 1))

    def read(token: Any) -> int:
        if type(token) is not _Integer or (number := _whole_number(token)) not in fitting:
            raise _wrong_type(column_type, token)
        return number

    return read


def _whole_number(token: _Integer) -> int:
    # int() of a string can have a limit of digits, which is at least 640.
    return int(Decimal(token))


def _read_double(token: Any) -> float | WrongType:
    """Return a number as a double. The integer -0 is 0.0."""
    double = _as_double(token, pa.float64())
    return out_of_range(pa.float64(), token) if math.isinf(double) else double


def _read_float(token: Any) -> float | WrongType:
    """Return a number rounded once to 32 bits. The integer -0 is 0.0."""
    double = _as_double(token, pa.float32())
    # Arrow converts the text, because a conversion of the double would round twice.
    single = pa.array([token]).cast(pa.float32())[0].as_py()
    if math.isinf(single):
        return out_of_range(pa.float32(), token)
    return float(single) if double else double


def _as_double(token: Any, column_type: pa.DataType) -> float:
    if type(token) is _Integer:
        return float(token) + 0.0
    if type(token) is not _Decimal:
        raise _wrong_type(column_type, token)
    return float(token)


def _decimal_reader(column_type: pa.Decimal128Type) -> Reader:
    def read(token: Any) -> Decimal:
        text = None
        if type(token) is str:
            text = _checked_string(token).replace(",", "")
        elif isinstance(token, _Integer | _Decimal):
            text = token
        number = decimal_value(text, column_type) if text else None
        if number is None:
            raise _wrong_type(column_type, token)
        return number

    return read


def _read_date(token: Any) -> int:
    """Return a date in days since 1970, because Python has no dates before the year 1."""
    days = date_days(_checked_string(token)) if type(token) is str and token else None
    if days is None:
        raise _wrong_type(pa.date32(), token)
    return days


def _read_binary(token: Any) -> bytes:
    content = base64_bytes(token) if type(token) is str else None
    if content is None:
        raise _wrong_type(pa.binary(), token)
    return content


def _map_reader(column_type: pa.MapType) -> Reader:
    """Return the reader of pairs of name and value, which keeps repeated names.

    It raises WrongType if the keys of the column are not strings.
    """
    read_item = _reader(column_type.item_type)

    def read(token: Any) -> list[tuple[str, Any]] | WrongType:
        if type(token) is not _Object or not pa.types.is_string(column_type.key_type):
            raise _wrong_type(column_type, token)
        pairs = [(name, None if item is None else read_item(item)) for name, item in token]
        return next((item for _, item in pairs if type(item) is WrongType), pairs)

    return read


def _list_reader(column_type: pa.ListType) -> Reader:
    read_item = _reader(column_type.value_type)

    def read(token: Any) -> list[Any] | WrongType:
        if type(token) is not list:
            raise _wrong_type(column_type, token)
        items = [None if item is None else read_item(item) for item in token]
        return next((item for item in items if type(item) is WrongType), items)

    return read


def _json_text(token: Any) -> str:
    """Return a token as Jackson writes it: without blanks, and with numbers as Java prints them."""
    if type(token) is _Object:
        pairs = (f"{_json_text(name)}:{_json_text(item)}" for name, item in token)
        return "{" + ",".join(pairs) + "}"
    if type(token) is list:
        return "[" + ",".join(map(_json_text, token)) + "]"
    if type(token) is _Integer:
        return str(_whole_number(token))
    if type(token) is _Decimal:
        return _java_double(float(token))
    if type(token) is str:
        _checked_string(token)
    text = _ESCAPE.sub(
        lambda escape: escape[0] if len(escape[1]) == 1 else f"\\u{escape[1][1:].upper()}",
        json.dumps(token, ensure_ascii=False),
    )
    return _ASTRAL.sub(
        lambda character: "\\u{:04X}\\u{:04X}".format(
            *struct.unpack(">2H", character[0].encode("utf-16-be"))
        ),
        text,
    )


def _java_double(number: float) -> str:
    """Return a double as ``Double.toString`` writes it since Java 19, and infinity as Jackson does.

    Earlier versions of Java write some numbers with unneeded digits, like 1.9999999999999998E23.
    """
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    # Java writes at least two digits, the nearest ones: 4.9E-324 for 5e-324.
    text = f"{number:.1e}"
    sign, digits, exponent = Decimal(text if float(text) == number else repr(number)).as_tuple()
    mantissa = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + int(exponent)
    if not number:
        plain = "0.0"
    elif 0 < point <= 7:
        plain = f"{mantissa[:point]:0<{point}}.{mantissa[point:] or 0}"
    elif -2 <= point <= 0:
        plain = f"0.{'0' * -point}{mantissa}"
    else:
        plain = f"{mantissa[0]}.{mantissa[1:] or 0}E{point - 1}"
    return "-" + plain if sign else plain
