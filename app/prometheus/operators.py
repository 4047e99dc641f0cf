"""Arithmetic and comparisons of scalars and vectors, and functions of numbers.

A scalar is an array with one number per time. The rules are Prometheus': arithmetic removes the
name of the metric, and a comparison without ``bool`` selects values.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from oriel.app.contract import QueryNotComputable
from oriel.app.prometheus.aggregations import group_labels
from oriel.app.prometheus.expressions import COMPARISONS, Binary, Matching
from oriel.app.prometheus.matchers import Mask
from oriel.app.prometheus.metrics import NAME, Labels
from oriel.app.prometheus.windows import Values, Vector

#: Labels of a message.
_SHOWN = 200

_OPERATORS: Mapping[str, Callable[[Values, Values], Values]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    # The result has the sign of the dividend.
    "%": np.fmod,
    "^": np.power,
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}

FUNCTIONS: Mapping[str, Callable[[Values], Values]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "sgn": np.sign,
    "sqrt": np.sqrt,
}


def applied(node: Binary, left: Vector | Values, right: Vector | Values) -> Vector | Values:
    """Return the result of an operator.

    Raises:
        QueryNotComputable: several series of an operand match one series.
    """
    if isinstance(left, Vector) and isinstance(right, Vector):
        return _of_vectors(node, left, right)
    if isinstance(left, Vector):
        assert not isinstance(right, Vector)
        return _of_vector(node, left, _computed(node, left.values, right))
    if isinstance(right, Vector):
        return _of_vector(node, right, _computed(node, left, right.values))
    return _computed(node, left, right)


def without_name(vector: Vector) -> Vector:
    """Return a vector without the names of the metrics.

    Raises:
        QueryNotComputable: two series have the same labels and a value at the same time.
    """
    names = frozenset({NAME})
    labels = [group_labels(each, names, is_without=True) for each in vector.labels]
    return _merged(vector._replace(labels=labels), "Select one metric")


def mapped(vector: Vector, function: Callable[[Values], Values]) -> Vector:
    """Return a function of each value of a vector."""
    with np.errstate(all="ignore"):
        return without_name(vector._replace(values=function(vector.values)))


def _computed(node: Binary, left: Values, right: Values) -> Values:
    with np.errstate(all="ignore"):
        return _OPERATORS[node.operator](left, right).astype(np.float64)


def _of_vector(node: Binary, vector: Vector, result: Values) -> Vector:
    if node.operator in COMPARISONS and not node.is_bool:
        return _kept(vector, vector.present & (result != 0))
    return without_name(vector._replace(values=result))


def _of_vectors(node: Binary, left: Vector, right: Vector) -> Vector:
    is_filter = node.operator in COMPARISONS and not node.is_bool
    signatures = [_signature(labels, node.matching) for labels in left.labels]
    of_right = [_signature(labels, node.matching) for labels in right.labels]
    hint = "Use on(...) or ignoring(...), or aggregate it"
    merged = _merged(right._replace(labels=of_right), hint)
    index = {labels: row for row, labels in enumerate(merged.labels)}
    # The last row is for a series that matches none.
    rows = np.array([index.get(each, len(index)) for each in signatures], np.intp)
    values = np.concatenate([merged.values, np.zeros((1, left.values.shape[1]))])[rows]
    is_matched = np.concatenate([merged.present, np.zeros((1, values.shape[1]), np.bool_)])[rows]
    present = left.present & is_matched
    result = _computed(node, left.values, values)
    if is_filter:
        present &= result != 0
        result = left.values
    _merged(Vector(signatures, result, present), hint)
    labels = [_result_labels(each, node.matching, is_filter=is_filter) for each in left.labels]
    return _merged(_kept(Vector(labels, result, present), present), hint)


def _signature(labels: Labels, matching: Matching) -> Labels:
    return group_labels(labels, frozenset(matching.labels), is_without=not matching.is_on)


def _result_labels(labels: Labels, matching: Matching, *, is_filter: bool) -> Labels:
    if matching.is_on:
        return group_labels(labels, frozenset(matching.labels), is_without=False)
    ignored = frozenset(matching.labels) | (frozenset() if is_filter else frozenset({NAME}))
    return tuple(pair for pair in labels if pair[0] not in ignored)


def _kept(vector: Vector, present: Mask) -> Vector:
    """Return the series that still have a value."""
    rows = np.flatnonzero(present.any(axis=1)).tolist()
    labels = [vector.labels[row] for row in rows]
    return Vector(labels, vector.values[rows], present[rows])


def _merged(vector: Vector, hint: str) -> Vector:
    """Return a vector with one series per label set.

    Raises:
        QueryNotComputable: two series have the same labels and a value at the same time.
    """
    rows_of: dict[Labels, list[int]] = {}
    for row, labels in enumerate(vector.labels):
        rows_of.setdefault(labels, []).append(row)
    if len(rows_of) == len(vector.labels):
        return vector
    first = [rows[0] for rows in rows_of.values()]
    values, present = vector.values[first], vector.present[first]
    for at, (labels, rows) in enumerate(rows_of.items()):
        for row in rows[1:]:
            if (present[at] & vector.present[row]).any():
                _reject_duplicate(labels, hint)
            values[at] = np.where(vector.present[row], vector.values[row], values[at])
            present[at] |= vector.present[row]
    return Vector(list(rows_of), values, present)


def _reject_duplicate(labels: Sequence[tuple[str, str]], hint: str) -> None:
    shown = ", ".join(f"{name}={value!r}" for name, value in labels)[:_SHOWN]
    message = f"query: several series of an operand have the labels {{{shown}}}. {hint}."
    raise QueryNotComputable(message)
