"""The end and the time of a batch that Spark has planned."""

import time
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from oriel.pipeline.errors import CheckpointError
from oriel.pipeline.run.batches.planned_batch import RARE_LOGS, PlannedBatch, planned_batch
from oriel.pipeline.sources import EventLog
from tests.pipeline.run.topic_logs import write_topics
from tests.storage.waiting import wait_until


def test_a_query_that_does_not_run_has_no_batch(spark: SparkSession) -> None:
    """The error is a `CheckpointError`, which users see as one line."""
    with pytest.raises(CheckpointError, match="the batch that Spark has planned cannot be read"):
        planned_batch(spark, str(uuid4()))


def test_a_live_query_writes_no_log_per_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch still has its end, for each topic with a partition, and Spark's time."""
    root = tmp_path / "log"
    log = EventLog(root)
    write_topics(root, {"a": {0: [("k", 1, {})]}})
    (root / "empty").mkdir()
    batches: dict[int, tuple[PlannedBatch, int]] = {}
    query_ids: list[str] = []

    def each_batch(rows: DataFrame, batch: int) -> None:
        found = planned_batch(spark, query_ids[0])
        batches[batch] = found, rows.first()["ms"]  # type: ignore[index]

    begun_ms = time.time_ns() // 1_000_000
    streams = log.stream(spark, "a").union(log.stream(spark, "empty"))
    rows = streams.selectExpr("topic", "unix_millis(current_timestamp()) AS ms")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    query_ids.append(str(uuid4()))
    (checkpoint / "metadata").write_text(f'{{"id": "{query_ids[0]}"}}')
    writer = rows.writeStream.foreachBatch(each_batch).options(**RARE_LOGS)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    for batch in range(4):
        wait_until(lambda: max(batches, default=-1), f"batch {batch}", batch.__eq__)
        if batch < 3:
            write_topics(root, {"a": {0: [("k", batch + 2, {})]}})
    query.stop()
    sizes = [batches[batch][0].ends["a"]["0"] for batch in range(4)]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == (root / "a" / "0.jsonl").stat().st_size
    times_ms = [found.time_ms for found, _ in batches.values()]
    assert times_ms == sorted(times_ms)
    assert begun_ms <= times_ms[0]
    assert times_ms == [spark_ms for _, spark_ms in batches.values()]
    assert len(list((checkpoint / "offsets").glob("[0-9]*"))) <= 1
