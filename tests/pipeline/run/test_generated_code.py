"""Spark generates code for the batches of a query only if a step runs in Spark."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, TimeWindows, count
from tests.pipeline.run.test_run import Bench

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("condition", "generates"), [("v <> 'x'", "false"), ("sha2(v, 256) <> v", "true")]
)
def test_steps_in_spark_have_generated_code(
    spark: SparkSession, tmp_path: Path, condition: str, generates: str
) -> None:
    """In one session after the other, and both count the records."""
    bench = Bench(spark, tmp_path)
    bench.append(("a", 1), ("b", 2))
    builder = StreamsBuilder()
    stream = builder.stream("t", "v STRING").filter(condition).group_by_key()
    windows = TimeWindows.of_size_and_grace(10, 100)
    stream.windowed_by(windows).aggregate(n=count()).materialize("s")
    last = bench.run(builder.build())
    assert spark.conf.get("spark.sql.codegen.wholeStage") == generates
    assert last["s"].record.counters["applied"] == 2
