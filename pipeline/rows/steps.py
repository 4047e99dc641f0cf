"""Row-wise steps as one Spark projection in front of the stamp.

Rows are never dropped here, only marked (``__keep``, ``__reason``), so that every record
is counted and partitions keep their order. A step's expression is evaluated only for
rows that are still wanted, except that Spark calls Python functions for every row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.errors import InvalidTopology
from oriel.pipeline.hops import BESIDE_RESULT
from oriel.pipeline.language import (
    SCOPE,
    Filter,
    Input,
    MapValues,
    Side,
    Step,
    group_written,
    refuse_taken,
)
from oriel.pipeline.rows.expressions import Written, as_column, carried, refuse_unsteady
from oriel.pipeline.spark import kind, told

_META = ("__partition", "__offset", "__raw", "__reason", "__null_value", "__keep")
#: What a join's results carry beside, and how it is called among the steps.
JOIN_COLUMNS = {field.name: f"__{field.name}" for field in BESIDE_RESULT}


class RowSteps:
    """The steps of one input, checked and built once; ``rows`` then applies them to each batch."""

    def __init__(self, records: DataFrame, origin: Input | Side, store: str) -> None:
        """Build the projections for records like ``records`` (which may be empty).

        Records are decoded ones, with their value in the column ``value``, or a join's
        results, whose value is the columns that no join needs.

        Raises:
            InvalidTopology: a step names an unknown column, isn't valid SQL, is not row-wise
                or makes a column of a type that can't go on; the message names the store and
                the step.
        """
        self._projections: list[list[Column]] = []
        self._written: list[Written] = []
        self._store = store
        self._records = records
        joined = "report" in records.columns
        self._meta = (*_META, *(JOIN_COLUMNS.values() if joined else ()))
        unpacked = _unpacked_results(records) if joined else _unpacked(records, origin)
        unpacked_rows = rows = self._project(records, unpacked)
        makers = {"": "join" if joined else str(origin.source)}
        for step in origin.steps:
            rows = self._checked(
                str(step), rows, _expressions(step), partial(self._applied, step=step)
            )
            if isinstance(step, MapValues):
                makers.update(dict.fromkeys(step.columns, f"step {step}"))
        keys = {f"the key {number}": part for number, part in enumerate(origin.group_by, start=1)}
        self._rows = self._checked(
            f"group_by({group_written(origin.group_by)})",
            rows,
            keys,
            partial(self._with_key, group_by=origin.group_by),
        )
        refuse_unsteady(store, unpacked_rows, self._rows, self._written)
        #: The Arrow schema of the value columns after the steps.
        self.values: pa.Schema = carried(store, rows.drop(*self._meta, *SCOPE).schema, makers)

    def select(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool = False
    ) -> None:
        """Choose what ``rows`` gives: the value columns ``used``.

        ``null_values``: whether records without a value are wanted; ``keeps_raw``: whether the
        raw bytes of good records are.
        """
        self._project(
            self._rows,
            self._selected(used, key_groups, null_values=null_values, keeps_raw=keeps_raw),
        )

    def rows(self, records: DataFrame) -> DataFrame:
        """Return the rows for the stamp.

        Columns: partition, offset, reason, keep, null_value, raw (of dead letters, or of
        all), key, key_group, timestamp_ms, for a join's results suborder, stream_time_ms,
        report and task, and the chosen value columns.
        """
        for columns in self._projections:
            records = records.select(*columns)
        return records

    def _project(self, rows: DataFrame, columns: list[Column]) -> DataFrame:
        self._projections.append(columns)
        return rows.select(*columns)

    def failing_step(self, records: DataFrame, error: Exception) -> str | None:
        """The first step that fails on ``records`` in the way of ``error``; None: none does."""
        rows = records.select(*self._projections[0])
        for written, columns in zip(self._written, self._projections[1:], strict=False):
            rows = rows.select(*columns)
            try:
                # All of its columns, with nothing logged beside the error.
                rows._jdf.queryExecution().toRdd().count()  # noqa: SLF001
            except (PySparkException, Py4JJavaError) as other:
                return written.step if kind(other) == kind(error) else None
        return None

    def a_null_row(self) -> DataFrame:
        """One row like the records, of nulls only."""
        fields = [StructField(field.name, field.dataType) for field in self._records.schema]
        row = tuple(None for _ in fields)
        return self._records.sparkSession.createDataFrame([row], StructType(fields))

    def _checked(
        self,
        step: str,
        rows: DataFrame,
        expressions: Mapping[str, "str | Column"],
        build: Callable[[list[str]], list[Column]],
    ) -> DataFrame:
        """Build one step and let Spark analyse it now; name the step if Spark refuses it."""
        values = [name for name in rows.columns if name not in (*self._meta, *SCOPE)]
        written = Written(step, rows, expressions)
        self._written.append(written)
        try:
            return self._project(rows, build(values))
        except (PySparkException, Py4JJavaError) as error:
            # Spark's words about aggregates and the like are of whole queries.
            message = f"store {self._store!r}, step {step}: {written.fault() or told(error)}"
            raise InvalidTopology(message) from error

    def _applied(self, values: list[str], step: Step) -> list[Column]:
        if isinstance(step, Filter):
            holds = F.coalesce(as_column(step.condition).cast("boolean"), F.lit(False))  # noqa: FBT003
            keep = F.when(_wanted(), holds).otherwise(F.lit(False))  # noqa: FBT003
            meta = [name for name in self._meta if name != "__keep"]
            return [*_columns(meta), keep.alias("__keep"), *_columns((*SCOPE, *values))]
        return [*_columns((*self._meta, *SCOPE)), *_mapped(values, step)]

    def _with_key(self, values: list[str], group_by: tuple["str | Column", ...]) -> list[Column]:
        parts = [_text(part) for part in group_by] or [F.col("key")]
        if len(parts) > 1:
            joined: list[Column] = []
            for part in map(_escaped, parts):
                joined += [F.lit("|"), part]
            parts = [F.concat(*joined[1:])]
        key = F.when(_wanted(), parts[0]).alias("__key")
        return [*_columns((*self._meta, *SCOPE, *values)), key]

    def _selected(
        self, used: Sequence[str], key_groups: int, *, null_values: bool, keeps_raw: bool
    ) -> list[Column]:
        reason = F.when(_wanted() & F.col("__key").isNull(), Reason.NULL_KEY.value).otherwise(
            F.col("__reason")
        )
        if not null_values:
            reason = F.when(_wanted() & F.col("__null_value"), Reason.NULL_VALUE.value).otherwise(
                reason
            )
        raw = F.col("__raw") if keeps_raw else F.when(reason.isNotNull(), F.col("__raw"))
        extra = [name for name in JOIN_COLUMNS.values() if name in self._meta]
        return [
            F.col("__partition").alias("partition"),
            F.col("__offset").alias("offset"),
            reason.alias("reason"),
            F.col("__keep").alias("keep"),
            F.col("__null_value").alias("null_value"),
            raw.alias("raw"),
            F.col("__key").alias("key"),
            F.pmod(F.xxhash64("__key"), F.lit(key_groups)).cast("int").alias("key_group"),
            *(F.col(name).alias(name.removeprefix("__")) for name in extra),
            *_columns(["timestamp_ms", *used]),
        ]


def _unpacked(records: DataFrame, origin: Input | Side) -> list[Column]:
    """Value columns to the top level, everything else behind a prefix."""
    names = records.schema["value"].dataType.fieldNames()  # type: ignore[attr-defined]
    refuse_taken(str(origin.source), names)
    return [
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.col("raw").alias("__raw"),
        F.col("reason").alias("__reason"),
        F.col("value").isNull().alias("__null_value"),
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *_columns(SCOPE),
        *(F.col(f"value.`{name}`").alias(name) for name in names),
    ]


def _unpacked_results(results: DataFrame) -> list[Column]:
    """The same for a join's results; rows that report are no records."""
    own = {"partition", "offset", *JOIN_COLUMNS, *SCOPE}
    is_report = F.col("report").isNotNull()
    return [
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.lit(b"").alias("__raw"),
        F.when(is_report, "report").alias("__reason"),
        F.lit(False).alias("__null_value"),  # noqa: FBT003
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *(F.col(name).alias(inner) for name, inner in JOIN_COLUMNS.items()),
        *_columns(SCOPE),
        *_columns(name for name in results.columns if name not in own),
    ]


