"""Aggregations by the user's own Python functions: initializer, aggregator, merger.

An engine calls them through a ``Fold``, which keeps three rules (docs/decisions/0011):

- Functions see values, never shared objects. Kafka Streams serializes an aggregate between two
  calls; a function that changes its argument in place must therefore harm no other window.
- What they return is brought to the declared types at once, and not only when it is saved: a
  DOUBLE column gives a float, whatever the function returned. Otherwise a record would see
  another aggregate if a batch ended just before it.
- An error is the record's: it is ``Rejected`` with the step and the error, and no window of it
  changes. An error in putting partitions together is no record's, and stops the query.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from oriel.pipeline.windows.arrays import python_rows, python_values
from oriel.pipeline.windows.definitions import IllegalArgument, said
from oriel.pipeline.windows.functions.converters import Converter, converter
from oriel.pipeline.windows.records import INPUT, NULL_VALUE, REJECTED_SCHEMA, SUBORDER

#: (key, value, aggregate) -> aggregate; the value is None for a record without one.
Aggregator = Callable[[str, Any, Any], Any]
#: (key, left aggregate, right aggregate) -> aggregate.
Merger = Callable[[str, Any, Any], Any]


class Rejected(Exception):
    """A user's function raised on a record; the message names the step and the error."""


@dataclass(frozen=True)
class Fold:
    """A user's aggregation.

    ``initializer`` makes the aggregate of an empty window; None is Kafka's reduce: the first
    value is the first aggregate. ``aggregators`` has one function for each input stream,
    ``(key, value, aggregate) -> aggregate``. ``merger`` is ``(key, left, right) -> aggregate``.
    ``types`` are the columns of the aggregate: with one column (and ``bare``) the functions
    see its value, else a dict. ``step`` names the place in the topology, for messages. With a
    ``subtractor``, also ``(key, value, aggregate) -> aggregate``, records are a table's changes.
    ``of_updates`` are the inputs whose records are updates of joined tables.

    An aggregate is None where there is no row: before the first record of a reduce, and after a
    function returned None.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Aggregator, ...]
    merger: Merger | None
    types: Mapping[str, pa.DataType]
    step: str
    bare: bool = True
    subtractor: Aggregator | None = None
    of_updates: frozenset[int] = frozenset()

    def fold_partition(self, partition: int) -> int:
        """The number under which records of ``partition`` are folded together, as they arrive.

        With several streams a record's partition has the number (partition * streams + stream),
        so that each stream is folded alone, and the merger puts them together. Without a merger
        the streams of a cogroup are folded into one row as they arrive, as Kafka does. Updates of
        joined tables have one order over all partitions, and are folded together: who takes a row
        away has to find what it was added to.
        """
        streams = len(self.aggregators)
        stream = partition % streams
        number = stream if stream in self.of_updates else partition
        return number // streams if self.merger is None else number

    def initial(self) -> Any:
        """The aggregate of an empty session, which the merger takes first; None for reduce.

        Raises:
            Rejected: the initializer raised, or returned what the types don't allow.
        """
        try:
            return self._initial()
        except Exception as error:
            raise self._rejected(error) from error

    def applied(self, stream: int, key: str, value: Any, aggregate: Any) -> Any:
        """The aggregate after one more record of a stream; None removes the row.

        ``aggregate`` may be None: the record then starts afresh, as the first one does
        (semantics.md#9).

        Raises:
            Rejected: the function raised, or returned what the types don't allow.
        """
        try:
            if aggregate is None:
                aggregate = self._initial()
            if aggregate is None and self.initializer is None:
                # Reduce: the first value is stored as it is, the reducer isn't called.
                return self._typed(value)
            return self._typed(self.aggregators[stream](key, value, self._copy(aggregate)))
        except Exception as error:
            raise self._rejected(error) from error

    def subtracted(self, key: str, value: Any, aggregate: Any) -> Any:
        """The aggregate without a row that a table no longer has; None removes the group's row.

        Without an aggregate there is nothing to subtract from, and nothing is called, as in Kafka.

        Raises:
            Rejected: the function raised, or returned what the types don't allow.
        """
        assert self.subtractor is not None, "only changes of a table subtract"
        if aggregate is None:
            return None
        try:
            return self._typed(self.subtractor(key, value, self._copy(aggregate)))
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
                "merger= their aggregates cannot be merged. Pass merger= to the aggregation"
            )
            raise IllegalArgument(message)
        try:
            return self._typed(self.merger(key, self._copy(left), self._copy(right)))
        except Exception as error:
            raise self._rejected(error) from error

    def joined(self, stream: int, key: str, value: Any, aggregates: Iterable[Any]) -> Any:
        """The aggregate of joined sessions, by their ends, and one more record of a stream.

        Raises:
            Rejected: a function raised, or returned what the types don't allow.
        """
        # The merger is called for the first session, too: with the initial aggregate, which is
        # neutral to it (semantics.md#4-1).
        joined = self.initial()
        for aggregate in aggregates:
            joined = self.merged(key, joined, aggregate)
        return self.applied(stream, key, value, joined)

    def columns(self, aggregates: Sequence[Any]) -> dict[str, pa.Array]:
        """Aggregates as columns of their types; None is null in each."""
        if self._is_bare:
            ((name, column_type),) = self.types.items()
            return {name: pa.array(aggregates, column_type)}
        return {
            name: pa.array([None if a is None else a[name] for a in aggregates], column_type)
            for name, column_type in self.types.items()
        }

    def read(self, rows: pa.Table) -> list[Any]:
        """The aggregates of rows with the columns that ``columns`` makes, one for each row."""
        if self._is_bare:
            return python_values(rows[next(iter(self.types))])
        return list(python_rows(rows.select(list(self.types))))

    @cached_property
    def _is_bare(self) -> bool:
        """Whether the functions see the value of the only column, and no dict."""
        return self.bare and len(self.types) == 1

    @cached_property
    def _may_be_named(self) -> bool:
        """Whether a dict can only be the columns by name: of a struct or a map it is the value."""
        types = pa.types
        return not any(types.is_struct(each) or types.is_map(each) for each in self.types.values())

    @cached_property
    def _is_flat(self) -> bool:
        """Whether no value of an aggregate could be changed in place."""
        return not any(pa.types.is_nested(column_type) for column_type in self.types.values())

    @cached_property
    def _converters(self) -> tuple[tuple[str, Converter], ...]:
        """What brings each column of an aggregate to its type."""
        return tuple(
            (name, converter(column_type, name)) for name, column_type in self.types.items()
        )

    def _initial(self) -> Any:
        return None if self.initializer is None else self._typed(self.initializer())

    def _copy(self, aggregate: Any) -> Any:
        """What a function may change; of flat columns only the dict around them can be."""
        if aggregate is None or not self._is_flat:
            return self._typed(aggregate)
        return aggregate if self._is_bare else dict(aggregate)

    def _typed(self, aggregate: Any) -> Any:
        """What a function returned, in the types of the columns, and no object of the user's."""
        if aggregate is None:
            return None
        if self._is_bare:
            ((name, (_, convert)),) = self._converters
            if self._may_be_named and isinstance(aggregate, dict) and aggregate.keys() == {name}:
                aggregate = aggregate[name]
            return convert(aggregate)
        if not isinstance(aggregate, dict) or aggregate.keys() != self.types.keys():
            message = f"an aggregate must be a dict with {sorted(self.types)}, not {aggregate!r}"
            raise TypeError(message)
        in_types = {}
        for name, (exact, convert) in self._converters:
            value = aggregate[name]
            in_types[name] = value if type(value) is exact else convert(value)
        return in_types

    def _rejected(self, error: Exception) -> Rejected:
        return Rejected(f"{self.step}: {said(error)}")


def fold_fields(values: pa.Schema) -> list[pa.Field]:
    """The columns that an engine with a fold reads of a record beside ``RECORD_FIELDS``."""
    return [INPUT, NULL_VALUE, *values]


def fold_values(batch: pa.Table, values: pa.Schema) -> list[dict[str, Any] | None]:
    """The records' values as dicts, None for a record without a value."""
    value_rows = python_rows(batch.select(values.names))
    is_null = batch[NULL_VALUE.name].to_pylist()
    return [None if null else value for value, null in zip(value_rows, is_null, strict=True)]


def rejected_table(
    batch: pa.Table, rejected: Sequence[tuple[int, str]], carried: Sequence[pa.Field] = ()
) -> pa.Table:
    """Rejected records as rows of ``REJECTED_SCHEMA``, then their ``carried`` columns.

    ``rejected`` has (row of the batch, message) of each.
    """
    rows = pa.array([row for row, _ in rejected], pa.int64())
    names = ["key", "timestamp_ms", *(field.name for field in carried)]
    records = batch.select(["partition", "offset", INPUT.name, *names]).take(rows)
    # Only results of a join share an offset and have an order among themselves.
    suborder = (
        batch[SUBORDER.name].take(rows)
        if SUBORDER.name in batch.column_names
        else pa.nulls(len(rows), SUBORDER.type)
    )
    details = pa.array([detail for _, detail in rejected], pa.string())
    schema = pa.schema([*REJECTED_SCHEMA, *carried])
    records = records.append_column(SUBORDER, suborder).append_column("detail", details)
    return records.select(schema.names).cast(schema)


def in_partition_order(fold: Fold, key: str, aggregates: Sequence[tuple[Any, Any]]) -> Any:
    """Merge the aggregates of several partitions, the least first; None if there is none.

    ``aggregates`` has (place, aggregate) of each: the place is the partition's number, for
    sessions (end, start, partition). An order of places, and not of arrival: between partitions
    arrival depends on the moment, and the merger need not be commutative (docs/decisions/0011).

    Raises:
        IllegalArgument: there are several and no merger, or the merger raised (which is no
            single record's fault).
    """
    in_order = [aggregate for _, aggregate in sorted(aggregates, key=lambda placed: placed[0])]
    result = in_order[0] if in_order else None
    for aggregate in in_order[1:]:
        try:
            result = fold.merged(key, result, aggregate)
        except Rejected as error:
            message = f"merging the partitions of key {key!r} failed: {error}"
            raise IllegalArgument(message) from error
    return result
