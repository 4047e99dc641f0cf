"""Row-wise steps as data, with their texts.

The expressions of a step are SQL strings or Spark columns. This module does not import Spark.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from oriel.pipeline.language.names import SCOPE_COLUMNS, WINDOW_BOUNDS

if TYPE_CHECKING:
    from pyspark.sql import Column

#: A function of ``peek``: (key, value, timestamp_ms), with None for a null key or value.
Peeker = Callable[[str | None, dict[str, Any] | None, int], object]

_ORIGIN = ",Origin("
#: The texts of a column and of a constant, as arguments of a Python function in Spark's text.
_ARGUMENT_COLUMN = re.compile(
    r"columnnodeexpression\(UnresolvedAttribute\(List\(([^()]*)\),None,false\)\)"
)
_ARGUMENT_CONSTANT = re.compile(r"columnnodeexpression\(Literal\(([^()]*),None\)\)")


def expression_text(expression: "str | Column") -> str:
    """Return an expression as text that is the same in every run.

    A store records its grouping, so the text must change only with the topology. Spark's text for
    an argument of a Python function has a memory address and a line number, ``,Origin(...)``. They
    are removed here, and columns and constants in such a text are written as in SQL.
    """
    text = repr(expression)
    if isinstance(expression, str):
        return text
    while (start := text.find(_ORIGIN)) >= 0:
        depth, end = 1, start + len(_ORIGIN)
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = text[:start] + text[end:]
    text = _ARGUMENT_COLUMN.sub(lambda given: given[1].replace(", ", "."), text)
    return _ARGUMENT_CONSTANT.sub(r"\1", text)


def function_name(function: Callable[..., Any]) -> str:
    """Return the qualified name of a function, or of the class of a callable object."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name


def short_name(function: Callable[..., Any]) -> str:
    """Return the name of a function without the enclosing function, for ``describe``."""
    return function_name(function).rpartition("<locals>.")[2]


def grouping_text(parts: "tuple[str | Column, ...]") -> str:
    """Return the expressions of a grouping in one line, or ``key`` without expressions."""
    texts = (part if isinstance(part, str) else expression_text(part) for part in parts or ("key",))
    return ", ".join(" ".join(text.split()) for text in texts)


def columns_text(keep: Iterable[str], columns: "Mapping[str, str | Column]") -> str:
    """Return the columns of a new value as arguments: kept columns, then computed columns."""
    computed = (f"{name}={expression_text(value)}" for name, value in columns.items())
    return ", ".join([*map(repr, keep), *computed])


@dataclass(frozen=True)
class Filter:
    """Keep the records for which a condition is true, neither false nor null.

    Attributes:
        condition: The condition.
        is_negated: Whether to keep the other records instead (``filter_not``).
        of_table: Whether it is a step of a table, where a dropped record deletes the row.
        call: The call that created the filter, as text for ``describe``. None: a call of ``filter``
            or ``filter_not``. Empty: the filter is a part of a join.
    """

    condition: "str | Column"
    is_negated: bool = False
    of_table: bool = False
    call: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        text = f"filter{'_not' * self.is_negated}({expression_text(self.condition)})"
        return f"{text} of the table" if self.of_table else text


@dataclass(frozen=True)
class MapValues:
    """Replace the value, and possibly the key.

    Attributes:
        keep: The names of the columns to keep, or ``*`` for all columns.
        columns: New columns with their expressions.
        key: The expressions of the new key, combined as by ``group_by``. Empty: keep the key.
        is_grouping: Whether it is the ``group_by`` of an aggregation whose updates are read.
    """

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]
    key: tuple["str | Column", ...] = ()
    is_grouping: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        if self.key and self.keep == ("*",) and not self.columns:
            return f"select_key({grouping_text(self.key)})"
        value = columns_text(self.keep, self.columns)
        if self.key:
            return f"map(({grouping_text(self.key)}), {value})"
        return f"map_values({value})"


@dataclass(frozen=True)
class FlatMapValues:
    """Create one flattened record per element of an array.

    Flattened records have the key, the time and the offset of their record. A record without
    elements is filtered out.

    Attributes:
        keep: The names of the columns to keep, or ``*`` for all columns.
        columns: New columns with their expressions. Exactly one is an array.
    """

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]

    def __str__(self) -> str:
        return f"flat_map_values({columns_text(self.keep, self.columns)})"


