"""The functions of expressions, by name: each gives what Spark gives, on Arrow columns.

Spark's rules, without ANSI mode, which Oriel's sessions leave off: integers wrap, a division by
zero is null, a number that does not fit is cut as Java cuts it. NaN is equal to itself and greater
than any other number, and -0.0 equals 0.0. Texts are compared by their bytes. No function raises.

Arguments are columns or scalars of one type (Spark's analysis has put in the casts), at least one
of them a column; a function of texts that takes options takes them by keyword.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: A column or a scalar.
Operand = Any

_TEXT = pa.string()
#: Texts that a text was split into, as Spark types them.
_PARTS = pa.list_(pa.field("element", _TEXT, nullable=False))


def _equal(left: Operand, right: Operand) -> Operand:
    equal = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Operand, right: Operand) -> Operand:
    less = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return less
    return pc.or_(less, pc.and_not(pc.is_nan(right), pc.is_nan(left)))


def _equal_null_safe(left: Operand, right: Operand) -> Operand:
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both_null, pc.fill_null(_equal(left, right), fill_value=False))


def _is_in(value: Operand, *others: Operand) -> Operand:
    """True for any match, else null if something was null, as ORs of comparisons are."""
    return reduce(pc.or_kleene, (_equal(value, other) for other in others))


def _if(condition: Operand, value: Operand, other: Operand) -> Operand:
    return pc.if_else(pc.fill_null(condition, fill_value=False), value, other)


def _case_when(*branches: Operand, array_type: pa.DataType | None = None) -> Operand:
    """Conditions and values in turn, at the end the value if no condition is true.

    Types of arrays may say of elements that none is null; ``array_type`` is that of all of them.
    """
    *cases, result = branches
    conditions, values = cases[-2::-2], cases[::-2]
    if array_type is not None:
        result, *values = (value.cast(array_type) for value in (result, *values))
    for condition, value in zip(conditions, values, strict=True):
        result = _if(condition, value, result)
    return result


def _greatest(*values: Operand) -> Operand:
    """Null only if all are; of equal ones the first (0.0 and -0.0 are equal)."""
    return reduce(lambda best, value: _replaced(best, value, _less(best, value)), values)


def _least(*values: Operand) -> Operand:
    return reduce(lambda best, value: _replaced(best, value, _less(value, best)), values)


def _replaced(best: Operand, value: Operand, is_better: Operand) -> Operand:
    return _if(pc.or_kleene(is_better, pc.is_null(best)), value, best)


def _non_zero(divisor: Operand) -> Operand:
    """The divisor, null where it is zero: whatever is divided by null is null."""
    return pc.if_else(pc.equal(divisor, 0), pa.scalar(None, divisor.type), divisor)


def _divide(left: Operand, right: Operand) -> Operand:
    """Numbers with fractions; as Java, integers are cut towards zero and the least one wraps."""
    divisor = _non_zero(right)
    if pa.types.is_floating(left.type):
        return pc.divide(left, divisor)
    # Arrow does not divide the least integer by -1.
    is_minus_one = pc.equal(divisor, -1)
    quotient = pc.divide(left, pc.if_else(is_minus_one, pa.scalar(1, right.type), divisor))
    return pc.if_else(is_minus_one, pc.negate(quotient), quotient)


def _remainder(left: Operand, right: Operand) -> Operand:
    """With the sign of ``left``."""
    if not pa.types.is_floating(left.type):
        return pc.subtract(left, pc.multiply(_divide(left, right), right))
    length = max(len(one) for one in (left, right) if not isinstance(one, pa.Scalar))
    dividend, divisor = (_numbers(one, length) for one in (left, right))
    with np.errstate(invalid="ignore"):
        remainder = pa.array(np.fmod(dividend, divisor), left.type)
    is_null = pc.or_(pc.is_null(left), pc.is_null(_non_zero(right)))
    return pc.if_else(is_null, pa.scalar(None, left.type), remainder)


def _positive_remainder(left: Operand, right: Operand) -> Operand:
    """Spark's ``pmod`` of integers."""
    remainder = _remainder(left, right)
    is_negative = pc.less(remainder, 0)
    return pc.if_else(is_negative, _remainder(pc.add(remainder, right), right), remainder)


def _numbers(operand: Operand, length: int) -> Any:
    """Numbers with fractions as a numpy array, with NaN for null."""
    if isinstance(operand, pa.Scalar):
        operand = pa.repeat(operand, length)
    return np.asarray(operand)


def _cast(value: Operand, *, to: pa.DataType) -> Operand:
    """To numbers, booleans and texts; from a text to no other type."""
    if value.type == to:
        return value
    if pa.types.is_boolean(to):
        return pc.invert(pc.equal(value, 0))
    if pa.types.is_floating(value.type) and pa.types.is_integer(to):
        # Java goes by way of an int where that is wide enough, and wraps from there.
        wide = to if to.bit_width == 64 else pa.int32()
        return pc.cast(_saturated(value, wide), to, safe=False)
    return pc.cast(value, to, safe=False)


