"""Merge the aggregates of the windows of a range.

The columns of a range follow the rules of the aggregates of a window. Null is skipped, whole
numbers wrap at 64 bits, and doubles are added without loss and rounded once. So the result does not
depend on the steps of a read. If the store keeps partial aggregates, all aggregates are merged from
them (``partials``), and only the time is merged here.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeVar

import orjson
import pyarrow as pa

from oriel.app.contract import InvalidParameter
from oriel.storage import AggregateSpec, StoreDefinition, StoreKind

#: The value of an aggregate that can be merged.
Value = int | float | str | bool | None

#: The fields of a window that merged columns, or the range, need.
Window = Mapping[str, Value]

Ordered = TypeVar("Ordered", int, float, str, bool)

#: The text of an aggregate. With several streams, their topics precede it.
_CALL = re.compile(r"(?:[\w., -]+: )?(count|sum|min|max)\(.*\)", re.DOTALL)


def _whole_sum(values: Sequence[int]) -> int:
    """Return a sum that wraps at 64 bits."""
    return (sum(values) + 2**63) % 2**64 - 2**63


def _exact_sum(values: Sequence[float]) -> float:
    """Return the exact sum of doubles, rounded once."""
    try:
        # The sum of negative zeros is zero.
        return math.fsum(values) + 0.0
    except OverflowError:
        # A part of the sum exceeds the range of doubles, but the sum need not.
        total = sum(map(Fraction, values))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _least(values: Sequence[Ordered]) -> Ordered:
    return min(values)


def _greatest(values: Sequence[Ordered]) -> Ordered:
    return max(values)


#: The functions by the name of the aggregate and whether its values are doubles.
_MERGES: Mapping[tuple[str, bool], Callable[..., Value]] = {
    ("count", False): _whole_sum,
    ("sum", False): _whole_sum,
    ("sum", True): _exact_sum,
    **{("min", is_double): _least for is_double in (False, True)},
    **{("max", is_double): _greatest for is_double in (False, True)},
}


class MergedColumn(NamedTuple):
    """An aggregate that can be merged.

    Attributes:
        name: The name of the column.
        merge: Returns the value of a range from the values of its windows, or of their parts.
        is_stepwise: True if parts of a range can be merged first, without a change of the result.
    """

    name: str
    merge: Callable[..., Value]
    is_stepwise: bool = True


#: KIP-259: the time of a range is the greatest record time, as in a window.
_TIMESTAMP = MergedColumn("timestamp_ms", _greatest)


@lru_cache(maxsize=256)
def merged_columns(
    definition: StoreDefinition, chosen: tuple[str, ...] | None
) -> tuple[MergedColumn, ...]:
    """Return the columns of a range in the order of the definition, and its time.

    Args:
        definition: The definition of the store.
        chosen: Names of its aggregates, or None for all.

    Raises:
        InvalidParameter: An aggregate cannot be merged. The message names those that can.
    """
    names = merged_names(definition, chosen)
    if definition.partials:
        return (_TIMESTAMP,)
    columns = (_column(each) for each in definition.aggregates if each.name in names)
    return (*(column for column in columns if column is not None), _TIMESTAMP)


@lru_cache(maxsize=256)
def merged_names(definition: StoreDefinition, chosen: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the names of the aggregates of a range in the order of the definition.

    Raises:
        InvalidParameter: An aggregate cannot be merged. The message names those that can.
    """
    mergeable = mergeable_aggregates(definition)
    names = [a.name for a in definition.aggregates if chosen is None or a.name in chosen]
    unmergeable = [a for a in definition.aggregates if a.name in names and a.name not in mergeable]
    if unmergeable:
        raise _not_mergeable(definition, unmergeable[0], mergeable)
    return tuple(names)


@lru_cache(maxsize=256)
def merged_definition(
    definition: StoreDefinition, chosen: tuple[str, ...] | None
) -> StoreDefinition:
    """Return a definition with the aggregates that ranges have, for conditions and orders.

    Raises:
        InvalidParameter: An aggregate cannot be merged.
    """
    names = merged_names(definition, chosen)
    aggregates = (each for each in definition.aggregates if each.name in names)
    return replace(definition, aggregates=tuple(aggregates))


def mergeable_aggregates(definition: StoreDefinition) -> list[str]:
    """Return the names of the aggregates that ranges can have. Empty if windows can overlap."""
    if definition.window.kind is not StoreKind.TUMBLING:
        return []
    kept = {each.name for each in definition.partials}
    return [
        each.name
        for each in definition.aggregates
        if (each.name in kept if kept else _column(each) is not None)
    ]


def _column(aggregate: AggregateSpec) -> MergedColumn | None:
    call = _CALL.fullmatch(aggregate.function)
    is_double = aggregate.type == "double"
    merge = None if call is None else _MERGES.get((call[1], is_double))
    return None if merge is None else MergedColumn(aggregate.name, merge, merge is not _exact_sum)


def _not_mergeable(
    definition: StoreDefinition, aggregate: AggregateSpec, mergeable: Sequence[str]
) -> InvalidParameter:
    names = ",".join(mergeable)
    of_store = (
        f"store {definition.name!r}: {aggregate.name} = {aggregate.function} cannot be merged"
    )
    if definition.partials:
        return InvalidParameter(
            f"{of_store}, because the service runs no functions of users, and collect_list is a "
            f"list of records. Send columns={names}."
        )
    solution = f"Send columns={names}. " if names else ""
    return InvalidParameter(
        f"{of_store} from the results of windows, but count, sum, min and max can. {solution}To "
        "merge also avg, stddev, first, last, distinct counts and quantiles, materialize the store "
        "with mergeable=True."
    )


class OpenRange:
    """One range of a key, to which windows are added in the order of their starts."""

    def __init__(self, key: str, start_ms: int, columns: Sequence[MergedColumn]) -> None:
        """Begin a range without windows."""
        self.key = key
        self.start_ms = start_ms
        self._columns = columns
        #: The merged partial aggregates of its windows, if the store keeps them.
        self.partials: list[pa.Table] = []
        self._values: list[list[Value]] = [[] for _ in columns]
        self._is_final = True

    def add(self, windows: Sequence[Window]) -> None:
        """Add windows of the range."""
        for column, values in zip(self._columns, self._values, strict=True):
            name = column.name
            values += [value for window in windows if (value := window[name]) is not None]
            if column.is_stepwise and len(values) > 1:
                values[:] = [column.merge(values)]
        self._is_final = self._is_final and all(window["final"] for window in windows)

    def item(self, end_ms: int, close_ms: int, results: Mapping[str, Value]) -> bytes:
        """Return the range as the JSON of a window.

        It is final if no record can change it: its windows are final, and no window can be added.

        Args:
            end_ms: The end of the range.
            close_ms: Each window that ends by this time is final, also one without a record.
            results: The aggregates from the partial aggregates.
        """
        merged = zip(self._columns, self._values, strict=True)
        fields = {
            "key": self.key,
            "window_start_ms": self.start_ms,
            "window_end_ms": end_ms,
            **results,
            **{c.name: c.merge(values) if values else None for c, values in merged},
            "final": self._is_final and end_ms <= close_ms,
        }
        return orjson.dumps(fields)
