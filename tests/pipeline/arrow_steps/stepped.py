"""Run records through the steps of Arrow and of Spark, and compare the rows."""

from collections.abc import Sequence
from copy import copy
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.arrow_steps import ArrowSteps
from oriel.pipeline.lowered import Input
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.stage_columns import MESSAGE, StepsOutput, decoded_schema, joined_schema
from oriel.pipeline.windows import RESULT_FIELDS

Row = dict[str, Any]


def decoded(values: pa.Schema, rows: Sequence[Row | None]) -> pa.Table:
    """Return decoded records with these values, and between them invalid and incomplete records."""
    schema = decoded_schema(pa.struct(list(values)))
    message = {"key": b"\xff", "timestamp_ms": 8, "headers": [{"key": "h", "value": None}]}
    good = {
        "partition": 1, "raw": b"{}", MESSAGE.name: message, "key": "k|\\", "timestamp_ms": 7,
        "reason": None,
    }  # fmt: skip
    records = [good | {"value": row} for row in rows]
    some = rows[0] if rows else None
    records += [
        good | {"value": None},
        good | {"value": some, "key": None},
        good | {"value": None, "key": None},
        {"partition": 2, "raw": b"bad", MESSAGE.name: message, "reason": "not-json"},
        {"partition": 2, "raw": b"line", "reason": "not-json"},
    ]
    placed = [record | {"offset": place} for place, record in enumerate(records)]
    return pa.Table.from_pylist(placed, schema=schema)


def joined(values: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """A join's results with these values, one without a key, and one with a reason."""
    schema = joined_schema(pa.schema([*RESULT_FIELDS, *values]))
    good = {
        "task": 3, "partition": 1, "key": "k", "timestamp_ms": 7, "__lineage": bytes(8),
        "stream_time_ms": 9,
    }  # fmt: skip
    records = [good | row for row in rows]
    records += [good | rows[0] | {"key": None}, {"task": 2, "reason": "envelope"}]
    placed = [record | {"offset": place} for place, record in enumerate(records)]
    return pa.Table.from_pylist(placed, schema=schema)


def checked_steps(
    spark: SparkSession, origin: Input, records: pa.Table, used: Sequence[str]
) -> tuple[RowSteps, ArrowSteps | None]:
    """Spark's steps over records like these, and the same ones in Arrow if it has them all."""
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    row_steps = RowSteps(empty, origin, "s")
    steps = row_steps.arrow
    for one in (row_steps, steps):
        if one is not None:
            one.select(StepsOutput(used, null_values=True))
    return row_steps, steps


def differences(found: pa.Table, wanted: pa.Table) -> list[str]:
    """Return the columns that differ in type or in a bit of a value. All NaN are equal."""
    assert found.column_names == wanted.column_names
    # The texts of -0.0 and 0.0 differ, and all NaN have the same text.
    return [
        name
        for name in wanted.column_names
        if found[name].type != wanted[name].type
        or str(found[name].to_pylist()) != str(wanted[name].to_pylist())
    ]


def assert_same_rows(
    spark: SparkSession, steps: ArrowSteps, origin: Input, records: pa.Table
) -> None:
    """Check that both have the same columns and rows, for all columns that a store can need."""
    frame = spark.createDataFrame(records).coalesce(1)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    used = steps.values.names[:2]
    checked = RowSteps(empty, origin, "s")
    assert steps.values.names == checked.values.names
    assert steps.values.types == checked.values.types
    for null_values, keeps_raw in ((False, False), (True, True)):
        # Columns are chosen once.
        row_steps = copy(checked)
        for one in (steps, row_steps):
            one.select(StepsOutput(used, null_values=null_values, keeps_raw=keeps_raw))
        assert not differences(steps.rows(records), row_steps.rows(frame).toArrow())
