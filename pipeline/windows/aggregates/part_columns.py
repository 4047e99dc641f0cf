"""The parts of a store's aggregates as columns of its state."""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.parts import Part
from oriel.pipeline.windows.arrays import Ranges
from oriel.pipeline.windows.definitions import IllegalArgument


def used_fields(aggregates: Mapping[str, Aggregate], values: pa.Schema) -> list[pa.Field]:
    """The value columns that some aggregate reads."""
    used = {aggregate.column for aggregate in aggregates.values()}
    return [field for field in values if field.name in used]


class PartColumns:
    """Each distinct part once, however many aggregates are computed from it.

    Beside ``fields``, the parts, a state row has the ``carried`` columns and ``timestamp_ms``.
    """

    def __init__(
        self,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: Iterable[pa.Field] | None = None,
    ) -> None:
        """Work out which parts ``aggregates`` need.

        Raises:
            IllegalArgument: an aggregate reads an unknown column or one of a wrong type.
        """
        self._aggregates = dict(aggregates)
        self._carried = [field.name for field in carried or ()]
        self.aggregate_types = {n: a.output_type(values) for n, a in aggregates.items()}
        self._parts: dict[str, Part] = {}
        self._needed: dict[str, list[str]] = {}
        types: dict[str, pa.DataType] = {}
        for name, aggregate in self._aggregates.items():
            column = aggregate.column
            found = pa.null() if column is None else values.field(column).type
            parts = aggregate.parts(found)
            self._needed[name] = [part.name for part in parts]
            for part in parts:
                if self._parts.setdefault(part.name, part) != part:
                    message = (
                        f"two different aggregates are called {aggregate.call}; give each a name "
                        "of its own"
                    )
                    raise IllegalArgument(message)
                types[part.name] = part.state_type(found)
        self.fields = [pa.field(name, found) for name, found in types.items()]

    def of(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """What is kept of each range of records; they stand in order of time in it."""
        members = Members(rows, ranges)
        first = pa.array(ranges.low)
        return pa.table({
            **{f.name: self._parts[f.name].of(members).cast(f.type) for f in self.fields},
            **{name: rows[name].take(first) for name in self._carried},
            "timestamp_ms": np.asarray(rows["timestamp_ms"])[ranges.high - 1],
        })  # fmt: skip

    def merged(self, rows: pa.Table, ranges: Ranges) -> pa.Table:
        """One state row for each range of rows: parts merged, greatest time, the first's rest."""
        if (ranges.sizes == 1).all():
            return rows
        first = rows.take(pa.array(ranges.low))
        for field in self.fields:
            column = rows.column(field.name).combine_chunks()
            merged = self._parts[field.name].merged(column, ranges).cast(field.type)
            first = first.set_column(first.schema.get_field_index(field.name), field, merged)
        newest = np.maximum.reduceat(np.asarray(rows["timestamp_ms"]), ranges.low)
        place = first.schema.get_field_index("timestamp_ms")
        return first.set_column(place, "timestamp_ms", pa.array(newest))

    def results(self, rows: pa.Table) -> dict[str, pa.Array]:
        """The aggregates of each state row."""
        arrays = {field.name: rows.column(field.name).combine_chunks() for field in self.fields}
        return {
            name: aggregate.from_parts([arrays[part] for part in self._needed[name]])
            for name, aggregate in self._aggregates.items()
        }
