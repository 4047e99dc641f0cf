"""Aggregates that users define in numpy: lift values to states, merge states, read results.

    def lift(values):                    # float64 or int64 values -> one state each
        return np.stack([values, -values], axis=1)

    spread = mergeable(
        "spread", "v", lift=lift,
        merge=np.maximum,
        result=lambda states: states[:, 0] + states[:, 1],
    )

Each function works on whole arrays: row i of what it returns belongs to row i of what it is
given. ``merge`` has to be associative and commutative *exactly* (whole numbers, minima, bit
sets): it is called in whatever steps the batches bring, and rounding would make the result
depend on them. (Windows that keep their records, the sliding ones, merge in the order of the
records and in steps that depend on their number only.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.parts import CountPart, Part
from oriel.pipeline.windows.arrays import Flags, Ranges, lists, prefix_sums
from oriel.pipeline.windows.definitions import IllegalArgument, said

Array = NDArray[Any]

_RESULTS = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}


@dataclass(frozen=True)
class Functions:
    """The user's three functions."""

    lift: Callable[[Array], Array]
    merge: Callable[[Array, Array], Array]
    result: Callable[[Array], Array]


def mergeable(
    name: str,
    column: str,
    *,
    lift: Callable[[Array], Array],
    merge: Callable[[Array, Array], Array],
    result: Callable[[Array], Array],
    returns: str = "DOUBLE",
) -> Aggregate:
    """Define an aggregate of ``column`` by numpy functions; see the module's text.

    ``name`` stands for the aggregate in the store's definition: another name is another
    aggregate. ``returns`` is BIGINT, DOUBLE or BOOLEAN.

    Raises:
        IllegalArgument: ``returns`` is another type, or an argument is no function.
    """
    if returns not in _RESULTS:
        message = f"{name}: returns must be one of {sorted(_RESULTS)}, not {returns!r}"
        raise IllegalArgument(message)
    for what, function in (("lift", lift), ("merge", merge), ("result", result)):
        if not callable(function):
            message = f"{name}: {what} must be a function of arrays, not {function!r}"
            raise IllegalArgument(message)
    return Mergeable(column, name, Functions(lift, merge, result), returns)


