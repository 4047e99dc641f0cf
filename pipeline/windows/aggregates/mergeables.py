"""Aggregates that users define in numpy: lift values to states, merge states, return results.

    def lift(values):  # float64 or int64 values -> one state per value
        return np.stack([values, -values], axis=1)

    spread = mergeable(
        "spread", "v", lift=lift,
        merge=np.maximum,
        result=lambda states: states[:, 0] + states[:, 1],
    )

Each function processes whole arrays. Row i of its result belongs to row i of its arguments.
``merge`` must be *exactly* associative and commutative, for example on whole numbers, minima and
sets of bits. Batches decide which states are merged first, so a result with rounding would depend
on batches. Sliding windows merge the values of their records in the order of the records. The
sequence of merges then depends only on the number of records, except for windows that miss a partly
late record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.aggregates.built_in import BUILT_IN, Aggregate, Rule, is_number
from oriel.pipeline.windows.aggregates.members import Values
from oriel.pipeline.windows.aggregates.parts import COUNT, PartialAggregateRule
from oriel.pipeline.windows.arrays import Flags, Ranges, lists, prefix_sums
from oriel.pipeline.windows.definitions import IllegalArgument, said

Array = NDArray[Any]

_RESULTS = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}


def mergeable(
    name: str,
    column: str,
    *,
    lift: Callable[[Array], Array],
    merge: Callable[[Array, Array], Array],
    result: Callable[[Array], Array],
    returns: str = "DOUBLE",
) -> Aggregate:
    """Define an aggregate with three numpy functions of whole arrays.

    It works with every kind of windows. Nulls are skipped, and a window without a value has the
    result null. If a function raises, the pipeline stops.

    Args:
        name: The name of the aggregate in the table of the store. Choose another name if you change
            a function.
        column: A column of numbers. The functions receive int64 or float64 arrays.
        lift: ``lift(values)`` returns a state per value: one number or a row of numbers.
        merge: ``merge(left, right)`` merges states row by row. Its result must not depend on the
            order or the sequence of merges, to the last bit.
        result: ``result(states)`` returns one result per state.
        returns: The type of the results: BIGINT, DOUBLE or BOOLEAN. Default: DOUBLE.

    Returns:
        An aggregate of the type ``returns``.

    Raises:
        IllegalArgument: ``name`` is a built-in aggregate, ``returns`` is another type, or an
            argument is not a function.

    Example:
        >>> import numpy as np
        >>> longest = mergeable(
        ...     "longest", "delay", lift=np.abs, merge=np.maximum, result=np.sqrt
        ... )
        >>> flights.group_by("carrier").aggregate(longest=longest).materialize("carriers")
        <KTable flights: aggregate(longest=longest(delay))>
    """
    # The service merges windows by the texts of aggregates, with topics before them.
    if f"{name}(".rpartition(": ")[2].partition("(")[0] in BUILT_IN:
        message = f"mergeable: {name!r} is the name of a built-in aggregate. Choose another name"
        raise IllegalArgument(message)
    if returns not in _RESULTS:
        message = f"{name}: returns must be one of {sorted(_RESULTS)}, not {returns!r}"
        raise IllegalArgument(message)
    for role, function in (("lift", lift), ("merge", merge), ("result", result)):
        if not callable(function):
            message = f"{name}: {role} must be a function of arrays, not {function!r}"
            raise IllegalArgument(message)
    functions = _Functions(f"{name}({column})", lift, merge, result, returns)
    states = PartialAggregateRule(
        # The state column is called MergeablePart(name(column)).
        f"MergeablePart({name}",
        functions.state_type,
        functions.states_of,
        functions.merged_rows,
        options=")",
        functions=functions,
    )
    rule = Rule(is_number, functions.result_type, (COUNT, states), functions.results)
    return Aggregate(name, column, (rule,))


@dataclass(frozen=True)
class _Functions:
    """The three functions of a user, in the form that ``Rule`` and ``PartialAggregateRule`` need.

    A state is a row of numbers. The partial aggregate of a window is its merged state as a list of
    numbers, or an empty list without values.
    """

    call: str
    lift: Callable[[Array], Array]
    merge: Callable[[Array, Array], Array]
    result: Callable[[Array], Array]
    returns: str

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        """Return the declared type, after a test of the functions with two values."""
        # Functions that do not fit each other fail here, before the first batch.
        values: Array = np.ones(2, dtype=_dtype(column_type))
        states = self._called("lift", self.lift, len(values), values)
        merged = self._called("merge", self.merge, 1, states[:1], states[1:])
        self._numbers(merged)
        return _RESULTS[self.returns]

    def state_type(self, column_type: pa.DataType) -> pa.DataType:
        """Return the type of a list of whole numbers or doubles, as ``lift`` returns them."""
        states = self._lifted(np.ones(1, dtype=_dtype(column_type)))
        return pa.list_(pa.from_numpy_dtype(states.dtype))

    def states_of(self, values: Values) -> pa.Array:
        """Lift the values of each window and merge their states."""
        return self._merged(self._lifted(values.numbers), values.ranges)

    def merged_rows(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Merge the states of each range of rows."""
        # The functions of a user have no neutral state. The empty list of a window without values
        # is therefore not merged.
        filled = np.diff(np.asarray(rows.offsets)) > 0
        states = _states(rows.filter(pa.array(filled)))
        return self._merged(states, ranges.among(filled))

    def results(self, sizes: pa.Array, rows: pa.Array) -> pa.Array:
        """Return the result of the user's function for each state, null without values.

        Raises:
            IllegalArgument: A result does not fit the type ``returns``.
        """
        filled = np.asarray(sizes) > 0
        results = np.zeros(len(filled), dtype=_RESULTS[self.returns].to_pandas_dtype())
        # The function of a user is not called with 0 states.
        if filled.any():
            numbers = self._numbers(_states(rows.filter(pa.array(filled))))
            misfits = np.flatnonzero(~_fits(numbers, self.returns))
            if len(misfits):
                message = (
                    f"{self.call}: result returned {numbers[misfits[0]]}, which is not "
                    f"{self.returns}. Return another number, or name another type with returns="
                )
                raise IllegalArgument(message)
            results[filled] = numbers
        return pa.array(results, _RESULTS[self.returns], mask=~filled)

    def _merged(self, states: Array, ranges: Ranges) -> pa.Array:
        """Merge the states of each range."""
        sizes, end = ranges.sizes, ranges.high.copy()
        result = np.zeros((len(sizes), *states.shape[1:]), dtype=states.dtype)
        has_value = np.zeros(len(sizes), dtype=np.bool_)
        # After step k, table[i] is the merge of states[i : i + 2**k], from two entries of step k-1.
        # Each range is split from its end by the binary digits of its length. For the digit of
        # 2**k, a block of 2**k states ends at ``end``. Each state is therefore merged once, in
        # order. Overlapping entries would be enough for minima, but need merge(a, a) = a.
        table = states
        for step in range(int(sizes.max(initial=0)).bit_length()):
            if step:
                half = 1 << (step - 1)
                pairs = len(table) - half
                table = self._called("merge", self.merge, pairs, table[:-half], table[half:])
            with_digit = np.flatnonzero(sizes >> step & 1)
            end[with_digit] -= 1 << step
            first, later = with_digit[~has_value[with_digit]], with_digit[has_value[with_digit]]
            result[first] = table[end[first]]
            if len(later):
                result[later] = self._called(
                    "merge", self.merge, len(later), table[end[later]], result[later]
                )
            has_value[with_digit] = True
        # A state with values is a list of its numbers. Any other state is an empty list.
        width = result.shape[1] if result.ndim == 2 else 1
        return lists(
            prefix_sums(has_value) * width, np.ascontiguousarray(result[has_value]).ravel()
        )

    def _lifted(self, values: Array) -> Array:
        """Call the user's ``lift``, and return doubles or whole numbers of 64 bits.

        Raises:
            IllegalArgument: The function raised, did not return one state per value, or returned a
                number that the state cannot contain.
        """
        states = self._called("lift", self.lift, len(values), values)
        if states.dtype == np.uint64 and len(large := states[states >= 2**63]):
            message = (
                f"{self.call}: lift returned {large[0]}, and a whole number of a state is at most "
                f"{2**63 - 1}. Return doubles or smaller numbers"
            )
            raise IllegalArgument(message)
        # A state is stored as a list of int64 or of doubles, so booleans and shorter integers are
        # widened.
        return states.astype(np.float64 if states.dtype.kind == "f" else np.int64)

    def _numbers(self, states: Array) -> Array:
        """Call the user's ``result``.

        Raises:
            IllegalArgument: The function raised, or did not return one number per state.
        """
        numbers = self._called("result", self.result, len(states), states)
        if numbers.ndim != 1:
            message = f"{self.call}: result must return one number per row, not {numbers.shape[1]}"
            raise IllegalArgument(message)
        return numbers

    def _called(
        self, role: str, function: Callable[..., Array], length: int, *arrays: Array
    ) -> Array:
        """Call one of the user's functions.

        Raises:
            IllegalArgument: The function raised, or did not return ``length`` rows of numbers.
        """
        try:
            rows = np.asarray(function(*arrays))
        except Exception as error:
            message = f"{self.call}: {role} raised {said(error)}"
            raise IllegalArgument(message) from error
        if rows.ndim not in {1, 2} or len(rows) != length or rows.dtype.kind not in "biuf":
            message = (
                f"{self.call}: {role} must return an array of numbers with {length} "
                f"rows, not one of shape {rows.shape} and type {rows.dtype}"
            )
            raise IllegalArgument(message)
        return rows


def _fits(results: Array, returns: str) -> Flags:
    """Return which results fit the type. BOOLEAN also accepts 0 and 1."""
    if returns == "BOOLEAN":
        truths: Flags = (results == 0) | (results == 1)
        return truths
    if returns == "DOUBLE" or results.dtype.kind in "bi":
        return np.ones(len(results), dtype=np.bool_)
    if results.dtype.kind == "u":
        small: Flags = results < 2**63
        return small
    # NaN fails both comparisons.
    # The bound 2.0**63 is a double, but 2**63 - 1 is not.
    whole: Flags = (results >= -(2.0**63)) & (results < 2.0**63) & (results == np.floor(results))
    return whole


def _dtype(column_type: pa.DataType) -> type:
    return np.float64 if pa.types.is_floating(column_type) else np.int64


def _states(rows: pa.Array) -> Array:
    """Return lists of equal length as rows of an array, or as numbers for lists of one number."""
    flat = np.asarray(rows.flatten())
    if not len(rows):
        return flat
    # ``lift`` returns an array of one shape, so all lists have the same length.
    width = len(flat) // len(rows)
    return flat if width == 1 else flat.reshape(len(rows), width)
