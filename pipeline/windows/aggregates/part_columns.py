"""The state columns of windows: each partial aggregate that a store needs, once."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.parts import PartialAggregate
from oriel.pipeline.windows.arrays import Ranges
from oriel.pipeline.windows.definitions import IllegalArgument


def used_fields(aggregates: Mapping[str, Aggregate], values: pa.Schema) -> list[pa.Field]:
    """Return the fields of ``values`` that an aggregate reads, in the order of ``values``."""
    used = {aggregate.column for aggregate in aggregates.values()}
    return [field for field in values if field.name in used]


class PartialAggregates:
    """The partial aggregates of a store. Aggregates that need the same one share its column.

    A state row has the partial aggregates (``fields``), the ``carried`` columns, and
    ``timestamp_ms``, the greatest time of its records.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: Iterable[pa.Field] | None = None,
    ) -> None:
        """Find the partial aggregates that ``aggregates`` need.

        Args:
            aggregates: The aggregates by the name of their output column.
            values: The columns of the values.
            carried: Columns that the state keeps for the caller.

        Raises:
            IllegalArgument: An aggregate reads an unknown column or a column of another type, or
                two different aggregates have the same name.
        """
        self._carried = [field.name for field in carried or ()]
        self.aggregate_types = {n: a.output_type(values) for n, a in aggregates.items()}
        self._parts: dict[str, PartialAggregate] = {}
        #: Name of an aggregate -> its ``finish`` and the columns that it needs.
        self._finishes = {}
        state_types: dict[str, pa.DataType] = {}
        for name, aggregate in aggregates.items():
            column_type = aggregate.column_type(values)
            parts = aggregate.parts(column_type)
            finish = aggregate.rule(column_type).finish
            self._finishes[name] = (finish, [part.name for part in parts])
            for part in parts:
                # Only aggregates with functions of users can have equal names and differ. They
                # cannot share a column.
                if self._parts.setdefault(part.name, part) != part:
                    message = (
                        f"two different aggregates have the name {aggregate.call}. Use different "
                        "names"
                    )
                    raise IllegalArgument(message)
                state_types[part.name] = part.state_type(column_type)
        self.fields = [pa.field(name, state_type) for name, state_type in state_types.items()]

    def of(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """Return one state row per range of records.

        The records of a range are in the order of time, partition and offset.
        """
        members = Members(rows, ranges)
        # All records of a key have the same carried columns, so the first record is enough.
        first = pa.array(ranges.low)
        return pa.table({
            **{f.name: self._parts[f.name].of(members).cast(f.type) for f in self.fields},
            **{name: rows[name].take(first) for name in self._carried},
            # The order starts with the time, so the last record of a range has the greatest time.
            "timestamp_ms": np.asarray(rows["timestamp_ms"])[ranges.high - 1],
        })  # fmt: skip

    def of_each(self, rows: pa.Table) -> pa.Table:
        """Return one state row per record."""
        return self.of(rows, Ranges.of_each(len(rows)))

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """Merge the state rows of each range. The time is the greatest one.

        The ranges are not empty and cover the rows in order. The carried columns are from the first
        row of the range.
        """
        needs_merge = ranges.sizes > 1
        if not needs_merge.any():
            return rows
        # A single row is copied, because a merge has the same result and costs more.
        merged = Ranges.side_by_side(ranges.sizes[needs_merge])
        to_merge = pa.array(needs_merge[ranges.owners])
        # The merged rows are after all other rows.
        source = ranges.low.copy()
        source[needs_merge] = len(rows) + np.arange(len(merged.low))
        types = {field.name: field.type for field in self.fields}
        columns = {}
        for name in rows.column_names:
            column = rows.column(name)
            if name in types:
                column_to_merge = column.filter(to_merge).combine_chunks()
                part = self._parts[name].merged(column_to_merge, merged).cast(types[name])
                both = pa.concat_arrays([column.combine_chunks(), part])
                columns[name] = both.take(pa.array(source))
            elif name == "timestamp_ms":
                # ``reduceat`` ends a range where the next one starts, so it needs adjacent ranges.
                columns[name] = pa.array(np.maximum.reduceat(np.asarray(column), ranges.low))
            else:
                columns[name] = column.take(pa.array(ranges.low))
        return pa.table(columns, schema=rows.schema)

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the aggregates of each state row by the name of their output column."""
        columns = {field.name: rows.column(field.name).combine_chunks() for field in self.fields}
        return {
            name: finish(*(columns[part] for part in parts))
            for name, (finish, parts) in self._finishes.items()
        }
