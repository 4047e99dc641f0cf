"""Aggregations by the Python functions of users: initializer, aggregator, merger.

An engine calls them through a ``UserFunctions``, which follows three rules (docs/decisions/0011):

- Functions receive copies, because Kafka Streams serializes an aggregate between two calls. So a
  function that changes its argument in place does not change another window.

- Results are converted to the declared types at once. For example, a DOUBLE column returns a float.
  Otherwise, a record would see another aggregate if a batch ended just before it.

- If a function raises on a record, the record is rejected with the step and the error, and no
  window of the record changes (``Rejected``). An error while partitions are merged stops the query,
  because it does not belong to a record.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, python_rows, python_values
from oriel.pipeline.windows.definitions import IllegalArgument, said
from oriel.pipeline.windows.functions.converters import Converter, converter
from oriel.pipeline.windows.records import INPUT, LINEAGE, NULL_VALUE, REJECTED_SCHEMA

#: (key, value, aggregate) -> aggregate. A null value is passed as None.
Aggregator = Callable[[str, Any, Any], Any]
#: (key, left aggregate, right aggregate) -> aggregate.
Merger = Callable[[str, Any, Any], Any]


class Rejected(Exception):
    """A user's function raised on a record. The message names the step and the error."""


@dataclass(frozen=True)
class UserFunctions:
    """An aggregation by functions of a user.

    An aggregate is ``None`` if the row does not exist: before the first record of a reduce, and
    after a function returned None.

    Args:
        initializer: Returns the aggregate of an empty window. None for a reduce, whose first value
            is the first aggregate.
        aggregators: One function per input stream: ``(key, value, aggregate) -> aggregate``.
        merger: ``(key, left, right) -> aggregate``.
        types: The columns of the aggregate.
        step: The step in the topology, for messages.
        unwraps_single_column: True if the functions receive and return the value of a single column
            instead of a dict.
        subtractor: ``(key, value, aggregate) -> aggregate``, if the records are changes of a table.
        of_updates: The inputs whose records are updates of joined tables.
    """

    initializer: Callable[[], Any] | None
    aggregators: tuple[Aggregator, ...]
    merger: Merger | None
    types: Mapping[str, pa.DataType]
    step: str
    unwraps_single_column: bool = True
    subtractor: Aggregator | None = None
    of_updates: frozenset[int] = frozenset()

    def aggregation_group(self, partition: int) -> int:
        """Return the group of records that are aggregated in the order of arrival.

        With several streams, the partition of a record is ``partition * streams + stream``. Each
        stream is then aggregated on its own, and the merger merges the results. Without a merger,
        all streams of a cogroup share one aggregate, as in Kafka Streams. Updates of joined tables
        have one order over all partitions and share one aggregate, because a deletion must find the
        aggregate of its row.
        """
        streams = len(self.aggregators)
        stream = partition % streams
        # For updates, the source partition is replaced by 0, so all partitions are one group.
        number = stream if stream in self.of_updates else partition
        return number // streams if self.merger is None else number

    def aggregation_groups(self, partitions: Ints) -> Ints:
        """Return ``aggregation_group`` of each partition."""
        # A batch has few different partitions, so Python runs once per partition instead of once
        # per record.
        distinct, place = np.unique(partitions, return_inverse=True)
        numbers = [self.aggregation_group(partition) for partition in distinct.tolist()]
        return np.array(numbers, dtype=np.int64)[place]

    def initial(self) -> Any:
        """Return the aggregate of an empty session, the first argument of the merger.

        For a reduce, it is ``None``.

        Raises:
            Rejected: The initializer raised, or its result does not fit the types.
        """
        try:
            return self._initial()
        except Exception as error:
            raise self._rejected(error) from error

    def applied(self, stream: int, key: str, value: Any, aggregate: Any) -> Any:
        """Return the aggregate after one more record of a stream, or None to remove the row.

        If ``aggregate`` is ``None``, the record starts a new aggregate, as the first record does
        (semantics.md#9).

        Raises:
            Rejected: The function raised, or its result does not fit the types.
        """
        try:
            if aggregate is None:
                aggregate = self._initial()
            if aggregate is None and self.initializer is None:
                # A reduce stores the first value without a call.
                return self._typed(value)
            # The value is not copied. Kafka Streams also passes one object to the aggregator for
            # all windows of a record.
            return self._typed(self.aggregators[stream](key, value, self._copy(aggregate)))
        except Exception as error:
            raise self._rejected(error) from error

    def subtracted(self, key: str, value: Any, aggregate: Any) -> Any:
        """Return the aggregate without a deleted row of a table, or None to remove the group's row.

        Without an aggregate, no function is called, as in Kafka Streams.

        Raises:
            Rejected: The function raised, or its result does not fit the types.
        """
        assert self.subtractor is not None, "only changes of a table subtract"
        if aggregate is None:
            return None
        try:
            return self._typed(self.subtractor(key, value, self._copy(aggregate)))
        except Exception as error:
            raise self._rejected(error) from error

    def merged(self, key: str, left: Any, right: Any) -> Any:
        """Return two aggregates as one. For a reduce, the left one can be missing.

        Raises:
            Rejected: The function raised, or its result does not fit the types.
            IllegalArgument: The aggregation has no merger.
        """
        if left is None and self.initializer is None:
            return right
        if self.merger is None:
            message = (
                f"{self.step}: records of key {key!r} are in several partitions, and without "
                "merger= their aggregates cannot be merged. Pass merger= to the aggregation"
            )
            raise IllegalArgument(message)
        try:
            return self._typed(self.merger(key, self._copy(left), self._copy(right)))
        except Exception as error:
            raise self._rejected(error) from error

    def joined(self, stream: int, key: str, value: Any, aggregates: Iterable[Any]) -> Any:
        """Return the aggregate of merged sessions, by their ends, and one more record of a stream.

        Raises:
            Rejected: A function raised, or its result does not fit the types.
        """
        # The merger is also called for the first session, with the initial aggregate, which is
        # neutral (semantics.md#4-1).
        joined = self.initial()
        for aggregate in aggregates:
            joined = self.merged(key, joined, aggregate)
        return self.applied(stream, key, value, joined)

    def columns(self, aggregates: Sequence[Any]) -> dict[str, pa.Array]:
        """Return aggregates as columns of their types, and a missing aggregate as nulls."""
        if not self.has_dicts:
            ((name, column_type),) = self.types.items()
            return {name: pa.array(aggregates, column_type)}
        return {
            name: pa.array([None if a is None else a[name] for a in aggregates], column_type)
            for name, column_type in self.types.items()
        }

    def replaced(self, aggregates: pa.Table, chosen: Flags, values: Sequence[Any]) -> pa.Table:
        """Return aggregates as columns, in which ``values`` replace the chosen ones."""
        if not len(values):
            return aggregates
        # Arrow columns cannot be changed, so the values follow the aggregates, and one ``take``
        # puts all rows in place.
        row = np.arange(len(aggregates))
        row[chosen] = len(aggregates) + np.arange(len(values))
        own = pa.table(self.columns(values), schema=aggregates.schema)
        return pa.concat_tables([aggregates, own]).take(pa.array(row))

    def read(self, rows: pa.Table) -> list[Any]:
        """Return the aggregates of rows that have the columns of ``columns``, one per row."""
        if not self.has_dicts:
            return python_values(rows[next(iter(self.types))])
        return list(python_rows(rows.select(list(self.types))))

    @cached_property
    def has_dicts(self) -> bool:
        """False if the functions receive the value of the only column instead of a dict."""
        return not self.unwraps_single_column or len(self.types) != 1

    @cached_property
    def _accepts_named_value(self) -> bool:
        """True if a dict can only be the columns by name: no column is a struct or a map."""
        types = pa.types
        return not any(types.is_struct(each) or types.is_map(each) for each in self.types.values())

    @cached_property
    def _is_flat(self) -> bool:
        """True if no value of an aggregate can be changed in place."""
        return not any(pa.types.is_nested(column_type) for column_type in self.types.values())

    @cached_property
    def _converters(self) -> tuple[tuple[str, Converter], ...]:
        """The converter of each column of an aggregate."""
        return tuple(
            (name, converter(column_type, name)) for name, column_type in self.types.items()
        )

    def _initial(self) -> Any:
        return None if self.initializer is None else self._typed(self.initializer())

    def _copy(self, aggregate: Any) -> Any:
        """Return a copy that a function can change. For flat columns, only the dict is copied."""
        # For nested columns, the conversion already copies all lists and dicts.
        if aggregate is None or not self._is_flat:
            return self._typed(aggregate)
        return dict(aggregate) if self.has_dicts else aggregate

    def _typed(self, aggregate: Any) -> Any:
        """Return the result of a function in the declared types, without objects of the user."""
        if aggregate is None:
            return None
        if not self.has_dicts:
            ((name, (_, convert)),) = self._converters
            if (
                self._accepts_named_value
                and isinstance(aggregate, dict)
                and aggregate.keys() == {name}
            ):
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


