"""The aggregations of vectors: ``sum by (...)`` and so on, ``topk`` and ``bottomk``."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oriel.app.prometheus.expressions import Aggregation
from oriel.app.prometheus.metrics import NAME, Labels
from oriel.app.prometheus.windows import Values, Vector

Rows = npt.NDArray[np.intp]


class _Groups(NamedTuple):
    """The groups of an aggregation.

    Attributes:
        labels: The labels of each group.
        order: The rows, group by group.
        starts: The index in ``order`` of the first row of each group.
    """

    labels: list[Labels]
    order: Rows
    starts: Rows

    def rows(self) -> list[Rows]:
        """Return the rows of each group."""
        return np.split(self.order, self.starts[1:])


def aggregated(vector: Vector, node: Aggregation) -> Vector:
    """Return one series per group of a vector."""
    if not vector.labels:
        return vector
    groups = _groups(vector, node)
    order, starts = groups.order, groups.starts
    values, present = vector.values[order], vector.present[order]
    counts = np.add.reduceat(present, starts, axis=0, dtype=np.float64)
    result = _AGGREGATIONS[node.operator](values, present, starts, counts)
    return Vector(groups.labels, result, counts > 0)


def ranked(vector: Vector, node: Aggregation, limits: Values) -> Vector:
    """Return the greatest or least values of each group, with their series.

    Args:
        vector: The vector.
        node: ``topk`` or ``bottomk``.
        limits: The number of series at each time.

    Returns:
        The series that are among them at some time, group by group. At one time, the series of a
        group are in the order of their values.
    """
    chosen: list[Rows] = []
    present = np.zeros_like(vector.present)
    for rows in _groups(vector, node).rows() if vector.labels else ():
        values = vector.values[rows]
        # Absent values are last. Before them is NaN, which is neither great nor small.
        category = np.where(vector.present[rows], np.isnan(values), 2)
        signed = -values if node.operator == "topk" else values
        order = np.lexsort((signed, category), axis=0)
        ranks = np.argsort(order, axis=0)
        present[rows] = (ranks < limits) & vector.present[rows]
        chosen.append(rows[order[:, 0]])
    if not chosen:
        return vector
    rows = np.concatenate(chosen)
    rows = rows[present[rows].any(axis=1)]
    return Vector([vector.labels[row] for row in rows], vector.values[rows], present[rows])


def _groups(vector: Vector, node: Aggregation) -> _Groups:
    names = frozenset(node.labels)
    codes: dict[Labels, int] = {}
    of_rows = [
        codes.setdefault(group_labels(labels, names, is_without=node.is_without), len(codes))
        for labels in vector.labels
    ]
    group_of_row = np.array(of_rows, np.intp)
    order = np.argsort(group_of_row, kind="stable")
    starts = np.searchsorted(group_of_row[order], np.arange(len(codes)))
    return _Groups(list(codes), order, starts)


def group_labels(labels: Labels, names: frozenset[str], *, is_without: bool) -> Labels:
    """Return the labels of a series with only these names, or without them and the metric."""
    if is_without:
        return tuple(pair for pair in labels if pair[0] not in names and pair[0] != NAME)
    return tuple(pair for pair in labels if pair[0] in names)


def _sum(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    del counts
    total: Values = np.add.reduceat(np.where(present, values, 0.0), starts, axis=0)
    return total


def _avg(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    return _sum(values, present, starts, counts) / np.maximum(counts, 1)


def _min(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    del counts
    # Absent values and NaN lose against every number.
    least: Values = np.fmin.reduceat(np.where(present, values, np.nan), starts, axis=0)
    return least


def _max(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    del counts
    greatest: Values = np.fmax.reduceat(np.where(present, values, np.nan), starts, axis=0)
    return greatest


def _count(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    del values, present, starts
    return counts


def _group(values: Values, present: Values, starts: Rows, counts: Values) -> Values:
    del values, present, starts
    return np.ones_like(counts)


_AGGREGATIONS: Mapping[str, Callable[..., Values]] = {
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
    "count": _count,
    "group": _group,
}
