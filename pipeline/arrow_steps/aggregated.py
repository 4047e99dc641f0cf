"""Steps after an aggregation, for the rows of a store and for updates that become a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.steps import ArrowSteps, Rows
from oriel.pipeline.row_program import RowProgram
from oriel.pipeline.windows import (
    NULL_VALUE,
    STATUS_COLUMNS,
    WINDOW_COLUMNS,
    coded_keys,
    run_starts,
    widened,
)
from oriel.storage.expressions import Expression, column_names


@dataclass(frozen=True)
class AggregatedSteps:
    """Filters and maps for changed rows, as plain data that can be sent to tasks.

    The state keeps all rows of the aggregation, and does not depend on the steps. So the result of
    the steps for a row depends on the row alone (decision 0064).

    Attributes:
        program: The steps.
        types: The columns of the store after the steps, by name.
        final_only: True if a row is written once, when it is final.
    """

    program: RowProgram[Expression]
    types: Mapping[str, pa.DataType]
    final_only: bool

    @classmethod
    def of(cls, steps: ArrowSteps, *, final_only: bool) -> Self:
        """Return the steps of an input as steps of changed rows."""
        types = {field.name: widened(field.type) for field in steps.values}
        return cls(steps.program.pruned(types, column_names), types, final_only)

    def applied(self, changes: pa.Table) -> pa.Table:
        """Return changed rows after the steps, in the layout of ``changed_rows``.

        A row that a filter drops is written as removed, because the state does not contain whether
        the row was ever visible. If only final rows are written, it never was, so it is left out.
        """
        rows = Rows.aggregated(changes, changes["deleted"])
        rows.run(self.program)
        exists = rows.in_use
        values = {
            name: rows.in_use_only(rows.columns[name]).cast(of_type)
            for name, of_type in self.types.items()
        }
        status = {
            "timestamp_ms": changes["timestamp_ms"],
            "final": pc.and_(changes["final"], exists),
            "deleted": pc.invert(exists),
        }
        windows = {name: changes[name] for name in WINDOW_COLUMNS}
        written = pa.table(windows | values | {name: status[name] for name in STATUS_COLUMNS})
        if self.final_only:
            written = written.filter(pc.or_(exists, changes["deleted"]))
        return written


@dataclass(frozen=True)
class UpdateSteps:
    """Filters and maps for the updates of a table, as plain data that can be sent to tasks.

    As in Kafka Streams, a filter emits a removal for a row that it drops. It emits nothing if no
    row existed before, or if it also dropped the row before (decision 0071).

    Attributes:
        program: The steps.
        types: The columns of the updates after the steps, by name.
        windowed: True if rows have windows.
    """

    program: RowProgram[Expression]
    types: Mapping[str, pa.DataType]
    windowed: bool

    @classmethod
    def of(cls, steps: ArrowSteps, *, windowed: bool) -> Self:
        """Return the steps of an input as steps of updates."""
        types = {field.name: field.type for field in steps.values}
        return cls(steps.program.pruned(types, column_names), types, windowed)

    @property
    def filters(self) -> bool:
        """Whether a step can drop rows, so that the rows before the updates are needed."""
        return any(each.drops_rows for each in self.program.operations)

    def applied(self, updates: pa.Table, before: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return the emitted updates.

        Args:
            updates: The updates of the table, in apply order.
            before: The rows before all updates, with the columns of the table, key,
                ``timestamp_ms`` and, for windows, the bounds of the window.
            schema: The schema of the result. It has the columns after the steps instead of the
                columns of the table.
        """
        both = pa.concat_tables([before, updates.select(before.column_names)])
        is_deleted = np.zeros(len(both), dtype=np.bool_)
        is_deleted[len(before) :] = np.asarray(updates[NULL_VALUE.name])
        rows = Rows.aggregated(both, pa.array(is_deleted))
        rows.run(self.program)
        exists = np.asarray(rows.in_use)
        is_emitted = np.arange(len(both)) >= len(before)
        if self.filters:
            (key_code,), _ = coded_keys(both["key"])
            # Two sessions of a key can start at the same time, if one is closed for the records of
            # the other. So the end of the window also identifies a row.
            row_identity = [key_code]
            if self.windowed:
                row_identity += [np.asarray(both[name]) for name in WINDOW_COLUMNS[1:]]
            order = np.lexsort((np.arange(len(both)), *row_identity))
            existed = np.append(False, exists[order])[:-1]
            existed &= ~run_starts(*(place[order] for place in row_identity))
            is_emitted[order] &= exists[order] | existed
        emitted = pa.array(np.flatnonzero(is_emitted))
        emitted_updates = updates.take(pc.subtract(emitted, len(before)))
        columns = {
            **{name: emitted_updates[name] for name in emitted_updates.column_names},
            **{name: rows.in_use_only(rows.columns[name]).take(emitted) for name in self.types},
            NULL_VALUE.name: pa.array(~exists[np.asarray(emitted)]),
        }
        return pa.table([columns[name] for name in schema.names], schema)