def function_fields(values: pa.Schema) -> list[pa.Field]:
    """Return the columns that an engine for functions reads in addition to ``RECORD_FIELDS``."""
    return [INPUT, NULL_VALUE, *values]


def function_values(batch: pa.Table, values: pa.Schema) -> list[dict[str, Any] | None]:
    """Return the values of the records as dicts, or None for a null value."""
    value_rows = python_rows(batch.select(values.names))
    is_null = batch[NULL_VALUE.name].to_pylist()
    return [None if null else value for value, null in zip(value_rows, is_null, strict=True)]


def rejected_table(
    batch: pa.Table, rejected: Sequence[tuple[int, str]], carried: Sequence[pa.Field] = ()
) -> pa.Table:
    """Return rejected records as rows of ``REJECTED_SCHEMA`` with their ``carried`` columns.

    Args:
        batch: The records of the batch.
        rejected: (row of the batch, message) of each rejected record.
        carried: Further columns of the batch.
    """
    rows = pa.array([row for row, _ in rejected], pa.int64())
    names = ["key", "timestamp_ms", *(field.name for field in carried)]
    records = batch.select(["partition", "offset", INPUT.name, *names]).take(rows)
    # Records of a source have no lineage.
    lineages = (
        batch[LINEAGE.name].take(rows)
        if LINEAGE.name in batch.column_names
        else pa.nulls(len(rows), LINEAGE.type)
    )
    details = pa.array([detail for _, detail in rejected], pa.string())
    schema = pa.schema([*REJECTED_SCHEMA, *carried])
    records = records.append_column(LINEAGE, lineages).append_column("detail", details)
    return records.select(schema.names).cast(schema)


