"""Expressions over the columns of a record, as plain data that can be sent to tasks."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oriel.pipeline.arrow_steps.functions import FUNCTIONS, Operand


@dataclass(frozen=True)
class ColumnRef:
    """A column, by name."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A value of an Arrow type, or null."""

    value: pa.Scalar


@dataclass(frozen=True)
class Call:
    """A function in ``FUNCTIONS`` with its arguments and options."""

    function: str
    arguments: tuple["Expression", ...]
    options: Mapping[str, Any] = field(default_factory=dict)


Expression = ColumnRef | Constant | Call


def evaluate(expression: Expression, columns: Mapping[str, pa.ChunkedArray]) -> Operand:
    """Return the values of an expression: one per row, or a scalar if it is constant."""
    if isinstance(expression, ColumnRef):
        return columns[expression.name]
    if isinstance(expression, Constant):
        return expression.value
    function = FUNCTIONS[expression.function]
    arguments = [evaluate(argument, columns) for argument in expression.arguments]
    if all(isinstance(argument, pa.Scalar) for argument in arguments):
        row = [pa.repeat(argument, 1) for argument in arguments]
        return function(*row, **expression.options)[0]
    return function(*arguments, **expression.options)


def column_names(expression: Expression) -> Iterator[str]:
    """Yield the columns that an expression reads. A column can be repeated."""
    if isinstance(expression, ColumnRef):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from column_names(argument)