def _saturated(value: Operand, to: pa.DataType) -> Operand:
    """Numbers with fractions as integers: cut towards zero and to what fits, 0 for NaN."""
    least, greatest = -(2 ** (to.bit_width - 1)), 2 ** (to.bit_width - 1) - 1
    value = pc.cast(value, pa.float64())
    # 2**63 - 1 is no double: the next one that is does not fit any more.
    is_over = pc.greater_equal(value, float(greatest + 1))
    is_under = pc.less(value, float(least))
    out = pc.or_(pc.or_(is_over, is_under), pc.is_nan(value))
    fitting = pc.cast(pc.if_else(out, 0.0, value), to, safe=False)
    fitting = pc.if_else(is_over, pa.scalar(greatest, to), fitting)
    return pc.if_else(is_under, pa.scalar(least, to), fitting)


def _floor(value: Operand) -> Operand:
    return value if pa.types.is_integer(value.type) else _saturated(pc.floor(value), pa.int64())


def _ceil(value: Operand) -> Operand:
    return value if pa.types.is_integer(value.type) else _saturated(pc.ceil(value), pa.int64())


def _is_nan(value: Operand) -> Operand:
    return pc.fill_null(pc.is_nan(value), fill_value=False)


def _concat(*texts: Operand) -> Operand:
    """Null if any text is."""
    return pc.binary_join_element_wise(*texts, pa.scalar("", _TEXT))


def _concat_with(*texts: Operand, separator: str) -> Operand:
    """Texts that are null are left out."""
    # Arrow's own way to leave them out loses the rows that have nothing but nulls.
    result, between = pc.fill_null(texts[0], ""), pa.scalar(separator, _TEXT)
    has_text = pc.is_valid(texts[0])
    for text in texts[1:]:
        with_text = pc.if_else(has_text, _concat(result, between, text), text)
        result = pc.if_else(pc.is_valid(text), with_text, result)
        has_text = pc.or_(has_text, pc.is_valid(text))
    return result


def _contains(text: Operand, *, pattern: str) -> Operand:
    return pc.match_substring(text, pattern)


def _starts_with(text: Operand, *, pattern: str) -> Operand:
    return pc.starts_with(text, pattern)


def _ends_with(text: Operand, *, pattern: str) -> Operand:
    return pc.ends_with(text, pattern)


def _substring(text: Operand, *, start: int, stop: int) -> Operand:
    return pc.utf8_slice_codeunits(text, start, stop)


def _replace(text: Operand, *, pattern: str, replacement: str) -> Operand:
    # Spark finds no empty pattern; Arrow finds it again and again, without an end.
    return pc.replace_substring(text, pattern, replacement) if pattern else text


def _trim(text: Operand) -> Operand:
    """Spaces only, no other blanks."""
    return pc.utf8_trim(text, " ")


def _trim_left(text: Operand) -> Operand:
    return pc.utf8_ltrim(text, " ")


def _trim_right(text: Operand) -> Operand:
    return pc.utf8_rtrim(text, " ")


def _split(text: Operand, *, pattern: str) -> Operand:
    return pc.split_pattern(text, pattern).cast(_PARTS)


def in_one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _array(*values: Operand, has_nulls: bool) -> Operand:
    """An array of each row's values; ``has_nulls``: its type says that elements may be null."""
    length = next(len(value) for value in values if not isinstance(value, pa.Scalar))
    columns = [
        pa.repeat(value, length) if isinstance(value, pa.Scalar) else in_one(value)
        for value in values
    ]
    # All first values stand in front of all second ones; a row's own are so many rows apart.
    rows_first = np.arange(len(values) * length).reshape(len(values), length).T.ravel()
    elements = pa.concat_arrays(columns).take(pa.array(rows_first))
    ends = np.arange(length + 1, dtype=np.int32) * np.int32(len(values))
    element = pa.field("element", elements.type, nullable=has_nulls)
    return pa.ListArray.from_arrays(pa.array(ends), elements, type=pa.list_(element))


def _slice(array: Operand, *, start: int, stop: int) -> Operand:
    return pc.list_slice(array, start, stop, return_fixed_size_list=False).cast(array.type)


def _field(value: Operand, *, index: int) -> Operand:
    return pc.struct_field(value, index)


#: By name, as ``Call`` has it.
FUNCTIONS: Mapping[str, Callable[..., Operand]] = {
    "abs": pc.abs,
    "add": pc.add,
    "and": pc.and_kleene,
    "array": _array,
    "case_when": _case_when,
    "cast": _cast,
    "ceil": _ceil,
    "coalesce": pc.coalesce,
    "concat": _concat,
    "concat_with": _concat_with,
    "contains": _contains,
    "divide": _divide,
    "ends_with": _ends_with,
    "equal": _equal,
    "equal_null_safe": _equal_null_safe,
    "field": _field,
    "floor": _floor,
    "greater": lambda left, right: _less(right, left),
    "greater_equal": lambda left, right: pc.invert(_less(left, right)),
    "greatest": _greatest,
    "is_in": _is_in,
    "is_nan": _is_nan,
    "is_not_null": pc.is_valid,
    "is_null": pc.is_null,
    "least": _least,
    "length": pc.utf8_length,
    "less": _less,
    "less_equal": lambda left, right: pc.invert(_less(right, left)),
    "multiply": pc.multiply,
    "negate": pc.negate,
    "not": pc.invert,
    "or": pc.or_kleene,
    "positive_remainder": _positive_remainder,
    "remainder": _remainder,
    "replace": _replace,
    "slice": _slice,
    "split": _split,
    "starts_with": _starts_with,
    "substring": _substring,
    "subtract": pc.subtract,
    "trim": _trim,
    "trim_left": _trim_left,
    "trim_right": _trim_right,
}
