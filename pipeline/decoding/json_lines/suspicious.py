"""Find lines that Arrow's JSON reader could read differently from Spark, by their bytes.

Arrow's reader accepts NaN and Infinity, skips empty lines, and reads several objects on a line as
several lines. It ends at a NUL and has no limits. For a decimal with an exponent, or with many
digits after the point, it is unsafe. A line that could be such a case is suspicious. The search
must find all such lines, but it can be coarse, so most suspicious lines are valid.

The search ignores errors that Arrow's reader rejects itself: syntax, wrong types, repeated fields
and halves of surrogate pairs.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.decoding.json_lines.lines import MAX_DEPTH, MAX_DIGITS, MAX_NAME_LENGTH
from oriel.pipeline.windows import Flags, Ints

_BLANKS = np.isin(np.arange(256), list(b" \t\r\n"))
_NUMBER_CHARACTERS = np.isin(np.arange(256), list(b"0123456789+-.eE"))
#: Characters that can precede a value.
_BEFORE_VALUE = np.isin(np.arange(256), list(b":,[- \t\r\n"))
#: Characters that can follow a value.
_AFTER_VALUE = np.isin(np.arange(256), list(b",]} \t\r\n"))
#: The search for numbers with more than ``MAX_DIGITS`` digits reads every eighth byte.
_STEP = 8
#: A number with an exponent, and an escaped character of a number in a string.
_EXPONENT = r'[0-9.][eE][-+]*[0-9]+["\s,\]}]|\\u00(?:3[0-9]|[46]5|2[bBdDeE])'
#: At most this many blanks before or after an object are skipped.
_FEW_BLANKS = 8


def suspicious_lines(lines: pa.BinaryArray, column_types: Iterable[pa.DataType]) -> Flags:
    """Return which lines have to be parsed one by one.

    Args:
        lines: The lines, without nulls.
        column_types: The types as which Arrow reads the columns, at any depth.
    """
    found = BlockBytes(lines)
    suspicious = ~_is_in_braces(found) | _is_not_utf8(found) | _can_exceed_limits(found)
    data = found.data
    positions = [np.flatnonzero(data == 0), _values(data, b"NaN"), _values(data, b"Inf")]
    column_types = set(column_types)
    if any(map(pa.types.is_floating, column_types)):
        # Spark reads the integer -0 as 0.0, and Arrow reads it as -0.0.
        zeros = _values(data, b"-0")
        positions.append(zeros[_AFTER_VALUE[data[zeros + 2]]])
    suspicious[found.line_indexes(np.concatenate(positions))] = True
    scales = [each.scale for each in column_types if pa.types.is_decimal(each)]
    if scales:
        # Arrow's reader looks up the power of ten for the digits of a decimal without a check of
        # the bounds of its table. An exponent like e-2147483647 would crash the process.
        unsafe = rf"{_EXPONENT}|\.[0-9]{{{min(scales) + 1}}}"
        suspicious |= np.asarray(pc.match_substring_regex(lines, unsafe))
    return suspicious


def _is_in_braces(found: BlockBytes) -> Flags:
    """Return whether each line is ``{...}``, with at most a few blanks around it.

    If this is true for all lines, and together they are valid JSON, each line has at least one
    object. A string cannot extend over the end of a line, and no value can follow a brace.
    """
    if not len(found.data):
        return np.zeros(len(found.starts), np.bool_)
    first, last = found.starts.copy(), found.ends - 1
    np.minimum(first, len(found.data) - 1, out=first)
    np.maximum(last, 0, out=last)
    for _ in range(_FEW_BLANKS):
        blank_before, blank_after = _BLANKS[found.data[first]], _BLANKS[found.data[last]]
        if not (blank_before.any() or blank_after.any()):
            break
        first += blank_before & (first < last)
        last -= blank_after & (first < last)
    braces = (found.data[first] == ord("{")) & (found.data[last] == ord("}"))
    in_braces: Flags = braces & (found.ends > found.starts)
    return in_braces


def _is_not_utf8(found: BlockBytes) -> Flags:
    invalid = np.zeros(len(found.starts), np.bool_)
    if not len(found.data) or found.data.max() < 128:
        return invalid
    try:
        found.lines.cast(pa.string())
    except pa.ArrowInvalid:
        for index in np.unique(found.line_indexes(np.flatnonzero(found.data >= 128))).tolist():
            try:
                found.lines[index].as_py().decode()
            except UnicodeDecodeError:
                invalid[index] = True
    return invalid


def _can_exceed_limits(found: BlockBytes) -> Flags:
    """Return whether each line can exceed a limit: the depth, or the length of a number or name."""
    length = found.ends - found.starts
    long = length >= min(MAX_DEPTH, MAX_DIGITS)
    if not long.any():
        return np.zeros(len(length), np.bool_)
    # In ASCII, { is [ with one more bit set.
    brackets = found.line_indexes(np.flatnonzero((found.data | 0x20) == ord("{")))
    depth = np.bincount(brackets, minlength=len(length))
    exceeds: Flags = (depth > MAX_DEPTH) | (length > MAX_NAME_LENGTH)
    # Each line of a part that can be a number with excessive digits.
    others = np.flatnonzero(~_NUMBER_CHARACTERS[found.data[::_STEP]])
    ends = np.concatenate(([-1], others, [-(-len(found.data) // _STEP)]))
    ranges = np.flatnonzero(np.diff(ends) > MAX_DIGITS // _STEP)
    firsts = found.line_indexes((ends[ranges] + 1) * _STEP)
    lasts = found.line_indexes((ends[ranges + 1] - 1) * _STEP)
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        exceeds[first : last + 1] = True
    exceeds &= long
    return exceeds


def _values(data: npt.NDArray[np.uint8], literal: bytes) -> Ints:
    """Return the positions where ``literal`` can begin a value. Some can be within a string."""
    at = np.flatnonzero(data[: -len(literal)] == literal[0])
    for offset, byte in enumerate(literal[1:], 1):
        at = at[data[at + offset] == byte]
    found: Ints = at[_BEFORE_VALUE[data[at - 1]]]
    return found
