"""Aggregates of windows whose members come in several pieces.

The parts of each piece are worked out like those of a whole window, and the parts of a window
are merged: a part depends on the set of records only, not on how the set was put together.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.part_columns import PartColumns
from oriel.pipeline.windows.arrays import Ints, Ranges, heads

#: How many parts of a window, on average, wait to be merged: merging costs less for several
#: at once, and waiting parts cost memory.
_WAITING = 4


class Pieces(NamedTuple):
    """One range of rows of each of some windows: window ``window[i]`` has ``row[range i]``.

    Rows stand in canonical order inside a range, which is not empty. A window may be there
    more than once.
    """

    window: Ints
    row: Ints
    ranges: Ranges


def of_pieces(
    aggregates: Mapping[str, Aggregate],
    values: pa.Schema,
    rows: pa.Table,
    all_pieces: Iterable[Pieces],
) -> dict[str, pa.Array]:
    """The aggregates, by the name of their output column, of windows 0, 1, ...

    ``values`` are the types of the columns that aggregates read; ``rows`` has these columns and
    the records' coordinates. Each window has a piece, and no row is in two pieces of a window.
    """
    # Users' functions may share a name, and so would the columns of their parts.
    shared = {n: a for n, a in aggregates.items() if not _has_functions(a, values)}
    groups = [shared, *({n: a} for n, a in aggregates.items() if n not in shared)]
    merging = [_Merging(PartColumns(group, values)) for group in groups if group]
    for pieces in all_pieces:
        table = rows.take(pa.array(pieces.row))
        for parts in merging:
            parts.add(pieces.window, table, pieces.ranges)
    return {name: column for parts in merging for name, column in parts.results().items()}


def _has_functions(aggregate: Aggregate, values: pa.Schema) -> bool:
    parts = aggregate.parts(aggregate.column_type(values))
    return any(part.rule.functions is not None for part in parts)


class _Merging:
    """The parts of windows while their pieces come in."""

    def __init__(self, columns: PartColumns) -> None:
        self._columns = columns
        self._windows: list[Ints] = []
        self._parts: list[pa.Table] = []

    def add(self, window: Ints, rows: pa.Table, ranges: Ranges) -> None:
        """Take one range of rows into each of these windows."""
        self._windows.append(window)
        self._parts.append(self._columns.of(rows, ranges))
        if sum(map(len, self._windows[1:])) > _WAITING * len(self._windows[0]):
            self._merge()

    def results(self) -> dict[str, pa.Array]:
        """The aggregates of the windows, in the order of their numbers."""
        self._merge()
        return self._columns.results(self._parts[0])

    def _merge(self) -> None:
        """Merge what has come of each window."""
        window = np.concatenate(self._windows)
        order = np.argsort(window, kind="stable")
        same = Ranges.of_runs(heads(window[order]))
        rows = pa.concat_tables(self._parts).take(pa.array(order))
        self._parts = [self._columns.merged(rows, same)]
        self._windows = [window[order[same.low]]]