#: The column with the key of a record during its join with a global table.
OWN_KEY = "__own_key"


@dataclass(frozen=True)
class LookupKey:
    """Set the key with which a record is joined with a global table, and keep its own key.

    Its own key is in the column ``OWN_KEY``. A null key becomes ``NO_ROW_KEY``, because a global
    table has no row with this key.
    """

    key: "str | Column"

    def __str__(self) -> str:
        return f"with_lookup_key({grouping_text((self.key,))})"


#: A Unicode noncharacter, which is not valid for interchange. Global tables drop a row with it.
NO_ROW_KEY = "\uffff"


@dataclass(frozen=True)
class OwnKey:
    """Restore the own key of a record after its join with a global table."""

    def __str__(self) -> str:
        return "with_own_key()"


@dataclass(frozen=True)
class ForeignKey:
    """Compute the foreign key of a row as the column ``FOREIGN_KEY`` (KIP-213).

    Attributes:
        key: The expressions of the foreign key, combined as by ``group_by``.
        keeps_columns: Whether to keep the other columns of the row. Default: drop them.
    """

    key: tuple["str | Column", ...]
    keeps_columns: bool = False

    def __str__(self) -> str:
        return f"{'with_' if self.keeps_columns else ''}foreign_key({grouping_text(self.key)})"


@dataclass(frozen=True)
class Peek:
    """Call ``function(key, value, timestamp_ms)`` with each record. Records do not change."""

    function: Peeker

    def __str__(self) -> str:
        return f"peek({short_name(self.function)})"


def null_key_filter(call: str) -> Filter:
    """Return the filter of records with a null key, which ``call`` adds.

    A table has no row for them, and a later step can set a key.
    """
    return Filter("key IS NOT NULL", call=call)


#: The steps of a branch.
Chain = tuple[Filter | MapValues | Peek, ...]


@dataclass(frozen=True)
class Branches:
    """Merged branches of one stream. Each record passes the filters of at most one branch.

    Attributes:
        chains: The steps of each branch.
    """

    chains: tuple[Chain, ...]

    def __str__(self) -> str:
        """Return the steps of all branches, for ``describe``."""
        return f"branches({'; '.join('.'.join(map(str, steps)) for steps in self.chains)})"


RowStep = Filter | MapValues | FlatMapValues | LookupKey | OwnKey | ForeignKey | Peek
Step = RowStep | Branches


@dataclass(frozen=True)
class AggregatedRows:
    """The rows of a store between its aggregation and its table, with their steps.

    A filter deletes the rows that it drops.

    Attributes:
        steps: The steps over the rows.
        windowed: Whether the rows have windows, so that the steps can read the window bounds.
    """

    steps: tuple[Filter | MapValues, ...]
    windowed: bool

    def __str__(self) -> str:
        return ".".join(map(str, self.steps))

    @property
    def group_by(self) -> "tuple[str | Column, ...]":
        """Empty, because a row keeps its key."""
        return ()

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns that expressions can read in addition to the aggregates."""
        return (*SCOPE_COLUMNS, *(WINDOW_BOUNDS if self.windowed else ()))


def flattens(steps: Iterable[Step]) -> bool:
    """Return whether a step flattens records. Flattened records of one record share its offset."""
    return any(isinstance(step, FlatMapValues) for step in steps)


def key_of(steps: Iterable[Step]) -> "tuple[str | Column, ...]":
    """Return the key expressions of the last step that sets a key. Empty if no step does."""
    for step in reversed(tuple(steps)):
        if isinstance(step, MapValues) and step.key:
            return step.key
        # The keys of all branches have the same number of components.
        if isinstance(step, Branches) and (key := key_of(step.chains[0])):
            return key
    return ()


def expressions_of(steps: Iterable[Step]) -> "Iterator[str | Column | Peeker]":
    """Yield all expressions and functions of steps."""
    for step in steps:
        if isinstance(step, Filter):
            yield step.condition
        elif isinstance(step, LookupKey):
            yield step.key
        elif isinstance(step, ForeignKey):
            yield from step.key
        elif isinstance(step, Peek):
            yield step.function
        elif isinstance(step, Branches):
            yield from chain.from_iterable(map(expressions_of, step.chains))
        elif isinstance(step, MapValues | FlatMapValues):
            yield from step.columns.values()
            yield from step.key if isinstance(step, MapValues) else ()
