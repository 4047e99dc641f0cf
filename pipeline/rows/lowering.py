"""Lowering of row-wise steps to operations over Spark columns.

``LOWERINGS`` has one function per kind of step. It adds the operations of the step to a
``ProgramBuilder``.

Merged branches of one stream are computed one after the other, over the same rows (decision 0077).
At the split, key and value are copied to columns with the prefix ``__``. Each branch starts with
these copies. It has a column that marks the rows of the branch, and it copies its results to
further columns. At the end, each row has the key and the value of its branch. If no branch has a
map, nothing is copied.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import (
    Branches,
    Filter,
    FlatMapValues,
    MapValues,
    Peek,
    Step,
    kept_columns,
    reject_scope_names,
)
from oriel.pipeline.lowered import NO_ROW_KEY, OWN_KEY, ForeignKey, LookupKey, OwnKey
from oriel.pipeline.row_program import Filter as FilterRows
from oriel.pipeline.row_program import Generate, Project, RowOperation, Tombstone
from oriel.pipeline.rows.columns import (
    column_of,
    in_use,
    is_expression,
    key_text,
    passes_filter,
    peek_column,
)
from oriel.pipeline.rows.expressions import CONDITION, KEY, as_column
from oriel.pipeline.windows import FOREIGN_KEY

#: The expressions of a user by their roles in messages, for example ``CONDITION``.
Roles = Mapping[str, "str | Column"]


@dataclass(frozen=True)
class RowColumns:
    """The columns of rows between two operations.

    Attributes:
        scope: The columns that expressions can read in addition to the value, such as ``key``.
        values: The columns of the value.
        copies: The columns of branches. Their names start with ``__``.
    """

    scope: tuple[str, ...]
    values: tuple[str, ...]
    copies: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return (*self.scope, *self.values, *self.copies)


class ProgramBuilder(Protocol):
    """The program so far. Spark checks each operation when it is added."""

    store: str
    columns: RowColumns

    def naming(self, step: str) -> AbstractContextManager[None]:
        """Name ``step`` in the messages of all errors that Spark raises within this context."""

    def add(
        self, operation: RowOperation[Column], columns: RowColumns, roles: Roles | None = None
    ) -> None:
        """Add an operation.

        Args:
            operation: The operation.
            columns: The columns after it.
            roles: The expressions of the user in the operation.

        Raises:
            InvalidTopology: An expression is invalid. The message names the step.
        """

    def type_of(self, column: str) -> DataType:
        """Return the type of a column after the last operation."""


def project(
    builder: ProgramBuilder,
    computed: Mapping[str, Column],
    values: Sequence[str] | None = None,
    roles: Roles | None = None,
    *,
    copies: Sequence[str] | None = None,
) -> None:
    """Add a projection.

    Args:
        builder: The program so far.
        computed: The computed columns.
        values: The columns of the value afterwards. None: as before.
        roles: The expressions of the user.
        copies: The columns of branches afterwards. None: as before.
    """
    before = builder.columns
    after = replace(
        before,
        values=before.values if values is None else tuple(values),
        copies=before.copies if copies is None else tuple(copies),
    )
    kept = {name: name for name in after.names if name not in computed}
    builder.add(Project(kept, computed), after, roles)


def _filter(builder: ProgramBuilder, step: Filter) -> None:
    passes, roles = passes_filter(step), {CONDITION: step.condition}
    operation = Tombstone(~passes) if step.of_table else FilterRows(passes)
    builder.add(operation, builder.columns, roles)


def _flat_map_values(builder: ProgramBuilder, step: FlatMapValues) -> None:
    _replace_value(builder, step)
    lists = [name for name in step.columns if builder.type_of(name).typeName() == "array"]
    if len(lists) != 1:
        found = f"{lists} are arrays" if lists else "no column is an array"
        message = (
            f"store {builder.store!r}, step {step}: exactly one column must be an array, because "
            f"its elements become records, but {found}. Compute other columns in map_values first"
        )
        raise InvalidTopology(message)
    (name,) = lists
    columns = builder.columns
    others = tuple(value for value in columns.values if value != name)
    builder.add(Generate(name), replace(columns, values=(*others, name)))


def _lookup_key(builder: ProgramBuilder, step: LookupKey) -> None:
    computed = {
        "key": F.coalesce(key_text((step.key,)), F.lit(NO_ROW_KEY)),
        OWN_KEY: column_of("key"),
    }
    project(builder, computed, (*builder.columns.values, OWN_KEY), {KEY: step.key})


def _foreign_key(builder: ProgramBuilder, step: ForeignKey) -> None:
    kept = builder.columns.values if step.keeps_columns else ()
    computed = {FOREIGN_KEY.name: key_text(step.key)}
    project(builder, computed, (*kept, FOREIGN_KEY.name), key_roles(step.key))


def _peek(builder: ProgramBuilder, step: Peek) -> None:
    builder.add(FilterRows(peek_column(builder.columns.values, step, in_use())), builder.columns)


def _branches(builder: ProgramBuilder, step: Branches) -> None:
    split, has_maps = builder.columns, any(each.sets_value for each in chain_steps(step))
    copied_names = ("key", *split.values) if has_maps else ()
    _copy(builder, "__parted_", copied_names)
    types_of_branches: list[str] = []
    for number, steps in enumerate(step.chains):
        taken = f"__taken_{number}"
        restored = {name: column_of(f"__parted_{name}") for name in copied_names}
        copies = (*builder.columns.copies, taken)
        project(builder, {taken: F.lit(True), **restored}, split.values, copies=copies)  # noqa: FBT003
        for each in steps:
            with builder.naming(str(each)):
                _IN_BRANCH[type(each)](builder, each, taken)
        values = builder.columns.values
        # The order of columns is irrelevant, so they are sorted.
        types = (f"{name} {builder.type_of(name).simpleString()}" for name in values)
        types_of_branches.append(", ".join(sorted(types)))
        if types_of_branches[-1] != types_of_branches[0]:
            message = (
                f"store {builder.store!r}, merge: the branches' values must have the same columns, "
                f"not ({types_of_branches[0]}) and ({types_of_branches[-1]}). Convert with "
                "map_values"
            )
            raise InvalidTopology(message)
        _copy(builder, f"__given_{number}_", ("key", *values) if has_maps else ())
    branches = range(len(step.chains))
    computed: dict[str, Column] = {}
    # A row that belongs to no branch is filtered out.
    is_in_any = reduce(or_, (column_of(f"__taken_{number}") for number in branches))
    builder.add(FilterRows(is_in_any), builder.columns)
    for name in ("key", *builder.columns.values) if has_maps else ():
        # The value from the branch of each row.
        choice = F.when(column_of("__taken_0"), column_of(f"__given_0_{name}"))
        for branch in branches[1:]:
            given = column_of(f"__given_{branch}_{name}")
            choice = choice.when(column_of(f"__taken_{branch}"), given)
        computed[name] = choice
    project(builder, computed, copies=split.copies)


def _filter_in_branch(builder: ProgramBuilder, step: Filter, taken: str) -> None:
    holds = F.when(column_of(taken), passes_filter(step)).otherwise(F.lit(False))  # noqa: FBT003
    project(builder, {taken: holds}, None, {CONDITION: step.condition})


def _peek_in_branch(builder: ProgramBuilder, step: Peek, taken: str) -> None:
    is_taken = column_of(taken)
    shown = peek_column(builder.columns.values, step, in_use() & is_taken)
    project(builder, {taken: is_taken & shown})


def _copy(builder: ProgramBuilder, prefix: str, names: Iterable[str]) -> None:
    """Copy columns to names with a prefix."""
    copies = {f"{prefix}{name}": column_of(name) for name in names}
    if copies:
        project(builder, copies, copies=(*builder.columns.copies, *copies))


def _replace_value(
    builder: ProgramBuilder, step: MapValues | FlatMapValues, guard: str | None = None
) -> None:
    """Add the projection of a step that computes columns: first kept columns, then computed ones.

    A computed column replaces a kept column of the same name.

    Args:
        builder: The program so far.
        step: The step.
        guard: See ``Project``.
    """
    values = builder.columns.values
    reject_scope_names(str(step), step.columns)
    actual = {name.lower(): name for name in values}
    known = {"*", *actual}
    unnamed = next((n for n in step.keep if n.lower() not in known and is_expression(n)), None)
    if unnamed is not None:
        message = f"{step}: a computed column needs a name, like x={unnamed!r}"
        raise InvalidTopology(message)
    # Spark ignores the case of names.
    computed_names = {name.lower() for name in step.columns}
    names = dict.fromkeys(kept_columns(step.keep, values))
    kept = {name: actual.get(name.lower(), name) for name in names}
    kept = {name: old for name, old in kept.items() if name.lower() not in computed_names}
    computed = {name: as_column(each) for name, each in step.columns.items()}
    key = {"key": key_text(step.new_key)} if step.new_key else {}
    roles = {f"column {name!r}": value for name, value in step.columns.items()}
    roles |= key_roles(step.new_key)
    after = replace(builder.columns, values=(*kept, *computed))
    others = (*after.scope, *after.copies)
    kept |= {name: name for name in others if name not in key}
    builder.add(Project(kept, computed | key, guard), after, roles)


def key_roles(parts: Sequence["str | Column"]) -> Roles:
    """Return the expressions of a key, by their names in messages."""
    if len(parts) == 1:
        return {KEY: parts[0]}
    return {f"{KEY} {number}": part for number, part in enumerate(parts, start=1)}


def chain_steps(step: Step) -> list[Step]:
    """Return the step itself, or the steps of all merged branches."""
    return [each for steps in step.alternatives for each in steps]


#: Kind of step -> the function that adds its operations.
LOWERINGS: Mapping[type[Step], Callable[[ProgramBuilder, Any], None]] = {
    Branches: _branches,
    Filter: _filter,
    FlatMapValues: _flat_map_values,
    ForeignKey: _foreign_key,
    LookupKey: _lookup_key,
    MapValues: _replace_value,
    OwnKey: lambda builder, _step: project(
        builder,
        {"key": column_of(OWN_KEY)},
        [name for name in builder.columns.values if name != OWN_KEY],
    ),
    Peek: _peek,
}
#: The same for steps of merged branches.
_IN_BRANCH: Mapping[type[Step], Callable[[ProgramBuilder, Any, str], None]] = {
    Filter: _filter_in_branch,
    MapValues: _replace_value,
    Peek: _peek_in_branch,
}
