"""DataFrames without pandas."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from oriel.pipeline.spark import map_in_arrow, no_rows


def _doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        doubled = pa.array([2 * number for number in batch["id"].to_pylist()])
        yield pa.RecordBatch.from_arrays([doubled, batch["name"]], names=["twice", "name"])


def test_a_function_gets_and_returns_arrow_batches(spark: SparkSession) -> None:
    """As with ``mapInArrow``, nested columns and nulls are unchanged."""
    rows = spark.range(5, numPartitions=2).selectExpr("id", "if(id = 3, NULL, array(id)) AS name")
    schema = "twice BIGINT, name ARRAY<BIGINT>"
    found = map_in_arrow(rows, _doubled, schema)
    assert found.collect() == rows.mapInArrow(_doubled, schema).collect()
    assert found.schema == rows.mapInArrow(_doubled, schema).schema


def test_a_frame_without_rows_has_its_columns(spark: SparkSession) -> None:
    """The schema can be DDL text."""
    assert no_rows(spark, "a INT, b STRING").dtypes == [("a", "int"), ("b", "string")]
    assert no_rows(spark, "a INT").collect() == []
