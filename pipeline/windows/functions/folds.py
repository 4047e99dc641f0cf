"""Aggregations by the user's own Python functions: initializer, aggregator, merger.

The functions see values, never shared objects: what they get is a copy, what they return
is brought to the declared types at once (a DOUBLE column gives a float, whatever the
function returned). So it makes no difference whether an aggregate was kept in memory or
saved between two batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.definitions import IllegalArgument, said
from oriel.pipeline.windows.records import INPUT, NULL_VALUE, REJECTED_SCHEMA, SUBORDER

Aggregator = Callable[[str, Any, Any], Any]
Merger = Callable[[str, Any, Any], Any]

_INT64 = range(-(2**63), 2**63)

#: Python types whose values are of an Arrow type as they are, and can't be changed in place.
_PLAIN = {pa.float64(): float, pa.string(): str, pa.bool_(): bool}


class Rejected(Exception):
    """A user's function raised on a record; the message names the step and the error."""


@dataclass(frozen=True)
class Fold:
    """A user's aggregation.

    ``initializer`` makes the aggregate of an empty window; None is Kafka's reduce: the first
    value is the first aggregate. ``aggregators`` has one function for each input stream,
    ``(key, value, aggregate) -> aggregate``. ``merger`` is ``(key, left, right) -> aggregate``.
    ``types`` are the columns of the aggregate: with one column (and ``bare``) the functions
    see its value, else a dict. ``step`` names the place in the topology, for messages.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Aggregator, ...]
    merger: Merger | None
    types: Mapping[str, pa.DataType]
    step: str
    bare: bool = True

    @property
    def _is_bare(self) -> bool:
        return self.bare and len(self.types) == 1

    def unit(self, partition: int) -> int:
        """Which records are folded together: those of a partition.

        Without a merger the streams of a cogroup are folded into one row as they arrive,
        as Kafka does; a partition's number is then (partition * streams + stream).
        """
        streams = len(self.aggregators)
        return partition // streams if self.merger is None else partition

    def start(self) -> Any:
        """The aggregate of an empty window, None for reduce."""
        return None if self.initializer is None else self._typed(self.initializer())

    def started(self) -> Any:
        """``start`` for a record.

        Raises:
            Rejected: the function raised, or returned what the types don't allow.
        """
        try:
            return self.start()
        except Exception as error:
            raise self._rejected(error) from error

    def applied(self, source: int, key: str, value: Any, aggregate: Any) -> Any:
        """The aggregate after one more record; None removes the row.

        Raises:
            Rejected: the function raised, or returned what the types don't allow.
        """
        try:
            if aggregate is None:
                aggregate = self.start()
            if aggregate is None and self.initializer is None:
                return self._typed(value)
            return self._typed(self.aggregators[source](key, value, self._copy(aggregate)))
        except Exception as error:
            raise self._rejected(error) from error

    def merged(self, key: str, left: Any, right: Any) -> Any:
        """Two aggregates as one; for reduce nothing and something is something.

        Raises:
            Rejected: the function raised, or returned what the types don't allow.
            IllegalArgument: there is no merger.
        """
        if left is None and self.initializer is None:
            return right
        if self.merger is None:
            message = (
                f"{self.step}: records of key {key!r} came from several partitions, and without "
                "merger= their aggregates can't be put together; give the aggregation a merger"
            )
            raise IllegalArgument(message)
        try:
            return self._typed(self.merger(key, self._copy(left), self._copy(right)))
        except Exception as error:
            raise self._rejected(error) from error

    def columns(self, aggregates: Sequence[Any]) -> dict[str, pa.Array]:
        """Aggregates as columns of their types; None is null in each."""
        if self._is_bare:
            ((name, found),) = self.types.items()
            return {name: pa.array(aggregates, found)}
        return {
            name: pa.array([None if a is None else a[name] for a in aggregates], found)
            for name, found in self.types.items()
        }

    def read(self, rows: pa.Table) -> list[Any]:
        """The aggregates of rows with columns of their types."""
        if self._is_bare:
            values: list[Any] = rows[next(iter(self.types))].to_pylist()
            return values
        return list(rows.select(list(self.types)).to_pylist())

    @cached_property
    def _is_flat(self) -> bool:
        """Whether no value of an aggregate could be changed in place."""
        return not any(pa.types.is_nested(found) for found in self.types.values())

    def _copy(self, aggregate: Any) -> Any:
        if aggregate is None or not self._is_flat:
            return self._typed(aggregate)
        return aggregate if self._is_bare else dict(aggregate)

    def _typed(self, aggregate: Any) -> Any:
        if aggregate is None:
            return None
        if self._is_bare:
            ((name, found),) = self.types.items()
            if isinstance(aggregate, dict) and set(aggregate) == {name}:
                aggregate = aggregate[name]
            return typed(aggregate, found)
        if not isinstance(aggregate, dict) or set(aggregate) != set(self.types):
            message = f"an aggregate must be a dict with {sorted(self.types)}, not {aggregate!r}"
            raise TypeError(message)
        return {name: typed(aggregate[name], found) for name, found in self.types.items()}

    def _rejected(self, error: Exception) -> Rejected:
        return Rejected(f"{self.step}: {said(error)}")


def typed(value: Any, found: pa.DataType) -> Any:
    """``value`` as the Arrow type says, always a copy.

    Raises:
        TypeError, ValueError: it is of another type, or too large for it.
    """
    if value is None or type(value) is _PLAIN.get(found):
        return _as_utf8(value) if isinstance(value, str) else value
    if isinstance(value, np.generic):
        value = value.item()
    if pa.types.is_list(found) and isinstance(value, list | tuple):
        return [typed(item, found.value_type) for item in value]
    if pa.types.is_floating(found) and isinstance(value, int | float):
        return float(value)
    if pa.types.is_integer(found) and isinstance(value, int):
        if int(value) not in _INT64:
            message = f"{value} does not fit into 64 bits"
            raise ValueError(message)
        return int(value)
    is_text = pa.types.is_string(found) and isinstance(value, str)
    if is_text or (pa.types.is_boolean(found) and isinstance(value, bool)):
        return _as_utf8(value) if is_text else value
    message = f"{value!r} is not of type {found}"
    raise TypeError(message)


def _as_utf8(value: str) -> str:
    """A text as it will be saved.

    Raises:
        UnicodeEncodeError (a ValueError): it has half a surrogate pair, which UTF-8 can't hold.
    """
    return value if value.isascii() else value.encode().decode()


def fold_fields(values: pa.Schema) -> list[pa.Field]:
    """The columns that an engine with a fold reads of a record beside ``RECORD_FIELDS``."""
    return [INPUT, NULL_VALUE, *values]


def fold_values(batch: pa.Table, values: pa.Schema) -> list[dict[str, Any] | None]:
    """The records' values as dicts, None for a record without a value."""
    found = batch.select(values.names).to_pylist()
    empty = batch[NULL_VALUE.name].to_pylist()
    return [None if none else value for value, none in zip(found, empty, strict=True)]


