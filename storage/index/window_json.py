"""Windows as the JSON bytes that the API answers, built for whole Arrow columns at once.

The index keeps each window as finished JSON, so an answer is a join of bytes. Built with
Arrow kernels, column by column; no Python runs per row.

Rules: strings escape the quote, the backslash and control characters; integers keep all
digits; doubles are the shortest text that reads back equal, whole ones as ``12.0``; NaN,
the infinities and null are ``null``; arrays follow the rules of their items.
"""

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

_CONTROL_CHARACTERS = [chr(code) for code in range(32)]
_NEEDS_ESCAPE = '["\\\\\\x00-\\x1f]'


def window_json(columns: Sequence[tuple[str, Any]]) -> Any:
    """One flat JSON object per row, with these named columns in this order.

    Takes Arrow arrays of one length and gives a binary array.
    """
    pieces: list[Any] = []
    opening = "{"
    for name, column in columns:
        pieces += [pa.scalar(f"{opening}{_quote(name)}:"), json_texts(column)]
        opening = ","
    pieces.append(pa.scalar("}"))
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def json_texts(column: Any) -> Any:
    """The JSON text of each value of an Arrow array; null becomes ``null``."""
    kind = column.type
    if pa.types.is_string(kind):
        texts = _strings(column)
    elif pa.types.is_floating(kind):
        texts = _doubles(column)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.string())
    elif pa.types.is_list(kind):
        texts = _lists(column)
    else:
        message = f"no JSON form is defined for columns of type {kind}"
        raise TypeError(message)
    return texts.fill_null("null")


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()


def _strings(column: Any) -> Any:
    if pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE)).as_py():
        column = _escape(column)
    return pc.binary_join_element_wise(pa.scalar('"'), column, pa.scalar('"'), "")


def _escape(column: Any) -> Any:
    # The backslash goes first: the others bring new ones.
    for character in ("\\", '"', *_CONTROL_CHARACTERS):
        if pc.any(pc.match_substring(column, character)).as_py():
            column = pc.replace_substring(column, character, _quote(character)[1:-1])
    return column


def _doubles(column: Any) -> Any:
    texts = pc.if_else(pc.is_finite(column), column, None).cast(pa.string())
    whole = pc.invert(pc.match_substring_regex(texts, "[.e]"))
    return pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _lists(column: Any) -> Any:
    # flatten() leaves out what null lists hide; the lengths of the others count up to it.
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    items = pa.ListArray.from_arrays(offsets, json_texts(column.flatten()))
    texts = pc.binary_join_element_wise("[", pc.binary_join(items, ","), "]", "")
    return pc.if_else(column.is_valid(), texts, None)
