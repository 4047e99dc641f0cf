"""Row-wise steps as data, and how they are written.

What a step computes are Spark column expressions, as SQL text or as a ``Column``. Nothing here
touches Spark.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from oriel.pipeline.language.names import SCOPE, WINDOW_BOUNDS

if TYPE_CHECKING:
    from pyspark.sql import Column

#: What a record is shown to: (key, value, timestamp_ms); None where there is no key or value.
Peeker = Callable[[str | None, dict[str, Any] | None, int], object]

_ORIGIN = ",Origin("
#: How Spark writes a column and a constant that a Python function is given.
_GIVEN_COLUMN = re.compile(
    r"columnnodeexpression\(UnresolvedAttribute\(List\(([^()]*)\),None,false\)\)"
)
_GIVEN_CONSTANT = re.compile(r"columnnodeexpression\(Literal\(([^()]*),None\)\)")


def expression_text(expression: "str | Column") -> str:
    """An expression as it is written, the same in every run.

    A store remembers what it is grouped by, so the text must not change while the topology does
    not. Spark's text of a Python function's argument says where in memory and in which line it
    was made, ``,Origin(...)`` with parentheses inside: that is taken out. A column or a constant
    that it is given is written as in SQL.
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
    text = _GIVEN_COLUMN.sub(lambda given: given[1].replace(", ", "."), text)
    return _GIVEN_CONSTANT.sub(r"\1", text)


def function_name(function: Callable[..., Any]) -> str:
    """How a function is called where it is defined; an object that is called, by its class."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name


def short_name(function: Callable[..., Any]) -> str:
    """The name alone, for who reads a topology: not in which function it is defined."""
    return function_name(function).rpartition("<locals>.")[2]


def grouping_text(parts: "tuple[str | Column, ...]") -> str:
    """What records are grouped by, in one line; ``key`` is the record's own."""
    texts = (part if isinstance(part, str) else expression_text(part) for part in parts or ("key",))
    return ", ".join(" ".join(text.split()) for text in texts)


def columns_text(keep: Iterable[str], columns: "Mapping[str, str | Column]") -> str:
    """The columns of a new value as they are written: those that stay, then the computed ones."""
    computed = (f"{name}={expression_text(value)}" for name, value in columns.items())
    return ", ".join([*map(repr, keep), *computed])


@dataclass(frozen=True)
class Filter:
    """Keep the records for which the condition is true (not false, not null).

    ``is_negated``: keep the others. ``of_table``: the others are rows that are deleted.
    """

    condition: "str | Column"
    is_negated: bool = False
    of_table: bool = False

    def __str__(self) -> str:
        """The step as it is written."""
        text = f"filter{'_not' * self.is_negated}({expression_text(self.condition)})"
        return f"{text} of the table" if self.of_table else text


@dataclass(frozen=True)
class MapValues:
    """Replace the value: keep the columns named in ``keep`` (``*``: all), add ``columns``.

    ``key``, if it is not empty, is what the new key is made of, as in ``group_by``.
    """

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]
    key: tuple["str | Column", ...] = ()

    def __str__(self) -> str:
        """The step as it is written."""
        if self.key and self.keep == ("*",) and not self.columns:
            return f"select_key({grouping_text(self.key)})"
        value = columns_text(self.keep, self.columns)
        if self.key:
            return f"map(({grouping_text(self.key)}), {value})"
        return f"map_values({value})"


@dataclass(frozen=True)
class FlatMapValues:
    """One record for each element of the one array among ``columns``; ``keep`` as in MapValues.

    All of them have the record's key, time and place. A record without an element is filtered out.
    """

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]

    def __str__(self) -> str:
        """The step as it is written."""
        return f"flat_map_values({columns_text(self.keep, self.columns)})"


#: The column in which a record keeps its own key while it looks a global table up.
OWN_KEY = "__own_key"


@dataclass(frozen=True)
class LookupKey:
    """Make the key under which a global table is looked up; the own one waits in ``OWN_KEY``.

    ``NO_ROW_KEY``, under which no global table has a row, stands for null.
    """

    key: "str | Column"

    def __str__(self) -> str:
        """The step as it is written."""
        return f"with_lookup_key({grouping_text((self.key,))})"


#: A text that Unicode keeps out of all exchange; a global table's row of this key is left out.
NO_ROW_KEY = "\uffff"


@dataclass(frozen=True)
class OwnKey:
    """Give a record its own key back, behind the lookup of a global table."""

    def __str__(self) -> str:
        """The step as it is written."""
        return "with_own_key()"


@dataclass(frozen=True)
class ForeignKey:
    """Make the key of another table's row that a row names, as ``group_by`` makes keys.

    It is the column ``FOREIGN_KEY``; of the value nothing else stays, if it is not ``beside``.
    """

    key: tuple["str | Column", ...]
    beside: bool = False

    def __str__(self) -> str:
        """The step as it is written."""
        return f"{'with_' if self.beside else ''}foreign_key({grouping_text(self.key)})"


@dataclass(frozen=True)
class Peek:
    """Call ``function(key, value, timestamp_ms)`` for each record, which stays as it is."""

    function: Peeker

    def __str__(self) -> str:
        """The step as it is written."""
        return f"peek({short_name(self.function)})"


#: Where a table begins or ends: a record without a key is none of its rows, and could get one.
HAS_KEY = Filter("key IS NOT NULL")

#: A branch's steps.
Chain = tuple[Filter | MapValues | Peek, ...]


@dataclass(frozen=True)
class Branches:
    """Each record by the one of several chains of steps whose filters it passes, if any.

    No record passes those of two: they are branches of one stream, merged again.
    """

    chains: tuple[Chain, ...]

    def __str__(self) -> str:
        """The steps, for who reads a topology."""
        return f"branches({'; '.join('.'.join(map(str, steps)) for steps in self.chains)})"


RowStep = Filter | MapValues | FlatMapValues | LookupKey | OwnKey | ForeignKey | Peek
Step = RowStep | Branches


@dataclass(frozen=True)
class AggregatedRows:
    """A store's rows on their way from the aggregation to the table, and their steps.

    They are rows of a table: one that a filter leaves out is removed. ``windowed``: a row is of a
    window, whose bounds the steps see.
    """

    steps: tuple[Filter | MapValues, ...]
    windowed: bool

    def __str__(self) -> str:
        """The steps as they are written."""
        return ".".join(map(str, self.steps))

    @property
    def group_by(self) -> "tuple[str | Column, ...]":
        """Empty: a row keeps its key."""
        return ()

    @property
    def scope(self) -> tuple[str, ...]:
        """The columns that expressions see beside those of the aggregates."""
        return (*SCOPE, *(WINDOW_BOUNDS if self.windowed else ()))


def flattens(steps: Iterable[Step]) -> bool:
    """Whether some step makes several records of one: elements, which share a place in the log."""
    return any(isinstance(step, FlatMapValues) for step in steps)


def key_of(steps: Iterable[Step]) -> "tuple[str | Column, ...]":
    """What the last step that makes a key makes it of; empty: none does."""
    for step in reversed(tuple(steps)):
        if isinstance(step, MapValues) and step.key:
            return step.key
        # All of them make it of as many parts.
        if isinstance(step, Branches) and (key := key_of(step.chains[0])):
            return key
    return ()


def expressions_of(steps: Iterable[Step]) -> "Iterator[str | Column | Peeker]":
    """All that ``steps`` compute with, functions too."""
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
