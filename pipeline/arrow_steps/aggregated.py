"""The steps behind an aggregation: of a store's rows, and of updates that go on as a stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.arrow_steps.steps import ArrowSteps, Keep, Program, Rows
from oriel.pipeline.windows import (
    NULL_VALUE,
    STATUS_COLUMNS,
    WINDOW_COLUMNS,
    coded_keys,
    heads,
    widened,
)


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
        rows = Rows.aggregated(changes, changes["deleted"])
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


@dataclass(frozen=True)
class UpdateSteps:
    """Filters and changes the updates of a table; plain data, so that tasks can be sent it.

    As in Kafka Streams, a filter tells of a row that it leaves out that it is gone, but nothing if
    there was none, or if it left out that one, too. ``windowed``: a row is of a window.
    """

    program: Program
    types: Mapping[str, pa.DataType]
    windowed: bool

    @classmethod
    def of(cls, steps: ArrowSteps, *, windowed: bool) -> Self:
        """The same steps for updates."""
        types = {field.name: field.type for field in steps.values}
        return cls(steps.program.pruned(list(types)), types, windowed)

    @property
    def filters(self) -> bool:
        """Whether they may leave rows out, so that it matters what rows were before."""
        return any(isinstance(step, Keep) for step in self.program.steps)

    def applied(self, updates: pa.Table, before: pa.Table, schema: pa.Schema) -> pa.Table:
        """The updates that are told, as ``schema``, which has the steps' columns for the table's.

        ``updates`` come in the order of effect; ``before`` has the rows ahead of all of them: the
        table's columns, key, ``timestamp_ms`` and perhaps the window's bounds.
        """
        both = pa.concat_tables([before, updates.select(before.column_names)])
        is_gone = np.zeros(len(both), dtype=np.bool_)
        is_gone[len(before) :] = np.asarray(updates[NULL_VALUE.name])
        rows = Rows.aggregated(both, pa.array(is_gone))
        rows.run(self.program)
        stands = np.asarray(rows.in_use)
        is_told = np.arange(len(both)) >= len(before)
        if self.filters:
            (key_code,), _ = coded_keys(both["key"])
            # Sessions of a key that begin together are two, if one is closed for the other.
            places = [key_code]
            if self.windowed:
                places += [np.asarray(both[name]) for name in WINDOW_COLUMNS[1:]]
            order = np.lexsort((np.arange(len(both)), *places))
            stood = np.append(False, stands[order])[:-1]
            stood &= ~heads(*(place[order] for place in places))
            is_told[order] &= stands[order] | stood
        told = pa.array(np.flatnonzero(is_told))
        own = updates.take(pc.subtract(told, len(before)))
        columns = {
            **{name: own[name] for name in own.column_names},
            **{
                name: rows.in_use_only(rows.columns[self.program.outputs[name]]).take(told)
                for name in self.types
            },
            NULL_VALUE.name: pa.array(~stands[np.asarray(told)]),
        }
        return pa.table([columns[name] for name in schema.names], schema)
