"""Columns of rows on their way through the steps, as Spark computes them."""

import re
from collections.abc import Callable, Iterable
from functools import cache, lru_cache

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.language import SCOPE, Filter, FlatMapValues, MapValues, Peek, refuse_taken
from oriel.pipeline.rows.expressions import as_column
from oriel.pipeline.windows import python_values


def key_text(expressions: tuple["str | Column", ...]) -> Column:
    """The key that expressions make; null where one is."""
    # Bytes that are no UTF-8 make no key: the table's and the index's keys are texts.
    parts = [F.try_validate_utf8(as_column(part).cast("string")) for part in expressions]
    if len(parts) == 1:
        return parts[0]
    # Escaped, so that ("a|b", "c") and ("a", "b|c") are two keys.
    separated: list[Column] = []
    for part in parts:
        backslashes = F.replace(part, F.lit("\\"), F.lit("\\\\"))
        escaped = F.replace(backslashes, F.lit("|"), F.lit("\\|"))
        separated += [F.lit("|"), escaped]
    return F.concat(*separated[1:])


def _computes(name: str) -> bool:
    """Whether it is no name of a column, but an expression."""
    return re.search(r"[^\w`]", name) is not None


def _mapped(values: list[str], step: MapValues | FlatMapValues, used: Column) -> list[Column]:
    """The columns of the new value: those that stay, then the computed ones, which win.

    These are null of rows that are not ``used``.
    """
    refuse_taken(str(step), step.columns)
    known = {"*", *map(str.lower, values)}
    expression = next((n for n in step.keep if n.lower() not in known and _computes(n)), None)
    if expression is not None:
        message = f"{step}: a computed column needs a name, like x={expression!r}"
        raise InvalidTopology(message)
    # Spark does not tell names apart by case.
    computed_names = {name.lower() for name in step.columns}
    names: list[str] = []
    for name in step.keep:
        names += values if name == "*" else [name]
    names = [name for name in dict.fromkeys(names) if name.lower() not in computed_names]
    computed = [F.when(used, as_column(e)).alias(name) for name, e in step.columns.items()]
    return [*columns_of(names), *computed]


def renewed(values: list[str], step: MapValues | FlatMapValues, used: Column) -> list[Column]:
    """Scope and value of rows behind a step that makes them anew, for those that are ``used``."""
    key = step.key if isinstance(step, MapValues) else ()
    scope = with_key_of(key_text(key), used) if key else columns_of(SCOPE)
    return [*scope, *_mapped(values, step, used)]


def holding(step: Filter) -> Column:
    """Whether a row passes a filter."""
    # Null is not true: as in SQL's WHERE, such a record is filtered out.
    holds = F.coalesce(as_column(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
    return ~holds if step.is_negated else holds


def shown(values: list[str], step: Peek, used: Column) -> Column:
    """What shows rows that are ``used`` to a function; it is true for all rows.

    Who is asked whether a row stays is called, whatever columns are read behind.
    """

    def show(used: pa.Array, key: pa.Array, timestamp_ms: pa.Array, value: pa.Array) -> pa.Array:
        columns = map(python_values, (used, key, timestamp_ms, value))
        for is_used, of_key, time_ms, of_value in zip(*columns, strict=True):
            if is_used:
                step.function(of_key, of_value, time_ms)
        return pa.repeat(pa.scalar(value=True), len(used))

    function: Callable[..., Column] = F.arrow_udf(show, "boolean")  # type: ignore[call-overload]
    value = F.when(~F.col("__null_value"), F.struct(*columns_of(values)))
    return function(used, *columns_of(SCOPE), value)


@cache
def in_use() -> Column:
    """Whether the row is neither a dead letter nor filtered out."""
    return F.col("__reason").isNull() & F.col("__keep")


def with_key_of(text: Column, used: Column) -> list[Column]:
    """The columns of ``SCOPE`` with another key, null of rows that are not ``used``."""
    return [F.when(used, text).alias("key"), F.col("timestamp_ms")]


def columns_of(names: Iterable[str]) -> list[Column]:
    """Columns as they are."""
    return [column_of(name) for name in names]


#: Java is asked three times for each, and every step passes on what it does not change.
@lru_cache(maxsize=1000)
def column_of(name: str) -> Column:
    """A column as it is, whatever characters its name has."""
    return F.col(f"`{name}`")