@dataclass(frozen=True)
class Mergeable(Aggregate):
    """An aggregate by the user's numpy functions."""

    name: str
    functions: Functions
    returns: str

    @property
    def call(self) -> str:
        """The user's name of it."""
        return f"{self.name}({self.column})"

    def result_type(self, found: pa.DataType) -> pa.DataType:
        """What the user said; the functions are tried on two values of the column's kind."""
        part = self._part
        values: Array = np.ones(2, dtype=_dtype(found))
        states = part.called("lift", self.functions.lift, len(values), values)
        merged = part.called("merge", self.functions.merge, 1, states[:1], states[1:])
        self._results(merged)
        return _RESULTS[self.returns]

    def parts(self, found: pa.DataType) -> tuple[Part, ...]:  # noqa: ARG002
        """A count, and the merged state."""
        return (CountPart(self.column), self._part)

    def from_parts(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The user's result of each state, null where there is no value.

        Raises:
            IllegalArgument: a result is of another type than ``returns`` says.
        """
        filled = np.asarray(parts[0]) > 0
        states = _states(parts[1].filter(pa.array(filled)))
        results = np.zeros(len(filled), dtype=_RESULTS[self.returns].to_pandas_dtype())
        if filled.any():
            made = self._results(states)
            wrong = np.flatnonzero(~_fits(made, self.returns))
            if len(wrong):
                message = (
                    f"{self.call}: result gave {made[wrong[0]]}, which is no {self.returns}; "
                    "return another number, or name another type with returns="
                )
                raise IllegalArgument(message)
            results[filled] = made
        return pa.array(results, _RESULTS[self.returns], mask=~filled)

    def _results(self, states: Array) -> Array:
        """Call the user's result.

        Raises:
            IllegalArgument: it raised, or returned other than one number for each state.
        """
        made = self._part.called("result", self.functions.result, len(states), states)
        if made.ndim != 1:
            message = f"{self.call}: result must return one number a row, not {made.shape[1]}"
            raise IllegalArgument(message)
        return made

    @property
    def _part(self) -> "MergeablePart":
        return MergeablePart(self.column, self)


@dataclass(frozen=True)
class MergeablePart(Part):
    """The merged state of each window as a list of numbers, empty where there is no value."""

    aggregate: Mergeable

    @property
    def name(self) -> str:
        """The name of the state column."""
        return f"MergeablePart({self.aggregate.call})"

    def state_type(self, found: pa.DataType) -> pa.DataType:
        """A list of whole numbers or doubles, as ``lift`` gives."""
        lifted = self._lifted(np.ones(1, dtype=_dtype(found)))
        return pa.list_(pa.from_numpy_dtype(lifted.dtype))

    def of(self, members: Members) -> pa.Array:
        """Lift each window's values and merge them."""
        values = members.values(str(self.column))
        lifted = self._lifted(values.numbers)
        return self._merged(lifted, values.ranges)

    def merged(self, rows: pa.Array, ranges: Ranges) -> pa.Array:
        """Merge states."""
        filled = np.diff(np.asarray(rows.offsets)) > 0
        states = _states(rows.filter(pa.array(filled)))
        return self._merged(states, ranges.among(filled))

    def called(
        self, what: str, function: Callable[..., Array], length: int, *arrays: Array
    ) -> Array:
        """Call one of the user's functions.

        Raises:
            IllegalArgument: it raised, or returned other than one row for each row.
        """
        try:
            made = np.asarray(function(*arrays))
        except Exception as error:
            message = f"{self.aggregate.call}: {what} raised {said(error)}"
            raise IllegalArgument(message) from error
        if made.ndim not in {1, 2} or len(made) != length or made.dtype.kind not in "biuf":
            message = (
                f"{self.aggregate.call}: {what} must return an array of numbers with {length} "
                f"rows, not one of shape {made.shape} and type {made.dtype}"
            )
            raise IllegalArgument(message)
        return made

    def _lifted(self, values: Array) -> Array:
        lifted = self.called("lift", self.aggregate.functions.lift, len(values), values)
        return lifted.astype(np.float64 if lifted.dtype.kind == "f" else np.int64)

    def _merged(self, states: Array, ranges: Ranges) -> pa.Array:
        """Merge the states of each range.

        After step k ``table[i]`` is the merge of ``states[i : i + 2**k]``; a range is taken
        apart by the binary digits of its length, from its end.
        """
        sizes, end = ranges.sizes, ranges.high.copy()
        merge = self.aggregate.functions.merge
        result = np.zeros((len(sizes), *states.shape[1:]), dtype=states.dtype)
        begun = np.zeros(len(sizes), dtype=np.bool_)
        table = states
        for step in range(int(sizes.max(initial=0)).bit_length()):
            if step:
                half = 1 << (step - 1)
                pairs = len(table) - half
                table = self.called("merge", merge, pairs, table[:-half], table[half:])
            here = np.flatnonzero(sizes >> step & 1)
            end[here] -= 1 << step
            first, later = here[~begun[here]], here[begun[here]]
            result[first] = table[end[first]]
            if len(later):
                result[later] = self.called(
                    "merge", merge, len(later), table[end[later]], result[later]
                )
            begun[here] = True
        return _state_lists(result, begun)


def _fits(results: Array, returns: str) -> Flags:
    """Which results are of the type: whole numbers of 64 bits, truths (or 0 and 1), any."""
    if returns == "BOOLEAN":
        truths: Flags = (results == 0) | (results == 1)
        return truths
    if returns == "DOUBLE" or results.dtype.kind in "bi":
        return np.ones(len(results), dtype=np.bool_)
    if results.dtype.kind == "u":
        small: Flags = results < 2**63
        return small
    # Not a number is in no range.
    whole: Flags = (results >= -(2.0**63)) & (results < 2.0**63) & (results == np.floor(results))
    return whole


def _dtype(found: pa.DataType) -> type:
    return np.float64 if pa.types.is_floating(found) else np.int64


def _states(rows: pa.Array) -> Array:
    """Lists of equal length as rows of an array; a width of 1 is an array of numbers."""
    flat = np.asarray(rows.flatten())
    if not len(rows):
        return flat
    width = len(flat) // len(rows)
    return flat if width == 1 else flat.reshape(len(rows), width)


def _state_lists(states: Array, filled: Flags) -> pa.Array:
    """Each filled state as a list of its numbers, the others as empty lists."""
    width = states.shape[1] if states.ndim == 2 else 1
    items = np.ascontiguousarray(states[filled]).ravel()
    return lists(prefix_sums(filled) * width, items)
