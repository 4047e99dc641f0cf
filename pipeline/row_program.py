"""The row-wise steps of an input as a program of four operations, for Spark and for Arrow.

``oriel.pipeline.rows`` lowers the steps of a topology to a program over Spark columns. If each
expression of a user has a translation, Arrow runs the same program over its own expressions
(``oriel.pipeline.arrow_steps``). Otherwise, Spark runs it.

Rows are never dropped, only marked. A row is in use if it is neither invalid nor filtered out.
Operations change only rows in use. All other rows have null in computed columns.

Rows have the columns of the value, ``key`` and ``timestamp_ms``. The last operation computes the
key of the next operator as the column ``ROW_KEY``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

E = TypeVar("E")

#: The column with the key for the next operator, after all operations.
ROW_KEY = "__key"


class RowOperation(ABC, Generic[E]):
    """An operation on rows, with expressions of type ``E``: Spark columns or Arrow expressions.

    Attributes:
        drops_rows: Whether it filters out rows by a condition.
    """

    drops_rows: ClassVar[bool] = False

    @property
    @abstractmethod
    def expressions(self) -> tuple[E, ...]:
        """The expressions, over the columns before the operation."""

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the columns that the expressions compute. Empty texts for conditions."""
        return ("",) * len(self.expressions)

    @abstractmethod
    def with_expressions(self, expressions: Sequence[Any]) -> "RowOperation[Any]":
        """Return the same operation with translated ``expressions``."""

    @abstractmethod
    def pruned(
        self, needed: AbstractSet[str], read: Callable[[E], Iterable[str]]
    ) -> tuple["RowOperation[E]", AbstractSet[str]]:
        """Return the operation without columns that nothing needs, and the columns that it needs.

        Args:
            needed: The columns that are needed after the operation.
            read: Returns the columns that an expression reads.
        """


@dataclass(frozen=True)
class Filter(RowOperation[E]):
    """Filter out the rows for which ``condition`` is false or null."""

    drops_rows: ClassVar[bool] = True
    condition: E

    @property
    def expressions(self) -> tuple[E, ...]:
        return (self.condition,)

    def with_expressions(self, expressions: Sequence[Any]) -> "RowOperation[Any]":
        (condition,) = expressions
        return replace(self, condition=condition)

    def pruned(
        self, needed: AbstractSet[str], read: Callable[[E], Iterable[str]]
    ) -> tuple[RowOperation[E], AbstractSet[str]]:
        return self, {*needed, *read(self.condition)}


@dataclass(frozen=True)
class Tombstone(Filter[E]):
    """Delete the value of the rows for which ``condition`` is true, as the filter of a table.

    Later operations read null in all columns except ``key`` and ``timestamp_ms``.
    """

    drops_rows: ClassVar[bool] = False


@dataclass(frozen=True)
class Project(RowOperation[E]):
    """Replace the columns of rows. Columns that are neither kept nor computed are dropped.

    Attributes:
        kept: Name after the operation -> name before it.
        computed: Name -> expression over the columns before the operation. In Spark, it can also
            read an earlier computed column whose name no column before the operation has.
        guard: A column of booleans. Computed columns are null where it is not true. None: they are
            computed for all rows in use.
    """

    kept: Mapping[str, str]
    computed: Mapping[str, E]
    guard: str | None = None

    @property
    def expressions(self) -> tuple[E, ...]:
        return tuple(self.computed.values())

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(self.computed)

    def with_expressions(self, expressions: Sequence[Any]) -> "RowOperation[Any]":
        return replace(self, computed=dict(zip(self.computed, expressions, strict=True)))

    def pruned(
        self, needed: AbstractSet[str], read: Callable[[E], Iterable[str]]
    ) -> tuple[RowOperation[E], AbstractSet[str]]:
        kept = {name: old for name, old in self.kept.items() if name in needed}
        computed = {name: each for name, each in self.computed.items() if name in needed}
        guard = self.guard if computed else None
        needed_before = {name for each in computed.values() for name in read(each)}
        needed_before.update(kept.values(), () if guard is None else (guard,))
        return Project(kept, computed, guard), needed_before


@dataclass(frozen=True)
class Generate(RowOperation[E]):
    """Replace a row by one row per element of the array in a column.

    A row in use is filtered out if it has no elements or no value.

    Attributes:
        name: The column. It has the elements afterwards.
        kept: The other columns that are needed afterwards. None: all.
    """

    name: str
    kept: AbstractSet[str] | None = None

    @property
    def expressions(self) -> tuple[E, ...]:
        return ()

    def with_expressions(self, expressions: Sequence[Any]) -> "RowOperation[Any]":
        assert not expressions, "the array is a column"
        return self

    def pruned(
        self, needed: AbstractSet[str], read: Callable[[E], Iterable[str]]
    ) -> tuple[RowOperation[E], AbstractSet[str]]:
        del read
        # It stays if nothing reads the element, because it creates rows.
        return replace(self, kept=needed - {self.name}), needed | {self.name}


@dataclass(frozen=True)
class RowProgram(Generic[E]):
    """Operations in order. The first one reads the columns of the record and of its value."""

    operations: tuple[RowOperation[E], ...]

    def pruned(self, used: Iterable[str], read: Callable[[E], Iterable[str]]) -> "RowProgram[E]":
        """Return the program that computes only the columns ``used`` and what they need.

        Args:
            used: The columns after the last operation that are needed.
            read: Returns the columns that an expression reads.
        """
        needed: AbstractSet[str] = set(used)
        operations = []
        for operation in reversed(self.operations):
            pruned, needed = operation.pruned(needed, read)
            operations.append(pruned)
        return RowProgram(tuple(reversed(operations)))
