"""Spark generates code for the batches of a query only if a step runs in Spark."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oriel import StreamsBuilder, TimeWindows, count
from oriel.pipeline.plan import PreparedBatch
from oriel.pipeline.run.batch_loop import BatchLoop
from tests.pipeline.run.test_run import Bench

pytestmark = pytest.mark.slow

_SETTING = "spark.sql.codegen.wholeStage"


@pytest.mark.parametrize(
    ("condition", "generates"), [("v <> 'x'", "false"), ("sha2(v, 256) <> v", "true")]
)
def test_steps_in_spark_have_generated_code(
    spark: SparkSession,
    tmp_path: Path,
    condition: str,
    generates: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The query has its own setting, and the setting of the session stays unchanged."""
    found = set()
    run_batch = BatchLoop.run

    def noting(loop: BatchLoop, rows: DataFrame, batch: int) -> dict[str, PreparedBatch]:
        found.add(rows.sparkSession.conf.get(_SETTING))
        return run_batch(loop, rows, batch)

    monkeypatch.setattr(BatchLoop, "run", noting)
    bench = Bench(spark, tmp_path)
    bench.append(("a", 1), ("b", 2))
    builder = StreamsBuilder()
    stream = builder.stream("t", "v STRING").filter(condition).group_by_key()
    windows = TimeWindows.of_size_and_grace(10, 100)
    stream.windowed_by(windows).aggregate(n=count()).materialize("s")
    last = bench.run(builder.build())
    assert found == {generates}
    assert spark.conf.get(_SETTING) == "true"
    assert last["s"].record.counters["applied"] == 2