def _mapped(values: list[str], step: MapValues) -> list[Column]:
    refuse_taken(str(step), step.columns)
    made_names = {name.lower() for name in step.columns}
    kept: list[str] = []
    for name in step.keep:
        kept += values if name == "*" else [name]
    kept = [name for name in dict.fromkeys(kept) if name.lower() not in made_names]
    made = [F.when(_wanted(), as_column(e)).alias(name) for name, e in step.columns.items()]
    return [*_columns(kept), *made]


def _escaped(part: Column) -> Column:
    backslashes = F.replace(part, F.lit("\\"), F.lit("\\\\"))
    return F.replace(backslashes, F.lit("|"), F.lit("\\|"))


def _wanted() -> Column:
    """Whether the row is neither a dead letter nor filtered out."""
    return F.col("__reason").isNull() & F.col("__keep")


def _columns(names: Iterable[str]) -> list[Column]:
    return [F.col(f"`{name}`") for name in names]


def _expressions(step: Step) -> Mapping[str, "str | Column"]:
    """The expressions of a step, by what each of them makes."""
    if isinstance(step, Filter):
        return {"the condition": step.condition}
    return {f"column {name!r}": expression for name, expression in step.columns.items()}


def _text(part: "str | Column") -> Column:
    """A part of the key as text; bytes that are no UTF-8 make no key."""
    return F.try_validate_utf8(as_column(part).cast("string"))
