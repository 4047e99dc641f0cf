"""Records through Arrow's steps and through Spark's, to be compared row by row."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.arrow_steps import ArrowSteps
from oriel.pipeline.hops import decoded_schema, joined_schema
from oriel.pipeline.language import Input, Side
from oriel.pipeline.rows import RowSteps
from oriel.pipeline.windows import RESULT_FIELDS

Row = dict[str, Any]


def decoded(values: pa.Schema, rows: Sequence[Row | None]) -> pa.Table:
    """Decoded records with these values; between them, records that are bad or lack something."""
    schema = decoded_schema(pa.struct(list(values)))
    good = {"partition": 1, "raw": b"{}", "key": "k|\\", "timestamp_ms": 7, "reason": None}
    records = [good | {"value": row} for row in rows]
    some = rows[0] if rows else None
    records += [
        good | {"value": None},
        good | {"value": some, "key": None},
        good | {"value": None, "key": None},
        {"partition": 2, "raw": b"bad", "reason": "not-json"},
    ]
    placed = [record | {"offset": place} for place, record in enumerate(records)]
    return pa.Table.from_pylist(placed, schema=schema)


def joined(values: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    """A join's results with these values, one without a key, and a report."""
    schema = joined_schema(pa.schema([*RESULT_FIELDS, *values]))
    good = {
        "task": 3, "partition": 1, "key": "k", "timestamp_ms": 7, "suborder": 0,
        "stream_time_ms": 9,
    }  # fmt: skip
    records = [good | row for row in rows]
    records += [good | rows[0] | {"key": None}, {"task": 2, "report": "{}"}]
    placed = [record | {"offset": place} for place, record in enumerate(records)]
    return pa.Table.from_pylist(placed, schema=schema)


def assert_same_rows(
    spark: SparkSession, steps: ArrowSteps, origin: Input | Side, records: pa.Table
) -> None:
    """Both give the same columns and rows, whatever the store asks for."""
    frame = spark.createDataFrame(records).coalesce(1)
    empty = spark.createDataFrame([], from_arrow_schema(records.schema))
    used = steps.values.names[:2]
    for null_values, keeps_raw in ((False, False), (True, True)):
        row_steps = RowSteps(empty, origin, "s")
        assert steps.values.names == row_steps.values.names
        assert steps.values.types == row_steps.values.types
        for one in (steps, row_steps):
            one.select(used, null_values=null_values, keeps_raw=keeps_raw)
        found, wanted = steps.rows(records), row_steps.rows(frame).toArrow()
        assert found.column_names == wanted.column_names
        assert found.to_pylist() == wanted.to_pylist()
