"""Aggregates of windows whose members come in several pieces.

Small parts are worked out of each piece like those of a whole window, and the parts of a window
are merged: a part depends on the set of records only, not on how the set was put together.
Aggregates that look at all values of a window (lists, quantiles, distinct values) have them
listed, for some windows at a time.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates.built_in import Aggregate
from oriel.pipeline.windows.aggregates.members import Members
from oriel.pipeline.windows.aggregates.part_columns import PartColumns
from oriel.pipeline.windows.aggregates.parts import SMALL, Part
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
    rows: pa.Table,
    all_pieces: Iterable[Pieces],
    listed: Iterable[Pieces],
) -> dict[str, pa.ChunkedArray]:
    """The aggregates, by the name of their output column, of windows 0, 1, ...

    ``rows`` has the columns that aggregates read and the records' coordinates. Each window has
    a piece in ``all_pieces``, and no row is in two pieces of a window. ``listed`` has each window
    once, in order, with all of its members.
    """
    merged = {n: a for n, a in aggregates.items() if _has_small_parts(a, rows.schema)}
    # Users' functions may share a name, and so would the columns of their parts.
    shared = {n: a for n, a in merged.items() if not _has_functions(a, rows.schema)}
    groups = [shared, *({n: a} for n, a in merged.items() if n not in shared)]
    merging = [_Merging(PartColumns(group, rows.schema)) for group in groups if group]
    columns: dict[str, list[pa.Array]] = {name: [] for name in aggregates}
    if merging:
        for pieces in all_pieces:
            table = rows.take(pa.array(pieces.row))
            for parts in merging:
                parts.add(pieces.window, table, pieces.ranges)
        for parts in merging:
            for name, column in parts.results().items():
                columns[name].append(column)
    if len(merged) < len(aggregates):
        for pieces in listed:
            members = Members(rows.take(pa.array(pieces.row)), pieces.ranges)
            for name in aggregates.keys() - merged.keys():
                columns[name].append(aggregates[name].of(members))
    return {name: pa.chunked_array(chunks) for name, chunks in columns.items()}


def _parts(aggregate: Aggregate, values: pa.Schema) -> tuple[Part, ...]:
    return aggregate.parts(aggregate.column_type(values))


def _has_functions(aggregate: Aggregate, values: pa.Schema) -> bool:
    return any(part.rule.functions is not None for part in _parts(aggregate, values))


def _has_small_parts(aggregate: Aggregate, values: pa.Schema) -> bool:
    rules = [part.rule for part in _parts(aggregate, values)]
    return all(rule in SMALL or rule.functions is not None for rule in rules)


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
