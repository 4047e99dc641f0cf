"""Evaluate an expression over the vectors of its selectors.

The result is a scalar (an array with one number per time), a vector or a string. No step runs per
value.
"""

from collections.abc import Mapping

import numpy as np

from oriel.app.contract import InvalidParameter
from oriel.app.prometheus.aggregations import aggregated, ranked
from oriel.app.prometheus.expressions import (
    RANKINGS,
    Aggregation,
    Binary,
    Call,
    Negative,
    Node,
    Number,
    Selector,
    Text,
)
from oriel.app.prometheus.operators import FUNCTIONS, applied, mapped, without_name
from oriel.app.prometheus.windows import Grid, Values, Vector

Result = Vector | Values | str

_BOUNDED = frozenset({"clamp", "clamp_max", "clamp_min", "round"})
_SORTS = frozenset({"sort", "sort_desc"})


def evaluate(node: Node, vectors: Mapping[Selector, Vector], grid: Grid) -> Result:
    """Return the result of an expression at the times of a grid.

    Raises:
        QueryNotComputable: series of an operand have the same labels.
        InvalidParameter: an argument has no meaning.
    """
    if isinstance(node, Text):
        return node.value
    return _Evaluation(vectors, grid).value(node)


def is_ordered(node: Node) -> bool:
    """Return whether the order of the series is a part of the result at one time."""
    match node:
        case Aggregation(operator=operator):
            return operator in RANKINGS
        case Call(function=function):
            return function in _SORTS
    return False


class _Evaluation:
    """The evaluation of one expression."""

    def __init__(self, vectors: Mapping[Selector, Vector], grid: Grid) -> None:
        self._vectors = vectors
        self._grid = grid

    def value(self, node: Node) -> Vector | Values:
        match node:
            case Number(value=number):
                return np.full(self._grid.size, number)
            case Selector():
                return self._vectors[node]
            case Negative(operand=operand):
                value = self.value(operand)
                return mapped(value, np.negative) if isinstance(value, Vector) else -value
            case Binary(left=left, right=right):
                return applied(node, self.value(left), self.value(right))
            case Aggregation():
                return self._aggregation(node)
            case Call():
                return self._call(node)
        message = "query: a string must be a whole expression. Remove it."
        raise InvalidParameter(message)

    def _aggregation(self, node: Aggregation) -> Vector:
        vector = self._vector(node.operand)
        if node.parameter is None:
            return aggregated(vector, node)
        limits = self._scalar(node.parameter)
        if np.isnan(limits).any():
            message = f"query: the number of {node.operator} must not be NaN. Correct it."
            raise InvalidParameter(message)
        return ranked(vector, node, np.trunc(limits))

    def _call(self, node: Call) -> Vector | Values:
        name = node.function
        if name in FUNCTIONS:
            return mapped(self._vector(node.arguments[0]), FUNCTIONS[name])
        if name in _BOUNDED:
            limits = list(map(self._scalar, node.arguments[1:]))
            return self._bounded(name, self._vector(node.arguments[0]), limits)
        return self._conversion(node)

    def _bounded(self, name: str, vector: Vector, limits: list[Values]) -> Vector:
        if name == "round":
            nearest = limits[0] if limits else np.ones(self._grid.size)
            # Prometheus multiplies by the inverse, and rounds halves up.
            return mapped(vector, lambda values: np.floor(values / nearest + 0.5) * nearest)
        low = limits[0] if name != "clamp_max" else np.float64(-np.inf)
        high = limits[-1] if name != "clamp_min" else np.float64(np.inf)
        # A range without numbers has no result.
        vector = vector._replace(present=vector.present & ~(low > high))
        return mapped(vector, lambda values: np.maximum(np.minimum(values, high), low))

    def _conversion(self, node: Call) -> Vector | Values:
        """Return the result of a function between scalars and vectors."""
        arguments = [self.value(each) for each in node.arguments]
        match node.function, arguments:
            case "time", _:
                return self._grid.times / 1000
            case "vector", [scalar] if not isinstance(scalar, Vector):
                return Vector([()], scalar[np.newaxis], np.ones((1, self._grid.size), np.bool_))
            case "scalar", [Vector() as vector]:
                is_one = vector.present.sum(axis=0) == 1
                sums = np.where(vector.present, vector.values, 0.0).sum(axis=0)
                return np.where(is_one, sums, np.nan)
            case (("sort" | "sort_desc"), [Vector() as vector]) if vector.labels:
                values = vector.values[:, 0]
                signed = -values if node.function == "sort_desc" else values
                order = np.argsort(signed, kind="stable")
                labels = [vector.labels[row] for row in order]
                return Vector(labels, vector.values[order], vector.present[order])
        return without_name(self._vector(node.arguments[0]))

    def _vector(self, node: Node) -> Vector:
        value = self.value(node)
        assert isinstance(value, Vector)  # promql-parser checks the types.
        return value

    def _scalar(self, node: Node) -> Values:
        value = self.value(node)
        assert not isinstance(value, Vector)
        return value
