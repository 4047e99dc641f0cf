"""Convert the columns that Arrow's JSON reader reads to the types of the schema.

Arrow reads dates and bytes as strings, maps as lists of entries, and decimals with more digits than
their columns have. Other types stay unchanged. Values in an unusual notation are left to the reader
of single lines.
"""

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.windows import Flags

#: The greatest precision of ``decimal256``.
_MAX_PRECISION = 76

#: A date with four, two and two digits, and any text after a blank or a ``T``.
_USUAL_DATE = r"(?s)^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T].*)?$"
_DATE_LENGTH = 10

_GROUP = "[A-Za-z0-9+/]"
#: Base64 in one part, with padding.
_USUAL_BASE64 = rf"^(?:{_GROUP}{{4}})*(?:{_GROUP}{{2}}==|{_GROUP}{{3}}=)?$"
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
#: Character -> its six bits, 0 for other characters.
_SIX_BITS = np.zeros(256, np.uint32)
_SIX_BITS[list(_ALPHABET)] = np.arange(len(_ALPHABET))
_PADDING = ord("=")

#: A column, and which of its rows have to be read one by one.
Converted = tuple[pa.Array, Flags]


def types_in(column_type: pa.DataType) -> Iterator[pa.DataType]:
    """Yield a type and all types in it."""
    yield column_type
    for index in range(column_type.num_fields):
        yield from types_in(column_type.field(index).type)


