"""Steps that only select columns, so Spark does not need to read an expression."""

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from oriel.pipeline.arrow_steps.expressions import Call, ColumnRef, Expression
from oriel.pipeline.arrow_steps.steps import ArrowSteps, Compute, Program, ProgramStep
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.language import (
    SCOPE_COLUMNS,
    AggregatedRows,
    ForeignKey,
    Input,
    MapValues,
    Source,
    arrow_schema,
    reject_scope_names,
)
from oriel.pipeline.stage_columns import joined_values
from oriel.pipeline.windows import FOREIGN_KEY

if TYPE_CHECKING:
    from pyspark.sql import Column

#: SQL text that is only the name of a column.
_NAME = re.compile(r"(?!(?:null|true|false)$)[a-z_][a-z_0-9]*", re.IGNORECASE)


def selecting_steps(origin: Input | AggregatedRows, read: Source | pa.Schema) -> ArrowSteps | None:
    """Return the steps of an input that only select columns, or None if Spark must read them.

    The steps are after the decoded records of a source, the results of a join, or an aggregation.

    Raises:
        InvalidTopology: The schema of the source is invalid, or a column has a reserved name.
    """
    values = _input_values(origin, read)
    names = list(values.names)
    key: Expression = ColumnRef("key")
    computed: tuple[ProgramStep, ...] = ()
    for step in origin.steps:
        if isinstance(step, ForeignKey):
            foreign_key = _key(step.key, values, names, key)
            if foreign_key is None:
                return None
            computed = (Compute(FOREIGN_KEY.name, foreign_key),)
            kept = [values.field(name) for name in names] if step.keeps_columns else []
            values = pa.schema([*kept, FOREIGN_KEY])
            names = values.names
            continue
        if not isinstance(step, MapValues) or step.columns:
            return None
        next_key = _key(step.key, values, names, key)
        if next_key is None:
            return None
        key = next_key
        kept = [column for name in step.keep for column in (names if name == "*" else [name])]
        if not set(kept) <= set(names):
            return None
        names = list(dict.fromkeys(kept))
    next_key = _key(origin.group_by, values, names, key)
    if next_key is None:
        return None
    values = pa.schema([values.field(name) for name in names])
    program = Program(computed, {name: name for name in names}, next_key)
    typed_keys = None if isinstance(origin, AggregatedRows) else TypedKeys.of(origin)
    joined = not isinstance(read, Source) and not isinstance(origin, AggregatedRows)
    return ArrowSteps(values, program, typed_keys, joined=joined)


def _input_values(origin: Input | AggregatedRows, read: Source | pa.Schema) -> pa.Schema:
    """Return the value columns that the first step reads.

    Raises:
        InvalidTopology: The schema of the source is invalid, or a column has a reserved name.
    """
    if isinstance(read, Source):
        values = arrow_schema(read.columns)
        reject_scope_names(str(read), values.names)
        return values
    if isinstance(origin, AggregatedRows):
        values = pa.schema([field for field in read if field.name not in origin.scope])
        reject_scope_names("the aggregation", values.names)
        return values
    return joined_values(read)


def _key(
    parts: "tuple[str | Column, ...]",
    values: pa.Schema,
    names: list[str],
    key: Expression,
) -> Expression | None:
    """Return the key that ``parts`` compute from the columns ``names`` and the previous ``key``.

    None if it is not a column, or if Arrow and Spark can cast the column to different strings.
    """
    if not parts:
        return key
    part, *others = parts
    # The type is tested first, because ``==`` of a Spark column is a column and not a boolean.
    if others or not isinstance(part, str) or not _NAME.fullmatch(part):
        return None
    if part == "key":
        return key
    if part not in (*SCOPE_COLUMNS, *names):
        return None
    is_plain = part in SCOPE_COLUMNS or (
        pa.types.is_string(values.field(part).type) or pa.types.is_integer(values.field(part).type)
    )
    return Call("cast", (ColumnRef(part),), {"to": pa.string()}) if is_plain else None
