"""A store's row-wise steps as one Spark projection in front of the stamp.

Rows are never dropped here, only marked (``__keep``, ``__reason``), so that every record
is counted and partitions keep their order. A step's expression is evaluated only for
rows that are still wanted.
"""

from collections.abc import Callable, Iterable
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


class RowSteps:
    """One store's steps, checked and built once; ``rows`` then applies them to each batch."""

    def __init__(self, records: DataFrame, store: Store, key_groups: int) -> None:
        """Build the projections for decoded records like ``records`` (which may be empty).

        Raises:
            InvalidTopology: a step names an unknown column or isn't valid SQL; the
                message names the store and the step.
        """
        self._projections: list[list[Column]] = []
        rows = self._project(records, _unpacked(records, store))
        for step in store.steps:
            rows = self._checked(store, str(step), rows, partial(_applied, step=step))
        #: The Arrow schema of the value columns after the steps.
        self.values: pa.Schema = to_arrow_schema(rows.drop(*_META, *_SCOPE).schema)
        named = f"group_by({store.grouped_by})"
        rows = self._checked(store, named, rows, partial(_with_key, store=store))
        read = {aggregate.column for aggregate in store.aggregates.values()}
        used = [name for name in self.values.names if name in read]
        self._project(rows, _selected(used, key_groups))

    def rows(self, records: DataFrame) -> DataFrame:
        """Return the rows for the stamp.

        Columns: partition, offset, reason, keep, raw (of dead letters only), key,
        key_group, timestamp_ms and the value columns that aggregates read.
        """
        for columns in self._projections:
            records = records.select(*columns)
        return records

    def _project(self, rows: DataFrame, columns: list[Column]) -> DataFrame:
        self._projections.append(columns)
        return rows.select(*columns)

    def _checked(
        self,
        store: Store,
        step: str,
        rows: DataFrame,
        build: Callable[[list[str]], list[Column]],
    ) -> DataFrame:
        """Build one step and let Spark analyse it now; name the step if Spark refuses it."""
        values = [name for name in rows.columns if name not in (*_META, *_SCOPE)]
        try:
            rows = self._project(rows, build(values))
            _ = rows.schema
        except PySparkException as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            message = f"store {store.name!r}, step {step}: {reason}"
            raise InvalidTopology(message) from error
        return rows


def _unpacked(records: DataFrame, store: Store) -> list[Column]:
    """Value columns to the top level, everything else behind a prefix."""
    names = records.schema["value"].dataType.fieldNames()  # type: ignore[attr-defined]
    _refuse_taken(f"stream({store.source.topic!r})", names)
    return [
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.col("raw").alias("__raw"),
        F.col("reason").alias("__reason"),
        F.col("value").isNull().alias("__null_value"),
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *_columns(_SCOPE),
        *(F.col(f"value.`{name}`").alias(name) for name in names),
    ]


def _refuse_taken(step: str, names: Iterable[str]) -> None:
    """Refuse value columns that would hide the record's own (names ignore case, as in SQL)."""
    taken = sorted(n for n in names if n.lower() in _SCOPE or n.startswith("__"))
    if taken:
        message = (
            f"{step}: the value columns {taken} have names that the pipeline needs "
            "(key, timestamp_ms, a leading __); leave them out of the schema"
        )
        raise InvalidTopology(message)


def _applied(values: list[str], step: Step) -> list[Column]:
    if isinstance(step, Filter):
        holds = F.coalesce(_expression(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
        keep = F.when(_wanted(), holds).otherwise(F.lit(False))  # noqa: FBT003
        meta = [name for name in _META if name != "__keep"]
        return [*_columns(meta), keep.alias("__keep"), *_columns((*_SCOPE, *values))]
    return [*_columns((*_META, *_SCOPE)), *_mapped(values, step)]


def _mapped(values: list[str], step: MapValues) -> list[Column]:
    _refuse_taken(str(step), step.columns)
    made_names = {name.lower() for name in step.columns}
    kept: list[str] = []
    for name in step.keep:
        kept += values if name == "*" else [name]
    kept = [name for name in dict.fromkeys(kept) if name.lower() not in made_names]
    made = [F.when(_wanted(), _expression(e)).alias(name) for name, e in step.columns.items()]
    return [*_columns(kept), *made]


def _with_key(values: list[str], store: Store) -> list[Column]:
    parts = [_expression(part).cast("string") for part in store.group_by] or [F.col("key")]
    if len(parts) > 1:
        joined: list[Column] = []
        for part in map(_escaped, parts):
            joined += [F.lit("|"), part]
        parts = [F.concat(*joined[1:])]
    key = F.when(_wanted(), parts[0]).alias("__key")
    return [*_columns((*_META, *_SCOPE, *values)), key]


def _escaped(part: Column) -> Column:
    backslashes = F.replace(part, F.lit("\\"), F.lit("\\\\"))
    return F.replace(backslashes, F.lit("|"), F.lit("\\|"))


def _selected(used: list[str], key_groups: int) -> list[Column]:
    reason = (
        F.when(_wanted() & F.col("__null_value"), "null-value")
        .when(_wanted() & F.col("__key").isNull(), "null-key")
        .otherwise(F.col("__reason"))
    )
    return [
        F.col("__partition").alias("partition"),
        F.col("__offset").alias("offset"),
        reason.alias("reason"),
        F.col("__keep").alias("keep"),
        F.when(reason.isNotNull(), F.col("__raw")).alias("raw"),
        F.col("__key").alias("key"),
        F.pmod(F.xxhash64("__key"), F.lit(key_groups)).cast("int").alias("key_group"),
        *_columns(["timestamp_ms", *used]),
    ]


def _wanted() -> Column:
    """Whether the row is neither a dead letter nor filtered out."""
    return F.col("__reason").isNull() & F.col("__keep")


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]


def _expression(expression: "str | Column") -> Column:
    return F.expr(expression) if isinstance(expression, str) else expression