def in_partition_order(fold: UserFunctions, key: str, aggregates: Sequence[tuple[Any, Any]]) -> Any:
    """Merge the aggregates of several partitions, the lowest first. None without aggregates.

    The order is not the order of arrival, because arrival between partitions depends on timing, and
    the merger can depend on the order of its arguments (docs/decisions/0011).

    Args:
        fold: The functions.
        key: The key of the aggregates.
        aggregates: (place, aggregate) of each. The place is the partition, and for sessions (end,
            start, partition).

    Raises:
        IllegalArgument: Several aggregates must be merged without a merger, or the merger raised.
    """
    # Only places are compared, because aggregates can be dicts, which have no order.
    in_order = [aggregate for _, aggregate in sorted(aggregates, key=lambda placed: placed[0])]
    result = in_order[0] if in_order else None
    for aggregate in in_order[1:]:
        try:
            result = fold.merged(key, result, aggregate)
        except Rejected as error:
            message = f"merging the partitions of key {key!r} failed: {error}"
            raise IllegalArgument(message) from error
    return result


def merged_in_order(
    fold: UserFunctions,
    keys: pa.Array | pa.ChunkedArray,
    places: Sequence[Any],
    aggregates: pa.Table,
    ranges: Ranges,
) -> list[Any]:
    """Merge the aggregates of each range as ``in_partition_order`` does.

    ``keys``, ``places`` and ``aggregates`` have an entry per row.
    """
    rows = ranges.rows()[1]
    values = fold.read(aggregates.take(pa.array(rows)))
    own_places = [places[row] for row in rows.tolist()]
    # All rows of a range have one key, so the first row has it.
    own_keys = keys.take(pa.array(ranges.low)).to_pylist()
    return [
        in_partition_order(
            fold, key, list(zip(own_places[low:high], values[low:high], strict=True))
        )
        for key, (low, high) in zip(
            own_keys, Ranges.side_by_side(ranges.sizes).pairs(), strict=True
        )
    ]
