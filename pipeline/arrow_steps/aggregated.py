"""The steps of a store's rows, between its aggregation and its table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.steps import ArrowSteps, Program, Rows
from oriel.pipeline.windows import STATUS_COLUMNS, WINDOW_COLUMNS, widened


@dataclass(frozen=True)
class AggregatedSteps:
    """Filters and changes changed rows; plain data, so that tasks can be sent it.

    The aggregation goes on below with all its rows, whatever the steps make of them: so what they
    say of a row follows from the row alone. ``types`` are the store's columns behind the steps;
    ``final_only``: rows are written once, when they are final.
    """

    program: Program
    types: Mapping[str, pa.DataType]
    final_only: bool

    @classmethod
    def of(cls, steps: ArrowSteps, *, final_only: bool) -> Self:
        """The same steps for changed rows."""
        types = {field.name: widened(field.type) for field in steps.values}
        return cls(steps.program.pruned(list(types)), types, final_only)

    def applied(self, changes: pa.Table) -> pa.Table:
        """Changed rows (``changed_rows``) behind the steps, in their layout.

        A row that a filter leaves out is removed, whether or not it was ever there: that the state
        doesn't know. Of final rows it is known that they weren't, so these are left out.
        """
        rows = Rows.aggregated(changes)
        rows.run(self.program)
        stands = rows.in_use
        values = {
            name: rows.in_use_only(rows.columns[self.program.outputs[name]]).cast(of_type)
            for name, of_type in self.types.items()
        }
        status = {
            "timestamp_ms": changes["timestamp_ms"],
            "final": pc.and_(changes["final"], stands),
            "deleted": pc.invert(stands),
        }
        windows = {name: changes[name] for name in WINDOW_COLUMNS}
        written = pa.table(windows | values | {name: status[name] for name in STATUS_COLUMNS})
        if self.final_only:
            written = written.filter(pc.or_(stands, changes["deleted"]))
        return written
