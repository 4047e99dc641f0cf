"""The Spark columns that row-wise steps compute."""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import (
    SCOPE_COLUMNS,
    Filter,
    FlatMapValues,
    MapValues,
    Peek,
    reject_scope_names,
)
from oriel.pipeline.rows.expressions import as_column
from oriel.pipeline.windows import python_values


def key_text(expressions: tuple["str | Column", ...]) -> Column:
    """Return the key that expressions compute, null if an expression is null."""
    # Bytes that are not valid UTF-8 become null, because keys of tables and indexes are strings.
    parts = [F.try_validate_utf8(as_column(part).cast("string")) for part in expressions]
    if len(parts) == 1:
        return parts[0]
    # The keys of ("a|b", "c") and ("a", "b|c") must differ, so the parts are escaped.
    separated: list[Column] = []
    for part in parts:
        backslashes = F.replace(part, F.lit("\\"), F.lit("\\\\"))
        escaped = F.replace(backslashes, F.lit("|"), F.lit("\\|"))
        separated += [F.lit("|"), escaped]
    return F.concat(*separated[1:])


def _is_expression(name: str) -> bool:
    """Return whether a text is an expression and not a column name."""
    return re.search(r"[^\w`]", name) is not None


def _value_columns(
    values: list[str], step: MapValues | FlatMapValues, used: Column
) -> list[Column]:
    """Return the columns of the new value: first kept columns, then computed columns.

    A computed column replaces a kept column of the same name. Computed columns are null in rows
    that are not ``used``.
    """
    reject_scope_names(str(step), step.columns)
    known = {"*", *map(str.lower, values)}
    expression = next((n for n in step.keep if n.lower() not in known and _is_expression(n)), None)
    if expression is not None:
        message = f"{step}: a computed column needs a name, like x={expression!r}"
        raise InvalidTopology(message)
    # Spark ignores the case of names.
    computed_names = {name.lower() for name in step.columns}
    names: list[str] = []
    for name in step.keep:
        names += values if name == "*" else [name]
    names = [name for name in dict.fromkeys(names) if name.lower() not in computed_names]
    computed = [F.when(used, as_column(e)).alias(name) for name, e in step.columns.items()]
    return [*columns_of(names), *computed]


def replaced_columns(
    values: list[str], step: MapValues | FlatMapValues, used: Column
) -> list[Column]:
    """Return the scope and the value of rows after a step that computes new ones.

    Computed columns are null in rows that are not ``used``.
    """
    key = step.key if isinstance(step, MapValues) else ()
    scope = scope_with_key(key_text(key), used) if key else columns_of(SCOPE_COLUMNS)
    return [*scope, *_value_columns(values, step, used)]


def passes_filter(step: Filter) -> Column:
    """Return whether each row passes a filter."""
    # As in SQL's WHERE, a null condition counts as false.
    holds = F.coalesce(as_column(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
    return ~holds if step.is_negated else holds


def peek_column(values: list[str], step: Peek, used: Column) -> Column:
    """Return a column that calls the function of ``peek`` for rows that are ``used``.

    The column is true for all rows. The caller adds it to the condition that keeps a row, so Spark
    computes it for any selection of columns.
    """

    def show(used: pa.Array, key: pa.Array, timestamp_ms: pa.Array, value: pa.Array) -> pa.Array:
        columns = map(python_values, (used, key, timestamp_ms, value))
        for is_used, of_key, time_ms, of_value in zip(*columns, strict=True):
            if is_used:
                step.function(of_key, of_value, time_ms)
        return pa.repeat(pa.scalar(value=True), len(used))

    function: Callable[..., Column] = F.arrow_udf(show, "boolean")  # type: ignore[call-overload]
    value = F.when(~F.col("__null_value"), F.struct(*columns_of(values)))
    return function(used, *columns_of(SCOPE_COLUMNS), value)


@cache
def in_use() -> Column:
    """Return whether each row is neither a dead letter nor filtered out."""
    return F.col("__reason").isNull() & F.col("__keep")


def scope_with_key(text: Column, used: Column) -> list[Column]:
    """Return ``SCOPE_COLUMNS`` with the key ``text``, null in rows that are not ``used``."""
    return [F.when(used, text).alias("key"), F.col("timestamp_ms")]


def columns_of(names: Iterable[str]) -> list[Column]:
    """Return columns unchanged."""
    return [column_of(name) for name in names]


#: Cached, because each column needs three calls to Java, and every step passes on unchanged
#: columns.
@lru_cache(maxsize=1000)
def column_of(name: str) -> Column:
    """Return a column unchanged. Its name can have any characters."""
    return F.col(f"`{name}`")
