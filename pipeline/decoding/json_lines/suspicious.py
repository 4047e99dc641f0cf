"""Which lines Arrow's JSON reader might read otherwise than Spark's: a look at their bytes.

Arrow's reader takes NaN and Infinity, passes over empty lines, takes several objects for several
lines, ends at a NUL and knows no limits. Each line that might be such a case is suspicious; most
of them are good, so a look may be coarse, but it must find every line that is not. What Arrow's
reader refuses (syntax, wrong types, repeated fields, half surrogate pairs) isn't looked for.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.decoding.json_lines.lines import MAX_DEPTH, MAX_DIGITS, MAX_NAME_LENGTH
from oriel.pipeline.windows import Flags, Ints

_BLANKS = np.isin(np.arange(256), list(b" \t\r\n"))
_OF_NUMBERS = np.isin(np.arange(256), list(b"0123456789+-.eE"))
#: What may stand before a value.
_BEFORE_VALUE = np.isin(np.arange(256), list(b":,[- \t\r\n"))
#: What may stand behind one.
_AFTER_VALUE = np.isin(np.arange(256), list(b",]} \t\r\n"))
#: Numbers with too many digits are looked for in every eighth byte.
_STEP = 8
#: How many blanks before or behind an object are passed over.
_FEW_BLANKS = 8


def suspicious_lines(lines: pa.BinaryArray, *, has_floats: bool) -> Flags:
    """Which of ``lines`` (no nulls) have to be looked at one by one.

    Where ``has_floats`` a column of the schema is FLOAT or DOUBLE.
    """
    found = BlockBytes(lines)
    suspicious = ~_is_in_braces(found) | _is_not_utf8(found) | _may_pass_limits(found)
    data = found.data
    odd = [np.flatnonzero(data == 0), _values(data, b"NaN"), _values(data, b"Inf")]
    if has_floats:
        # An integer -0 is 0 for Spark, and -0.0 for Arrow.
        zeros = _values(data, b"-0")
        odd.append(zeros[_AFTER_VALUE[data[zeros + 2]]])
    suspicious[found.lines_of(np.concatenate(odd))] = True
    return suspicious


def _is_in_braces(found: BlockBytes) -> Flags:
    """Whether each line is ``{...}``, with a few blanks around it at most.

    If it is so for all lines and they are whole JSON together, then each of them has at least
    one object of its own: text in quotes can't reach over the end of a line, and no value can
    follow a brace.
    """
    if not len(found.data):
        return np.zeros(len(found.starts), np.bool_)
    first, last = found.starts.copy(), found.ends - 1
    np.minimum(first, len(found.data) - 1, out=first)
    np.maximum(last, 0, out=last)
    for _ in range(_FEW_BLANKS):
        ahead, behind = _BLANKS[found.data[first]], _BLANKS[found.data[last]]
        if not (ahead.any() or behind.any()):
            break
        first += ahead & (first < last)
        last -= behind & (first < last)
    braces = (found.data[first] == ord("{")) & (found.data[last] == ord("}"))
    fine: Flags = braces & (found.ends > found.starts)
    return fine


def _is_not_utf8(found: BlockBytes) -> Flags:
    fault = np.zeros(len(found.starts), np.bool_)
    if not len(found.data) or found.data.max() < 128:
        return fault
    try:
        found.lines.cast(pa.string())
    except pa.ArrowInvalid:
        for number in np.unique(found.lines_of(np.flatnonzero(found.data >= 128))).tolist():
            try:
                found.lines[number].as_py().decode()
            except UnicodeDecodeError:
                fault[number] = True
    return fault


def _may_pass_limits(found: BlockBytes) -> Flags:
    """Whether a line may be too deep, or have a number or a name that is too long."""
    length = found.ends - found.starts
    long = length >= min(MAX_DEPTH, MAX_DIGITS)
    if not long.any():
        return np.zeros(len(length), np.bool_)
    # In ASCII, { is [ with one bit more.
    brackets = found.lines_of(np.flatnonzero((found.data | 0x20) == ord("{")))
    depth = np.bincount(brackets, minlength=len(length))
    beyond: Flags = (depth > MAX_DEPTH) | (length > MAX_NAME_LENGTH)
    for first, last in _long_numbers(found):
        beyond[first : last + 1] = True
    beyond &= long
    return beyond


def _long_numbers(found: BlockBytes) -> list[tuple[int, int]]:
    """The first and the last line of each stretch that may be a number with too many digits."""
    others = np.flatnonzero(~_OF_NUMBERS[found.data[::_STEP]])
    ends = np.concatenate(([-1], others, [-(-len(found.data) // _STEP)]))
    stretches = np.flatnonzero(np.diff(ends) > MAX_DIGITS // _STEP)
    first = found.lines_of((ends[stretches] + 1) * _STEP)
    last = found.lines_of((ends[stretches + 1] - 1) * _STEP)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _values(data: npt.NDArray[np.uint8], literal: bytes) -> Ints:
    """Where ``literal`` stands as the beginning of a value, or as if it did in a text."""
    at = np.flatnonzero(data[: -len(literal)] == literal[0])
    for place, letter in enumerate(literal[1:], 1):
        at = at[data[at + place] == letter]
    found: Ints = at[_BEFORE_VALUE[data[at - 1]]]
    return found
