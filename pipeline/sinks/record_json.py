"""Values of records as JSON, column by column, in the form of Spark's ``to_json``.

Messages of output topics had this form when Spark wrote them, and consumers parse it:

    numbers      all digits. Doubles and decimals as Java prints them: ``1.0E10``, ``0E-7``
    NaN, inf     the strings "NaN", "Infinity" and "-Infinity"
    times        ``2026-01-31T12:00:00.000Z`` with a time zone, and without one all six digits
    bytes        base64
    maps         objects, whose names are the texts of the keys
    null         ``null``, never a missing name

Python does not run per record, except for bytes, intervals, and years outside 0 to 9999.
"""

import base64
from collections.abc import Callable, Sequence

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.index import json_strings

#: Characters that Java's writer escapes as ``\\u001F``, where orjson writes ``\\u001f``.
_UPPER_HEX = [orjson.dumps(chr(code)).decode()[1:-1] for code in range(32) if code % 16 > 9]
_UPPER_HEX = [text for text in _UPPER_HEX if text.startswith("\\u")]
#: Doubles in this range have no exponent.
_PLAIN_LEAST, _PLAIN_END = 1e-3, 1e7
#: The powers of ten whose doubles Arrow writes without an exponent, but Java with one.
_ARROW_PLAIN = (*range(-6, -3), *range(7, 16))
_DAY_US, _FIRST_YEAR_DAYS, _END_YEAR_DAYS = 86_400_000_000, -719_528, 2_932_897


