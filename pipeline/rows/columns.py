"""The Spark columns that row-wise steps compute."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.language import SCOPE_COLUMNS, Filter, Peek
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


def is_expression(name: str) -> bool:
    """Return whether a text is an expression and not a column name."""
    return re.search(r"[^\w`]", name) is not None


def passes_filter(step: Filter) -> Column:
    """Return whether each row passes a filter."""
    # As in SQL's WHERE, a null condition counts as false.
    holds = F.coalesce(as_column(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
    return ~holds if step.is_negated else holds


def peek_column(values: Sequence[str], step: Peek, used: Column) -> Column:
    """Return a column that calls the function of ``peek`` for rows that are ``used``.

    The column is true for all rows. The caller uses it as a condition that keeps a row, so Spark
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


def columns_of(names: Iterable[str]) -> list[Column]:
    """Return columns unchanged."""
    return [column_of(name) for name in names]


#: Cached, because each column needs three calls to Java, and every step passes on unchanged
#: columns.
@lru_cache(maxsize=1000)
def column_of(name: str) -> Column:
    """Return a column unchanged. Its name can have any characters."""
    return F.col(f"`{name}`")
