"""The functions of expressions by name, with the results of Spark for Arrow columns.

The rules are Spark's without ANSI mode, which Oriel's sessions turn off. Integers wrap, a division
by zero is null, and a number that does not fit is truncated as in Java. NaN equals itself and is
greater than any other number, and -0.0 equals 0.0. Strings are compared by their bytes. No function
raises an error.

Arguments are columns or scalars of one type, because Spark's analysis has added the casts. At least
one argument is a column. Options of functions on strings are keyword arguments.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: A column or a scalar.
Operand = Any

_STRING = pa.string()
#: The type of the result of ``split`` in Spark.
_SPLIT_TYPE = pa.list_(pa.field("element", _STRING, nullable=False))

#: The days that Arrow writes like Spark.
_FIRST_DAY = np.datetime64("0000-01-01")
_LAST_DAY_WITHOUT_SIGN = np.datetime64("9999-12-31")


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


def _if(condition: Operand, value: Operand, other: Operand) -> Operand:
    return pc.if_else(pc.fill_null(condition, fill_value=False), value, other)


def _case_when(*branches: Operand, array_type: pa.DataType | None = None) -> Operand:
    """Return the value of the first true condition, or the last argument if no condition is true.

    The other arguments are alternating conditions and values. The type of an array can say that no
    element is null, so values are cast to ``array_type``, their common type.
    """
    *cases, result = branches
    conditions, values = cases[-2::-2], cases[::-2]
    if array_type is not None:
        result, *values = (value.cast(array_type) for value in (result, *values))
    for condition, value in zip(conditions, values, strict=True):
        result = _if(condition, value, result)
    return result


def _greatest(*values: Operand) -> Operand:
    """Return the greatest value, null only if all values are null.

    If several are equal (0.0 and -0.0 are), return the first.
    """
    return reduce(lambda best, value: _replaced(best, value, _less(best, value)), values)


def _least(*values: Operand) -> Operand:
    return reduce(lambda best, value: _replaced(best, value, _less(value, best)), values)


def _replaced(best: Operand, value: Operand, is_better: Operand) -> Operand:
    return _if(pc.or_kleene(is_better, pc.is_null(best)), value, best)


def _non_zero(divisor: Operand) -> Operand:
    """Return the divisor, null if it is zero, because a division by null is null."""
    return pc.if_else(pc.equal(divisor, 0), pa.scalar(None, divisor.type), divisor)


def _divide(left: Operand, right: Operand) -> Operand:
    """Return the quotient.

    As in Java, the quotient of integers is truncated toward zero, and the least integer wraps.
    """
    divisor = _non_zero(right)
    if pa.types.is_floating(left.type):
        return pc.divide(left, divisor)
    # Arrow does not wrap the least integer divided by -1.
    is_minus_one = pc.equal(divisor, -1)
    quotient = pc.divide(left, pc.if_else(is_minus_one, pa.scalar(1, right.type), divisor))
    return pc.if_else(is_minus_one, pc.negate(quotient), quotient)


def _remainder(left: Operand, right: Operand) -> Operand:
    """Return the remainder with the sign of ``left``."""
    if not pa.types.is_floating(left.type):
        return pc.subtract(left, pc.multiply(_divide(left, right), right))
    length = max(len(one) for one in (left, right) if not isinstance(one, pa.Scalar))
    dividend, divisor = (_numbers(one, length) for one in (left, right))
    with np.errstate(invalid="ignore"):
        remainder = pa.array(np.fmod(dividend, divisor), left.type)
    is_null = pc.or_(pc.is_null(left), pc.is_null(_non_zero(right)))
    return pc.if_else(is_null, pa.scalar(None, left.type), remainder)


def _positive_remainder(left: Operand, right: Operand) -> Operand:
    """Return Spark's ``pmod`` of integers."""
    remainder = _remainder(left, right)
    is_negative = pc.less(remainder, 0)
    return pc.if_else(is_negative, _remainder(pc.add(remainder, right), right), remainder)


def _numbers(operand: Operand, length: int) -> Any:
    """Return floating-point numbers as a numpy array, with NaN for null."""
    if isinstance(operand, pa.Scalar):
        operand = pa.repeat(operand, length)
    return np.asarray(operand)


def _cast(value: Operand, *, to: pa.DataType) -> Operand:
    """Cast to a number, a boolean or a string. Strings are only cast to strings.

    Dates are only cast to strings. Decimals are cast to strings, to floating-point numbers, and to
    decimals that can have all their digits.
    """
    if value.type == to:
        return value
    if pa.types.is_date(value.type):
        return _date_text(value)
    if pa.types.is_decimal(value.type) and pa.types.is_floating(to):
        # Arrow's own cast can return the second-nearest number.
        value = pc.cast(value, _STRING)
    if pa.types.is_boolean(to):
        return pc.invert(pc.equal(value, 0))
    if pa.types.is_floating(value.type) and pa.types.is_integer(to):
        # For types up to 32 bits, Java casts to an int first, and then wraps the int.
        wide = to if to.bit_width == 64 else pa.int32()
        return pc.cast(_saturated(value, wide), to, safe=False)
    return pc.cast(value, to, safe=False)


