"""Aggregates of windows whose records are split into several ranges of rows (*pieces*).

Small partial aggregates are computed for each piece and merged per window. A partial aggregate
depends only on the set of records, so the split has no influence. Other aggregates need all values
of a window (lists, quantiles, distinct values). Their records are listed, for a few windows at a
time.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.part_columns import PartialAggregates
from oriel.pipeline.windows.aggregates.parts import SMALL
from oriel.pipeline.windows.arrays import Ints, Ranges, run_starts

#: The average number of unmerged partial aggregates per window before a merge. Fewer merges cost
#: less time, but unmerged partial aggregates need memory.
_MAX_UNMERGED = 4


class Pieces(NamedTuple):
    """Ranges of rows that belong to windows. A window can have several ranges.

    Attributes:
        window: The index of the window of each range.
        row: Indices of rows. The rows of a range are in the order of time, partition and offset.
        ranges: Ranges of ``row``, which are not empty.
    """

    window: Ints
    row: Ints
    ranges: Ranges


def aggregates_of_pieces(
    aggregates: Mapping[str, Aggregate],
    rows: pa.Table,
    all_pieces: Iterable[Pieces],
    listed: Iterable[Pieces],
) -> dict[str, pa.ChunkedArray]:
    """Return the aggregates of windows 0, 1, ... by the name of their output column.

    Args:
        aggregates: The aggregates by the name of their output column.
        rows: The columns that the aggregates read, and the coordinates of the records.
        all_pieces: The pieces of all windows. Each window has at least one piece, and two pieces
            of a window share no row.
        listed: Each window once, in order, with all of its records.
    """
    rules = {
        name: [part.rule for part in aggregate.parts(aggregate.column_type(rows.schema))]
        for name, aggregate in aggregates.items()
    }
    merged = {
        name: aggregate
        for name, aggregate in aggregates.items()
        if all(rule in SMALL or rule.functions is not None for rule in rules[name])
    }
    without_functions = {
        name: aggregate
        for name, aggregate in merged.items()
        if all(rule.functions is None for rule in rules[name])
    }
    # Aggregates with functions of users can have equal names, and then equal state columns.
    groups = [without_functions, *({n: a} for n, a in merged.items() if n not in without_functions)]
    merging = [_PieceMerger(PartialAggregates(group, rows.schema)) for group in groups if group]
    columns: dict[str, list[pa.Array]] = {name: [] for name in aggregates}
    if merging:
        for pieces in all_pieces:
            table = rows.take(pa.array(pieces.row))
            for parts in merging:
                parts.add(pieces.window, table, pieces.ranges)
        for parts in merging:
            for name, column in parts.results().items():
                columns[name].append(column)
    # To list the members costs time for each member of each window, so it is done only for
    # aggregates that need all values.
    if len(merged) < len(aggregates):
        for pieces in listed:
            members = Members(rows.take(pa.array(pieces.row)), pieces.ranges)
            for name in aggregates.keys() - merged.keys():
                columns[name].append(aggregates[name].of(members))
    return {name: pa.chunked_array(chunks) for name, chunks in columns.items()}


class _PieceMerger:
    """The partial aggregates of windows while their pieces arrive."""

    def __init__(self, columns: PartialAggregates) -> None:
        self._columns = columns
        self._windows: list[Ints] = []
        self._parts: list[pa.Table] = []

    def add(self, window: Ints, rows: pa.Table, ranges: Ranges) -> None:
        """Add one range of rows to each of the windows."""
        self._windows.append(window)
        self._parts.append(self._columns.of(rows, ranges))
        if sum(map(len, self._windows[1:])) > _MAX_UNMERGED * len(self._windows[0]):
            self._merge()

    def results(self) -> dict[str, pa.Array]:
        """Return the aggregates of the windows in the order of their indices."""
        self._merge()
        # Each window has a piece, so row i of the merged table is window i.
        return self._columns.results(self._parts[0])

    def _merge(self) -> None:
        """Merge the pieces of each window that have arrived."""
        window = np.concatenate(self._windows)
        # The sort is stable, so a user's ``merge`` receives the pieces of a window in the order in
        # which they were added.
        order = np.argsort(window, kind="stable")
        same = Ranges.of_runs(run_starts(window[order]))
        rows = pa.concat_tables(self._parts).take(pa.array(order))
        self._parts = [self._columns.merged(rows, same)]
        self._windows = [window[order[same.low]]]
