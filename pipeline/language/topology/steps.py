"""Row-wise steps as data, with their texts.

The expressions of a step are SQL strings or Spark columns. This module does not import Spark. Each
kind of step is one class, and ``oriel.pipeline.rows`` lowers it (``LOWERINGS``).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

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


class Step:
    """A row-wise step.

    Attributes:
        flattens: Whether it creates several records from one.
        filters: Whether it is a filter with a condition of its own.
        sets_value: Whether it replaces the value.
        is_in_branches: Whether branches with the step can be merged.
        is_grouping: Whether it is the ``group_by`` of an aggregation whose updates are read.
    """

    flattens: ClassVar[bool] = False
    filters: ClassVar[bool] = False
    sets_value: ClassVar[bool] = False
    is_in_branches: ClassVar[bool] = False
    is_grouping = False

    @property
    def deletes_rows(self) -> bool:
        """Whether a record that it drops deletes the row of a table."""
        return False

    @property
    def new_key(self) -> "tuple[str | Column, ...]":
        """The expressions of the key that the step sets. Empty if it keeps the key."""
        return ()

    @property
    def foreign_key(self) -> "tuple[str | Column, ...]":
        """The expressions of the foreign key that the step computes. Empty for other steps."""
        return ()

    @property
    def lookup_key(self) -> "tuple[str | Column, ...]":
        """The key with which the step looks up a row. Empty for other steps."""
        return ()

    @property
    def computed(self) -> "Mapping[str, str | Column]":
        """The columns that the step computes, with their expressions."""
        return {}

    @property
    def alternatives(self) -> "Sequence[Sequence[Step]]":
        """The steps that a record can pass: the step itself, or the steps of one branch."""
        return ((self,),)

    @property
    def call(self) -> str | None:
        """The call that created the step. Empty: it is a part of a join. None: see ``str``."""
        return None

    @property
    def text(self) -> str:
        """The text of a call in ``describe``. ``str`` returns the text for a definition."""
        return str(self)

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        """Yield all expressions and functions."""
        yield from ()

    def selected_columns(self, names: Sequence[str]) -> Sequence[str] | None:
        """Return the columns that the step keeps of ``names``. None if it does more than select."""
        del names
        return None

    def kept_of(self, names: Sequence[str]) -> Sequence[str]:
        """Return the columns of rows after the step that it does not compute, of ``names``.

        Only a step of rows has this method. A column that it computes can also be in the result.
        """
        return names

    def of_rows(self) -> "Step":
        """Return the same step of a table."""
        return self

    def negates(self, other: "Step") -> bool:
        """Return whether the step drops each record that ``other`` keeps."""
        del other
        return False

    def for_definition(self) -> "Step | None":
        """Return the step without parts that change no row. None: the whole step changes none."""
        return self


@dataclass(frozen=True)
class Filter(Step):
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
    filters: ClassVar[bool] = True
    is_in_branches: ClassVar[bool] = True

    @property
    def deletes_rows(self) -> bool:
        return self.of_table

    @property
    def text(self) -> str:
        return f"filter{'_not' * self.is_negated}({expression_text(self.condition)})"

    def of_rows(self) -> "Filter":
        return replace(self, of_table=True)

    def negates(self, other: Step) -> bool:
        if not isinstance(other, Filter) or self.is_negated is other.is_negated:
            return False
        mine, others = self.condition, other.condition
        # ``==`` of a Spark column is a column and not a boolean.
        return mine is others or (
            isinstance(mine, str) and isinstance(others, str) and mine == others
        )

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield self.condition

    def __str__(self) -> str:
        return f"{self.text} of the table" if self.of_table else self.text


@dataclass(frozen=True)
class MapValues(Step):
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
    sets_value: ClassVar[bool] = True
    is_in_branches: ClassVar[bool] = True

    @property
    def new_key(self) -> "tuple[str | Column, ...]":
        return self.key

    @property
    def computed(self) -> "Mapping[str, str | Column]":
        return self.columns

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield from self.columns.values()
        yield from self.key

    def kept_of(self, names: Sequence[str]) -> Sequence[str]:
        return list(dict.fromkeys(kept_columns(self.keep, names)))

    def selected_columns(self, names: Sequence[str]) -> Sequence[str] | None:
        return None if self.columns else self.kept_of(names)

    def __str__(self) -> str:
        if self.key and self.keep == ("*",) and not self.columns:
            return f"select_key({grouping_text(self.key)})"
        value = columns_text(self.keep, self.columns)
        if self.key:
            return f"map(({grouping_text(self.key)}), {value})"
        return f"map_values({value})"


@dataclass(frozen=True)
class FlatMapValues(Step):
    """Create one flattened record per element of an array.

    Flattened records have the key, the time and the offset of their record. A record without
    elements is filtered out.

    Attributes:
        keep: The names of the columns to keep, or ``*`` for all columns.
        columns: New columns with their expressions. Exactly one is an array.
    """

    keep: tuple[str, ...]
    columns: Mapping[str, "str | Column"]
    flattens: ClassVar[bool] = True
    sets_value: ClassVar[bool] = True

    @property
    def computed(self) -> "Mapping[str, str | Column]":
        return self.columns

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield from self.columns.values()

    def __str__(self) -> str:
        return f"flat_map_values({columns_text(self.keep, self.columns)})"


@dataclass(frozen=True)
class Peek(Step):
    """Call ``function(key, value, timestamp_ms)`` with each record. Records do not change."""

    function: Peeker
    is_in_branches: ClassVar[bool] = True

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        yield self.function

    def for_definition(self) -> None:
        return None

    def __str__(self) -> str:
        return f"peek({short_name(self.function)})"


def null_key_filter(call: str) -> Filter:
    """Return the filter of records with a null key, which ``call`` adds.

    A table has no row for them, and a later step can set a key.
    """
    return Filter("key IS NOT NULL", call=call)


#: The steps of a branch, for which ``is_in_branches`` is True.
Chain = tuple[Step, ...]


@dataclass(frozen=True)
class Branches(Step):
    """Merged branches of one stream. Each record passes the filters of at most one branch.

    Attributes:
        chains: The steps of each branch.
    """

    chains: tuple[Chain, ...]
    is_in_branches: ClassVar[bool] = True

    @property
    def alternatives(self) -> "Sequence[Sequence[Step]]":
        return self.chains

    @property
    def new_key(self) -> "tuple[str | Column, ...]":
        # The keys of all branches have the same number of components.
        return key_of(self.chains[0])

    def expressions(self) -> "Iterator[str | Column | Peeker]":
        return expressions_of(chain.from_iterable(self.chains))

    def for_definition(self) -> "Branches":
        chains = ((step for step in steps if step.for_definition()) for steps in self.chains)
        return replace(self, chains=tuple(map(tuple, chains)))

    def __str__(self) -> str:
        """Return the steps of all branches, for ``describe``."""
        return f"branches({'; '.join('.'.join(map(str, steps)) for steps in self.chains)})"


def kept_columns(keep: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the columns to keep, with ``names`` in the place of ``*``. A name can be repeated."""
    names = tuple(names)
    return [column for name in keep for column in (names if name == "*" else (name,))]


def flattens(steps: Iterable[Step]) -> bool:
    """Return whether a step flattens records. Flattened records of one record share its offset."""
    return any(step.flattens for step in steps)


def key_of(steps: Iterable[Step]) -> "tuple[str | Column, ...]":
    """Return the key expressions of the last step that sets a key. Empty if no step does."""
    return next((step.new_key for step in reversed(tuple(steps)) if step.new_key), ())


def expressions_of(steps: Iterable[Step]) -> "Iterator[str | Column | Peeker]":
    """Yield all expressions and functions of steps."""
    return chain.from_iterable(step.expressions() for step in steps)
