"""Steps that only select columns, so Spark does not need to read an expression."""

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from oriel.pipeline.arrow_steps.steps import ArrowSteps
from oriel.pipeline.arrow_steps.typed_keys import TypedKeys
from oriel.pipeline.language import SCOPE_COLUMNS, Source, arrow_schema, reject_scope_names
from oriel.pipeline.lowered import AggregatedRows, Input
from oriel.pipeline.row_program import ROW_KEY, Project, RowOperation, RowProgram
from oriel.pipeline.stage_columns import joined_values
from oriel.pipeline.windows import FOREIGN_KEY
from oriel.storage.expressions import Call, ColumnRef, Expression

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
    # The value columns that the first step reads.
    if isinstance(read, Source):
        values = arrow_schema(read.columns)
        reject_scope_names(str(read), values.names)
    elif origin.are_rows:
        values = pa.schema([field for field in read if field.name not in origin.scope])
        reject_scope_names(origin.input_text, values.names)
    else:
        values = joined_values(read)
    scope = {name: name for name in origin.scope}
    operations: list[RowOperation[Expression]] = []
    for step in origin.steps:
        selected = step.selected_columns(values.names)
        key = _key(step.new_key or step.foreign_key, values)
        if selected is None or key is None or not set(selected) <= set(values.names):
            return None
        values = pa.schema([values.field(name) for name in selected])
        computed = {"key": key} if step.new_key else {}
        if step.foreign_key:
            computed, values = {FOREIGN_KEY.name: key}, values.append(FOREIGN_KEY)
        kept = {**scope, **{name: name for name in selected}}
        operations.append(Project({n: o for n, o in kept.items() if n not in computed}, computed))
    key = _key(origin.group_by, values)
    if key is None:
        return None
    operations.append(Project({name: name for name in (*scope, *values.names)}, {ROW_KEY: key}))
    typed_keys = TypedKeys.of(origin)
    is_joined = not isinstance(read, Source) and not origin.are_rows
    return ArrowSteps(values, RowProgram(tuple(operations)), typed_keys, joined=is_joined)


def _key(parts: "tuple[str | Column, ...]", values: pa.Schema) -> Expression | None:
    """Return the key that ``parts`` compute from the columns ``values`` and the previous key.

    None if it is not a column, or if Arrow and Spark can cast the column to different strings.
    """
    if not parts:
        return ColumnRef("key")
    part, *others = parts
    # The type is tested first, because ``==`` of a Spark column is a column and not a boolean.
    if others or not isinstance(part, str) or not _NAME.fullmatch(part):
        return None
    if part == "key":
        return ColumnRef("key")
    if part not in (*SCOPE_COLUMNS, *values.names):
        return None
    is_plain = part in SCOPE_COLUMNS or (
        pa.types.is_string(values.field(part).type) or pa.types.is_integer(values.field(part).type)
    )
    return Call("cast", (ColumnRef(part),), {"to": pa.string()}) if is_plain else None