def json_type(column_type: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow's JSON reader reads a column of ``column_type``."""
    types = pa.types
    if types.is_struct(column_type):
        return pa.struct([(field.name, json_type(field.type)) for field in column_type])
    if types.is_list(column_type):
        return pa.list_(json_type(column_type.value_type))
    if types.is_map(column_type):
        entry = [("key", pa.string()), ("value", json_type(column_type.item_type))]
        return pa.list_(pa.struct(entry))
    if types.is_decimal(column_type):
        # As many additional digits as the reader supports. It rejects a number with more digits
        # than the precision. Then it multiplies it by a power of ten, up to the scale, and does not
        # detect an overflow. So precision + scale must not exceed the greatest precision.
        precision, scale = column_type.precision, column_type.scale
        read_scale = scale + (_MAX_PRECISION - precision - scale) // 2
        return pa.decimal256(_MAX_PRECISION - read_scale, read_scale)
    return (
        pa.string() if types.is_date(column_type) or types.is_binary(column_type) else column_type
    )


def converted(column: pa.Array, column_type: pa.DataType) -> Converted:
    """Convert a column that Arrow has read to ``column_type``.

    Args:
        column: The column, with the type ``json_type(column_type)``.
        column_type: The type of the result.

    Returns:
        The column, and which rows contain a value that has to be read one by one. A part of such a
        row can be null. JSON has no infinity, but Arrow rounds a number that is out of range to
        infinity, so an infinite number is such a value.
    """
    for is_type, convert in _CONVERSIONS:
        if is_type(column_type):
            return convert(column, column_type)
    return column, np.zeros(len(column), np.bool_)


def _struct(column: pa.StructArray, struct_type: pa.StructType) -> Converted:
    unread = np.zeros(len(column), np.bool_)
    fields = []
    for field, child in zip(struct_type, column.flatten(), strict=True):
        values, is_unread = converted(child, field.type)
        fields.append(values)
        unread |= is_unread
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(fields, fields=list(struct_type), mask=mask), unread


def _list(column: pa.ListArray, list_type: pa.ListType) -> Converted:
    values, is_unread = converted(column.values, list_type.value_type)
    mask = column.is_null() if column.null_count else None
    lists = pa.ListArray.from_arrays(column.offsets, values, type=list_type, mask=mask)
    return lists, _rows_of(column, is_unread)


def _map(column: pa.ListArray, map_type: pa.MapType) -> Converted:
    """Convert lists of entries. If an entry has no key, the column was not a valid object."""
    entries = column.values
    keys, items = entries.flatten()
    items, is_unread = converted(items, map_type.item_type)
    if keys.null_count:
        is_unread = is_unread | np.asarray(keys.is_null())
        keys = keys.fill_null("")
    unread = _rows_of(column, is_unread)
    mask = column.is_null() if column.null_count else None
    maps = pa.MapArray.from_arrays(column.offsets, keys, items, type=map_type, mask=mask)
    return maps, unread


def _rows_of(column: pa.ListArray, items: Flags) -> Flags:
    """Return which lists contain one of ``items``."""
    rows = np.zeros(len(column), np.bool_)
    starts = np.asarray(column.offsets)
    rows[np.searchsorted(starts, np.flatnonzero(items), side="right") - 1] = True
    return rows


def _decimals(numbers: pa.Decimal256Array, decimal_type: pa.Decimal128Type) -> Converted:
    """Round half up. Numbers that are rounded out of the range of the column are null."""
    try:
        return numbers.cast(decimal_type), np.zeros(len(numbers), np.bool_)
    except pa.ArrowInvalid:
        # A number has more digits than the column.
        pass
    too_large = pc.greater(pc.abs(numbers), _greatest(decimal_type, numbers.type))
    unread = np.asarray(pc.fill_null(too_large, False))  # noqa: FBT003
    fitting = _null_where(unread, numbers)
    rounded = pc.round(fitting, decimal_type.scale, "half_towards_infinity")
    return rounded.cast(decimal_type), unread


@cache
def _greatest(decimal_type: pa.Decimal128Type, read_type: pa.Decimal256Type) -> pa.Scalar:
    """Return the greatest number of ``read_type`` that fits a column after rounding."""
    digits = "9" * decimal_type.precision
    if read_type.scale > decimal_type.scale:
        digits += "4" + "9" * (read_type.scale - decimal_type.scale - 1)
    number = Decimal((0, tuple(map(int, digits)), -read_type.scale))
    return pa.scalar(number, read_type)


def _dates(texts: pa.StringArray, date_type: pa.DataType) -> Converted:
    try:
        return texts.cast(date_type), np.zeros(len(texts), np.bool_)
    except pa.ArrowInvalid:
        pass
    is_usual = pc.fill_null(pc.match_substring_regex(texts, _USUAL_DATE), False)  # noqa: FBT003
    usual = pc.if_else(is_usual, texts, "1970-01-01")
    year, month, day = (
        np.asarray(pc.utf8_slice_codeunits(usual, start, stop).cast(pa.int64()))
        for start, stop in ((0, 4), (5, 7), (8, _DATE_LENGTH))
    )
    months = ((year - 1970) * 12 + month - 1).astype("M8[M]")
    days = months.astype("M8[D]") + (day - 1)
    exists = (month >= 1) & (month <= 12) & (days.astype("M8[M]") == months)
    is_read = np.asarray(is_usual) & exists
    dates = pa.array(days.astype(np.int64).astype(np.int32), mask=~is_read).cast(date_type)
    return dates, np.asarray(texts.is_valid()) & ~is_read


def _bytes(texts: pa.StringArray, binary_type: pa.DataType) -> Converted:
    is_usual = pc.fill_null(pc.match_substring_regex(texts, _USUAL_BASE64), False)  # noqa: FBT003
    usual = pc.if_else(is_usual, texts, "").cast(binary_type)
    found = BlockBytes(usual)
    lengths = found.ends - found.starts
    # Each text has groups of four characters, so the groups of all texts are aligned.
    bits = _SIX_BITS[found.data].reshape(-1, 4) << np.array([18, 12, 6, 0], np.uint32)
    groups = bits.sum(axis=1, dtype=np.uint32)
    read = (groups[:, None] >> np.array([16, 8, 0], np.uint32)).astype(np.uint8).ravel()
    ends = found.ends[lengths > 0]
    padding = np.zeros(len(lengths), np.int32)
    is_kept = np.ones(len(read), np.bool_)
    for place in (1, 2):
        is_padding = found.data[ends - place] == _PADDING
        padding[lengths > 0] += is_padding
        is_kept[ends[is_padding] // 4 * 3 - place] = False
    offsets = np.concatenate([[0], np.cumsum(lengths // 4 * 3 - padding)]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(read[is_kept])]
    values = pa.Array.from_buffers(binary_type, len(texts), buffers)
    unread = np.asarray(texts.is_valid()) & ~np.asarray(is_usual)
    return _null_where(~np.asarray(is_usual), values), unread


def _null_where(rows: Flags, column: pa.Array) -> pa.Array:
    return (
        pc.if_else(pa.array(rows), pa.scalar(None, column.type), column) if rows.any() else column
    )


_CONVERSIONS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, pa.DataType], Converted]], ...
] = (
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
    (
        pa.types.is_floating,
        lambda numbers, _type: (
            numbers,
            np.asarray(pc.fill_null(pc.is_inf(numbers), False)),  # noqa: FBT003
        ),
    ),
    (pa.types.is_decimal, _decimals),
    (pa.types.is_date, _dates),
    (pa.types.is_binary, _bytes),
)
