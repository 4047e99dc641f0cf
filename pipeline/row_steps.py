"""A store's row-wise steps as one Spark projection in front of the stamp.

Rows are never dropped here, only marked (``__keep``, ``__reason``), so that every record
is counted and partitions keep their order. A step's expression is evaluated only for
rows that are still wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.errors import InvalidTopology
from pipeline.topology import Filter, MapValues, Step, Store

_META = ("__partition", "__offset", "__raw", "__reason", "__null_value", "__keep")
_SCOPE = ("key", "timestamp_ms")


@dataclass(frozen=True)
class PreparedRows:
    """Rows ready for the stamp, and the Arrow schema of the value columns in them.

    Columns: partition, offset, reason, keep, raw (only of dead letters), key, key_group,
    timestamp_ms and the value columns that aggregates read.
    """

    rows: DataFrame
    values: pa.Schema


def prepare_rows(records: DataFrame, store: Store, key_groups: int) -> PreparedRows:
    """Apply ``store``'s steps and grouping to decoded records.

    Raises:
        InvalidTopology: a step names an unknown column or isn't valid SQL; the message
            names the store and the step.
    """
    rows = _unpacked(records, store)
    for step in store.steps:
        rows = _checked(store, str(step), partial(_applied, rows, step))
    values = to_arrow_schema(rows.drop(*_META, *_SCOPE).schema)
    key = _checked(store, f"group_by({store.grouped_by})", lambda: _with_key(rows, store))
    read = {aggregate.column for aggregate in store.aggregates.values()}
    used = [name for name in values.names if name in read]
    wanted = F.col("__reason").isNull() & F.col("__keep")
    reason = (
        F.when(wanted & F.col("__null_value"), "null-value")
        .when(wanted & F.col("__key").isNull(), "null-key")
        .otherwise(F.col("__reason"))
    )
    selected = key.withColumn("__reason", reason).select(
        F.col("__partition").alias("partition"),
        F.col("__offset").alias("offset"),
        F.col("__reason").alias("reason"),
        F.col("__keep").alias("keep"),
        F.when(F.col("__reason").isNotNull(), F.col("__raw")).alias("raw"),
        F.col("__key").alias("key"),
        F.pmod(F.xxhash64("__key"), F.lit(key_groups)).cast("int").alias("key_group"),
        "timestamp_ms",
        *(F.col(f"`{name}`") for name in used),
    )
    return PreparedRows(selected, values)


def _unpacked(records: DataFrame, store: Store) -> DataFrame:
    """Value columns to the top level, everything else behind a prefix."""
    names = records.schema["value"].dataType.fieldNames()  # type: ignore[attr-defined]
    taken = sorted(name for name in names if name in _SCOPE or name.startswith("__"))
    if taken:
        message = (
            f"stream({store.source.topic!r}): the value columns {taken} have names that the "
            "pipeline needs (key, timestamp_ms, a leading __); leave them out of the schema"
        )
        raise InvalidTopology(message)
    return records.select(
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.col("raw").alias("__raw"),
        F.col("reason").alias("__reason"),
        F.col("value").isNull().alias("__null_value"),
        F.lit(True).alias("__keep"),  # noqa: FBT003
        "key",
        "timestamp_ms",
        *(F.col(f"value.`{name}`").alias(name) for name in names),
    )


def _applied(rows: DataFrame, step: Step) -> DataFrame:
    wanted = F.col("__reason").isNull() & F.col("__keep")
    if isinstance(step, Filter):
        holds = F.coalesce(_expression(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
        return rows.withColumn("__keep", F.when(wanted, holds).otherwise(F.lit(False)))  # noqa: FBT003
    return rows.select(*_META, *_SCOPE, *_mapped(rows, step, wanted))


def _mapped(rows: DataFrame, step: MapValues, wanted: Column) -> list[Column]:
    values = [name for name in rows.columns if name not in (*_META, *_SCOPE)]
    kept: list[str] = []
    for name in step.keep:
        kept += values if name == "*" else [name]
    kept = [name for name in dict.fromkeys(kept) if name not in step.columns]
    made = [F.when(wanted, _expression(e)).alias(name) for name, e in step.columns.items()]
    return [*(F.col(f"`{name}`") for name in kept), *made]


def _with_key(rows: DataFrame, store: Store) -> DataFrame:
    wanted = F.col("__reason").isNull() & F.col("__keep")
    parts = [_expression(part).cast("string") for part in store.group_by] or [F.col("key")]
    if len(parts) > 1:
        escaped = [
            F.replace(F.replace(p, F.lit("\\"), F.lit("\\\\")), F.lit("|"), F.lit("\\|"))
            for p in parts
        ]
        joined = [escaped[0]]
        for part in escaped[1:]:
            joined += [F.lit("|"), part]
        parts = [F.concat(*joined)]
    return rows.withColumn("__key", F.when(wanted, parts[0]))


def _expression(expression: "str | Column") -> Column:
    return F.expr(expression) if isinstance(expression, str) else expression


def _checked(store: Store, step: str, apply: Callable[[], DataFrame]) -> DataFrame:
    """Run one step's analysis now, and name the step if Spark refuses it."""
    try:
        rows = apply()
        _ = rows.schema
    except PySparkException as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        message = f"store {store.name!r}, step {step}: {reason}"
        raise InvalidTopology(message) from error
    return rows