def record_json(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return one JSON object per row.

    Args:
        names: The names of the values.
        columns: The values, arrays of one length.
        rows: That length, because a record can have no values.

    Returns:
        A binary array.

    Raises:
        TypeError: A column has a type that Spark does not write.

    Example:
        >>> record_json(["v", "t"], [pa.array([1.5]), pa.array([None], pa.string())], 1).to_pylist()
        [b'{"v":1.5,"t":null}']
    """
    if not names:
        return pa.repeat(pa.scalar(b"{}"), rows)
    return _object_texts(names, columns).cast(pa.binary())


def _object_texts(names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
    pieces: list[object] = []
    opening = "{"
    for name, column in zip(names, columns, strict=True):
        quoted = _string_texts(pa.array([name]))[0].as_py()
        pieces += [pa.scalar(f"{opening}{quoted}:"), _texts(column).fill_null("null")]
        opening = ","
    return pc.binary_join_element_wise(*pieces, pa.scalar("}"), "")


def _texts(column: pa.Array) -> pa.Array:
    """Return the JSON text of each value, and null for null."""
    of_type = column.type
    for is_type, texts_of in _TEXTS:
        if is_type(of_type):
            return texts_of(column)
    message = f"values of type {of_type} cannot be written as JSON"
    raise TypeError(message)


def _plain_texts(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _string_texts(column: pa.Array) -> pa.Array:
    column = column.cast(pa.string())
    texts = json_strings(column)
    for lower in _UPPER_HEX:
        if pc.any(pc.match_substring(texts, lower)).as_py():
            # An escaped backslash before "u001f" is text of the value.
            pattern = rf"(^|[^\\])((?:\\\\)*)\\{lower[1:]}"
            upper = rf"\1\2\\u{lower[2:].upper()}"
            # Twice, because neighbors share the character between them.
            for _ in range(2):
                texts = pc.replace_substring_regex(texts, pattern=pattern, replacement=upper)
    return pc.if_else(column.is_valid(), texts, None)


def _double_texts(column: pa.Array) -> pa.Array:
    """Return doubles or floats as Java prints them, with the fewest digits that read back equal."""
    column = pc.if_else(column.is_valid(), column, None)
    texts = column.cast(pa.string())
    sizes = pc.abs(column)
    is_plain = pc.or_(
        pc.and_(pc.greater_equal(sizes, _PLAIN_LEAST), pc.less(sizes, _PLAIN_END)),
        pc.equal(sizes, 0),
    )
    # Arrow writes 12.0 as 12.
    is_whole = pc.and_(is_plain, pc.equal(column, pc.trunc(column)))
    with_point = pc.binary_join_element_wise(texts, ".0", "")
    texts = pc.if_else(is_whole, with_point, texts)
    others = pc.and_(pc.invert(is_plain), column.is_valid())
    if not pc.any(others).as_py():
        return texts
    return pc.replace_with_mask(texts, others, _with_exponent(texts.filter(others)))


def _with_exponent(texts: pa.Array) -> pa.Array:
    """Return Java's form of numbers with an exponent, of NaN and of the infinities."""

    def replaced(pattern: str, by: str) -> pa.Array:
        return pc.replace_substring_regex(texts, pattern=pattern, replacement=by)

    for power in _ARROW_PLAIN:
        if power > 0:
            texts = replaced(rf"^(-?\d)(\d{{{power}}})(?:\.(\d+))?$", rf"\1.\2\3E{power}")
        else:
            zeros = "0" * (-power - 1)
            texts = replaced(rf"^(-?)0\.{zeros}([1-9])(\d*)$", rf"\1\2.\3E{power}")
    texts = replaced(r"^(-?\d)e", r"\1.0e")
    texts = replaced(r"e\+?", "E")
    texts = replaced(r"(\.\d*?)0+E", r"\1E")
    texts = replaced(r"\.E", ".0E")
    texts = replaced("^nan$", '"NaN"')
    return replaced("^(-?)inf$", r'"\1Infinity"')


def _date_texts(column: pa.Array) -> pa.Array:
    days = column.cast(pa.date32())
    return _quoted(_in_four_digits(days, days.cast(pa.int32()).cast(pa.int64()), "D"))


def _timestamp_texts(column: pa.Array) -> pa.Array:
    zone = column.type.tz
    times_us = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    unit, end = "us", ""
    if zone is not None:
        # Spark's pattern ends with milliseconds and with the zone, which is UTC.
        unit, end = "ms", "Z"
    ticks = times_us if unit == "us" else _whole_quotients(times_us, 1000)
    times = ticks.cast(pa.timestamp(unit))
    texts = _in_four_digits(times, _whole_quotients(times_us, _DAY_US), unit)
    texts = pc.replace_substring(texts, pattern=" ", replacement="T", max_replacements=1)
    return _quoted(pc.binary_join_element_wise(texts, end, ""))


def _whole_quotients(numbers: pa.Array, by: int) -> pa.Array:
    valid = numbers.is_valid()
    divided = np.floor_divide(numbers.fill_null(0).to_numpy(zero_copy_only=False), by)
    return pc.if_else(valid, pa.array(divided, pa.int64()), None)


def _in_four_digits(times: pa.Array, days: pa.Array, unit: str) -> pa.Array:
    """Return texts of dates or times. Arrow does not write years outside 0 to 9999."""
    is_known = pc.and_(
        pc.greater_equal(days, _FIRST_YEAR_DAYS), pc.less(days, _END_YEAR_DAYS)
    ).fill_null(fill_value=True)
    if pc.all(is_known).as_py():
        return times.cast(pa.string())
    texts = pc.if_else(is_known, times, None).cast(pa.string())
    integers = pa.int32() if unit == "D" else pa.int64()
    rare = np.asarray(times.filter(pc.invert(is_known)).cast(integers))
    written = map(_year_text, np.datetime_as_string(rare.astype(f"datetime64[{unit}]")).tolist())
    return pc.replace_with_mask(texts, pc.invert(is_known), pa.array(written, pa.string()))


def _year_text(text: str) -> str:
    """Return a time of numpy with a signed year, as Java writes it."""
    is_negative = text.startswith("-")
    year, rest = text.removeprefix("-").split("-", 1)
    return f"{'-' if is_negative else '+'}{int(year):04}-{rest}".replace("T", " ")


def _base64_texts(column: pa.Array) -> pa.Array:
    texts = [
        None if value is None else base64.b64encode(value).decode()
        for value in column.to_pylist()
    ]  # fmt: skip
    return _quoted(pa.array(texts, pa.string()))


def _duration_texts(column: pa.Array) -> pa.Array:
    """Return intervals of days to seconds as SQL writes them."""

    def text(value_us: int | None) -> str | None:
        if value_us is None:
            return None
        seconds, micros = divmod(abs(value_us), 1_000_000)
        days, seconds = divmod(seconds, 86_400)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{micros:06}".rstrip("0") if micros else ""
        sign = "-" if value_us < 0 else ""
        return f"INTERVAL '{sign}{days} {time}{fraction}' DAY TO SECOND"

    values_us = column.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    return _quoted(pa.array(map(text, values_us), pa.string()))


def _map_texts(column: pa.Array) -> pa.Array:
    lists = column.cast(pa.list_(pa.struct([("key", column.type.key_type),
                                            ("value", column.type.item_type)])))  # fmt: skip
    entries = lists.flatten()
    keys, values = entries.field(0), _texts(entries.field(1)).fill_null("null")
    texts = pc.binary_join_element_wise(_key_texts(keys), ":", values, "")
    return _joined_items(lists, texts, "{", "}")


def _key_texts(keys: pa.Array) -> pa.Array:
    """Return the keys of maps as names. Spark writes dates and times as their numbers."""
    if pa.types.is_date(keys.type):
        keys = keys.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(keys.type) or pa.types.is_duration(keys.type):
        unit = pa.duration("us") if pa.types.is_duration(keys.type) else pa.timestamp("us")
        keys = keys.cast(unit).cast(pa.int64())
    texts = _texts(keys)
    if pa.types.is_nested(keys.type):
        return _string_texts(texts)
    is_quoted = pc.starts_with(texts, '"')
    return pc.if_else(is_quoted, texts, _quoted(texts))


def _joined_items(column: pa.Array, items: pa.Array, opening: str, closing: str) -> pa.Array:
    # flatten() leaves out the items of null lists, so the lengths of all others add up to it.
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths), dtype=np.int64)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), items)
    texts = pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")
    return pc.if_else(column.is_valid(), texts, None)


def _struct_texts(column: pa.Array) -> pa.Array:
    names = [field.name for field in column.type]
    # Children of a null struct can have values.
    texts = (
        _object_texts(names, column.flatten()) if names else pa.repeat(pa.scalar("{}"), len(column))
    )
    return pc.if_else(column.is_valid(), texts, None)


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


_TextsOf = Callable[[pa.Array], pa.Array]
_TEXTS: Sequence[tuple[Callable[[pa.DataType], bool], _TextsOf]] = (
    (pa.types.is_string, _string_texts),
    (pa.types.is_large_string, _string_texts),
    (pa.types.is_integer, _plain_texts),
    (pa.types.is_boolean, _plain_texts),
    (pa.types.is_floating, _double_texts),
    (pa.types.is_decimal, _plain_texts),
    (pa.types.is_timestamp, _timestamp_texts),
    (pa.types.is_date, _date_texts),
    (pa.types.is_binary, _base64_texts),
    (pa.types.is_large_binary, _base64_texts),
    (pa.types.is_duration, _duration_texts),
    (pa.types.is_map, _map_texts),
    (
        pa.types.is_list,
        lambda column: _joined_items(column, _texts(column.flatten()).fill_null("null"), "[", "]"),
    ),
    (pa.types.is_struct, _struct_texts),
    (pa.types.is_null, lambda column: pa.nulls(len(column), pa.string())),
)