def _date_text(dates: Operand) -> Operand:
    """Return dates as strings.

    Arrow does not write the sign of a year after 9999, and does not support all years.
    """
    days = np.asarray(pc.fill_null(pc.cast(dates, pa.int32()), 0)).astype("M8[D]")
    has_sign = (days < _FIRST_DAY) | (days > _LAST_DAY_WITHOUT_SIGN)
    if not has_sign.any():
        return pc.cast(dates, _STRING)
    years = days.astype("M8[Y]").astype(np.int64) + 1970
    years = np.where(has_sign, np.char.mod("%+05d", years), np.char.mod("%04d", years))
    ends = pc.utf8_slice_codeunits(pa.array(np.datetime_as_string(days), _STRING), -len("-01-01"))
    texts = pc.binary_join_element_wise(pa.array(years, _STRING), ends, "")
    return pc.if_else(pc.is_valid(dates), texts, pa.scalar(None, _STRING))


def _saturated(value: Operand, to: pa.DataType) -> Operand:
    """Return truncated floating-point numbers as integers in the range of ``to``, 0 for NaN."""
    least, greatest = -(2 ** (to.bit_width - 1)), 2 ** (to.bit_width - 1) - 1
    value = pc.cast(value, pa.float64())
    # 2**63 - 1 is not a double, and the next greater double does not fit.
    is_over = pc.greater_equal(value, float(greatest + 1))
    is_under = pc.less(value, float(least))
    is_out_of_range = pc.or_(pc.or_(is_over, is_under), pc.is_nan(value))
    fitting = pc.cast(pc.if_else(is_out_of_range, 0.0, value), to, safe=False)
    fitting = pc.if_else(is_over, pa.scalar(greatest, to), fitting)
    return pc.if_else(is_under, pa.scalar(least, to), fitting)


def _rounded(rounding: Callable[[Operand], Operand], value: Operand) -> Operand:
    return value if pa.types.is_integer(value.type) else _saturated(rounding(value), pa.int64())


def _concat(*texts: Operand) -> Operand:
    """Return the concatenated strings, null if any string is null."""
    return pc.binary_join_element_wise(*texts, pa.scalar("", _STRING))


def _concat_with(*texts: Operand, separator: str) -> Operand:
    """Return the strings with a separator between them, without nulls."""
    # Arrow's own option to skip nulls loses the rows that have only nulls.
    result, between = pc.fill_null(texts[0], ""), pa.scalar(separator, _STRING)
    has_text = pc.is_valid(texts[0])
    for text in texts[1:]:
        with_text = pc.if_else(has_text, _concat(result, between, text), text)
        result = pc.if_else(pc.is_valid(text), with_text, result)
        has_text = pc.or_(has_text, pc.is_valid(text))
    return result


def as_one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _array(*values: Operand, has_nulls: bool) -> Operand:
    """Return an array of the values of each row.

    ``has_nulls``: the type of the array permits null elements.
    """
    length = next(len(value) for value in values if not isinstance(value, pa.Scalar))
    columns = [
        pa.repeat(value, length) if isinstance(value, pa.Scalar) else as_one_array(value)
        for value in values
    ]
    # The concatenated columns have all first values, then all second values. So two adjacent values
    # of one row are ``length`` apart.
    rows_first = np.arange(len(values) * length).reshape(len(values), length).T.ravel()
    elements = pa.concat_arrays(columns).take(pa.array(rows_first))
    ends = np.arange(length + 1, dtype=np.int32) * np.int32(len(values))
    element = pa.field("element", elements.type, nullable=has_nulls)
    return pa.ListArray.from_arrays(pa.array(ends), elements, type=pa.list_(element))


def _field(value: Operand, *, index: int) -> Operand:
    return pc.struct_field(value, index)


#: Name of the function in ``Call`` -> function.
FUNCTIONS: Mapping[str, Callable[..., Operand]] = {
    "abs": pc.abs,
    "add": pc.add,
    "and": pc.and_kleene,
    "array": _array,
    "case_when": _case_when,
    "cast": _cast,
    "ceil": lambda value: _rounded(pc.ceil, value),
    "coalesce": pc.coalesce,
    "concat": _concat,
    "concat_with": _concat_with,
    "contains": pc.match_substring,
    "divide": _divide,
    "ends_with": pc.ends_with,
    "equal": _equal,
    "equal_null_safe": lambda left, right: pc.or_(
        pc.and_(pc.is_null(left), pc.is_null(right)),
        pc.fill_null(_equal(left, right), fill_value=False),
    ),
    "field": _field,
    "floor": lambda value: _rounded(pc.floor, value),
    "greater": lambda left, right: _less(right, left),
    "greater_equal": lambda left, right: pc.invert(_less(left, right)),
    "greatest": _greatest,
    # True for any match, otherwise null if a value was null, as for ORs of comparisons.
    "is_in": lambda value, *others: reduce(
        pc.or_kleene, (_equal(value, other) for other in others)
    ),
    "is_nan": lambda value: pc.fill_null(pc.is_nan(value), fill_value=False),
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
    # Spark never finds an empty pattern. Arrow would find it in an endless loop.
    "replace": lambda text, *, pattern, replacement: (
        pc.replace_substring(text, pattern, replacement) if pattern else text
    ),
    "slice": lambda array, *, start, stop: pc.list_slice(
        array, start, stop, return_fixed_size_list=False
    ).cast(array.type),
    "split": lambda text, *, pattern: pc.split_pattern(text, pattern).cast(_SPLIT_TYPE),
    "starts_with": pc.starts_with,
    "substring": pc.utf8_slice_codeunits,
    "subtract": pc.subtract,
    # Only spaces, and no other white space.
    "trim": lambda text: pc.utf8_trim(text, " "),
    "trim_left": lambda text: pc.utf8_ltrim(text, " "),
    "trim_right": lambda text: pc.utf8_rtrim(text, " "),
}
