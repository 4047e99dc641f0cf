"""The columns that the first step reads: from a record, a join result or an aggregated row.

A row has the columns of the value under their own names, ``key`` and ``timestamp_ms``. A row of an
aggregation also has the bounds of its window. All other columns have the prefix ``__``.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_type

from oriel.pipeline.language import SCOPE_COLUMNS, reject_scope_names
from oriel.pipeline.lowered import AggregatedRows, Input
from oriel.pipeline.rows.lowering import RowColumns
from oriel.pipeline.rows.projections import Projection, Status
from oriel.pipeline.stage_columns import MESSAGE, REASON, RESULT_EXTRA_FIELDS, TASK
from oriel.pipeline.windows import NULL_VALUE

_STATUS = ("__partition", "__offset", "__raw", MESSAGE.name, "__reason", "__null_value", "__keep")
_ROW_STATUS = ("__reason", "__null_value", "__keep")
#: Further columns of join results -> their names during the steps.
JOIN_COLUMNS = {field.name: f"__{field.name}" for field in RESULT_EXTRA_FIELDS}
#: All columns of join results that are not in the value.
_RESULT_COLUMNS = frozenset({
    "partition", "offset", TASK.name, REASON.name, NULL_VALUE.name, *JOIN_COLUMNS, *SCOPE_COLUMNS,
})  # fmt: skip
#: The name of the input in messages about steps after a join.
JOINED = "join"


def input_columns(
    records: DataFrame, origin: Input | AggregatedRows
) -> tuple[Status, RowColumns, Projection, str]:
    """Return the columns of the rows that the first step reads.

    Returns:
        The status columns, the other columns, the projection that computes all of them, and the
        name of the input for messages.
    """
    if origin.are_rows:
        values = tuple(name for name in records.columns if name not in origin.scope)
        columns = RowColumns(origin.scope, values)
        return _ROW_STATUS, columns, _unpacked_aggregates(records), origin.input_text
    if TASK.name in records.columns:
        joined = tuple(of for name, of in JOIN_COLUMNS.items() if name in records.columns)
        values = tuple(name for name in records.columns if name not in _RESULT_COLUMNS)
        columns = RowColumns(origin.scope, values)
        return (*_STATUS, *joined), columns, _unpacked_results(records), JOINED
    values = tuple(records.schema["value"].dataType.fieldNames())  # type: ignore[attr-defined]
    reject_scope_names(origin.input_text, values)
    columns = RowColumns(origin.scope, values)
    return _STATUS, columns, _unpacked_records(values), origin.input_text


def _unpacked_aggregates(rows: DataFrame) -> list[Column]:
    """Return the columns of aggregated rows, which have the value at the top level."""
    reject_scope_names(
        "the aggregation", (name for name in rows.columns if name not in SCOPE_COLUMNS)
    )
    return [
        F.lit(None).cast("string").alias("__reason"),
        F.lit(False).alias("__null_value"),  # noqa: FBT003
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *(F.col(f"`{name}`") for name in rows.columns),
    ]


def _unpacked_records(names: Sequence[str]) -> list[Column]:
    """Return the value columns at the top level, and other columns with a prefix."""
    return [
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.col("raw").alias("__raw"),
        F.col(MESSAGE.name),
        F.col("reason").alias("__reason"),
        F.col("value").isNull().alias("__null_value"),
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *map(F.col, SCOPE_COLUMNS),
        *(F.col(f"value.`{name}`").alias(name) for name in names),
    ]


def _unpacked_results(results: DataFrame) -> list[Column]:
    """Return the columns of join results. No step changes a row that has a reason."""
    is_null = F.lit(False)  # noqa: FBT003
    if NULL_VALUE.name in results.columns:
        is_null = F.coalesce(F.col(NULL_VALUE.name), is_null)
    return [
        F.col("partition").alias("__partition"),
        F.col("offset").alias("__offset"),
        F.lit(b"").alias("__raw"),
        F.lit(None).cast(from_arrow_type(MESSAGE.type)).alias(MESSAGE.name),
        F.col(REASON.name).alias("__reason"),
        is_null.alias("__null_value"),
        F.lit(True).alias("__keep"),  # noqa: FBT003
        *(F.col(n).alias(of) for n, of in JOIN_COLUMNS.items() if n in results.columns),
        *map(F.col, SCOPE_COLUMNS),
        *(F.col(f"`{name}`") for name in results.columns if name not in _RESULT_COLUMNS),
    ]
