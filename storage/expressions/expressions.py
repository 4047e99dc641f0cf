"""Expressions over the columns of a record, as plain data that can be sent to tasks."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from oriel.storage.expressions.functions import FUNCTIONS, Operand


class Expression(ABC):
    """An expression of one column."""

    @abstractmethod
    def evaluate(self, columns: Mapping[str, pa.ChunkedArray]) -> Operand:
        """Return the values of the expression: one per row, or a scalar if it is constant."""

    @abstractmethod
    def column_names(self) -> Iterator[str]:
        """Yield the columns that the expression reads. A column can be repeated."""


@dataclass(frozen=True)
class ColumnRef(Expression):
    """A column, by name."""

    name: str

    def evaluate(self, columns: Mapping[str, pa.ChunkedArray]) -> Operand:
        return columns[self.name]

    def column_names(self) -> Iterator[str]:
        yield self.name


@dataclass(frozen=True)
class Constant(Expression):
    """A value of an Arrow type, or null."""

    value: pa.Scalar

    def evaluate(self, columns: Mapping[str, pa.ChunkedArray]) -> Operand:
        del columns
        return self.value

    def column_names(self) -> Iterator[str]:
        yield from ()


@dataclass(frozen=True)
class Call(Expression):
    """A function in ``FUNCTIONS`` with its arguments and options."""

    function: str
    arguments: tuple[Expression, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def evaluate(self, columns: Mapping[str, pa.ChunkedArray]) -> Operand:
        function = FUNCTIONS[self.function]
        arguments = [argument.evaluate(columns) for argument in self.arguments]
        if all(isinstance(argument, pa.Scalar) for argument in arguments):
            row = [pa.repeat(argument, 1) for argument in arguments]
            return function(*row, **self.options)[0]
        return function(*arguments, **self.options)

    def column_names(self) -> Iterator[str]:
        for argument in self.arguments:
            yield from argument.column_names()


def column_names(expression: Expression) -> Iterator[str]:
    """Yield the columns that an expression reads, for ``RowProgram.pruned``."""
    return expression.column_names()