def rejected_table(
    batch: pa.Table, rejected: Sequence[tuple[int, str]], carried: Sequence[pa.Field] = ()
) -> pa.Table:
    """Rejected rows of the batch, with their place and why, and with the ``carried`` columns."""
    rows = pa.array([row for row, _ in rejected], pa.int64())
    names = [field.name for field in carried]
    found = batch.select(["partition", "offset", INPUT.name, *names]).take(rows)
    suborder = (
        batch[SUBORDER.name].take(rows)
        if SUBORDER.name in batch.column_names
        else pa.nulls(len(rows), SUBORDER.type)
    )
    found = found.append_column(SUBORDER, suborder)
    details = pa.array([detail for _, detail in rejected], pa.string())
    schema = pa.schema([*REJECTED_SCHEMA, *carried])
    return found.append_column("detail", details).select(schema.names).cast(schema)


def in_partition_order(fold: Fold, key: str, aggregates: Sequence[tuple[int, Any]]) -> Any:
    """Merge the aggregates of several partitions, the least partition first.

    Raises:
        IllegalArgument: there are several and no merger, or the merger raised (which is no
            single record's fault).
    """
    found = [aggregate for _, aggregate in sorted(aggregates, key=lambda a: a[0])]
    result = found[0] if found else None
    for aggregate in found[1:]:
        try:
            result = fold.merged(key, result, aggregate)
        except Rejected as error:
            message = f"merging the partitions of key {key!r} failed: {error}"
            raise IllegalArgument(message) from error
    return result
