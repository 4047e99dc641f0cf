"""The Spark session that runs use."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from oriel.pipeline.spark import WORKER_ENVIRONMENT, build_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Spark is slow, so these tests are not in the inner loop.
pytestmark = pytest.mark.slow


def test_python_workers_find_the_project(spark: "SparkSession") -> None:
    """Code that runs in Spark's Python workers can import the project's packages."""

    def names(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from oriel.storage.layout import DEAD_LETTERS  # noqa: PLC0415 - the point of the test

        for _ in batches:
            yield pa.record_batch({"name": [DEAD_LETTERS]})

    rows = spark.range(1, numPartitions=1).mapInArrow(names, "name string").collect()
    assert [row["name"] for row in rows] == ["_dead_letters"]


def test_python_workers_keep_their_memory(spark: "SparkSession") -> None:
    """The C library reads these variables when a process starts, so its environment has them."""

    def log(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for _ in batches:
            yield pa.record_batch({name: [os.environ.get(name)] for name in WORKER_ENVIRONMENT})

    schema = ", ".join(f"{name} string" for name in WORKER_ENVIRONMENT)
    rows = spark.range(1, numPartitions=1).mapInArrow(log, schema).collect()
    assert [row.asDict() for row in rows] == [WORKER_ENVIRONMENT]


def test_python_workers_import_pyspark_with_its_byte_code(spark: "SparkSession") -> None:
    """Spark's zip of pyspark has no bytecode, so each process would compile it again."""

    def cached(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyspark  # noqa: PLC0415 - the worker's pyspark

        for _ in batches:
            yield pa.record_batch({"path": [pyspark.__spec__.cached]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(cached, "path string").collect()
    assert row["path"].endswith(".pyc")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        ("spark.ui.enabled", "false"),
    ],
)
def test_settings_hold(spark: "SparkSession", setting: str, value: str) -> None:
    """The session has the settings that a streaming run relies on."""
    assert spark.conf.get(setting) == value


def test_spark_resumes_from_logs_with_checksum_files(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark's own log writer adds a checksum file to each log. Oriel's writer adds none."""
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    ours = spark.conf.get(manager)
    assert ours is not None
    usual = ours.replace("FileSystemBased", "FileContextBased")
    (tmp_path / "in").mkdir()
    batches: list[tuple[int, list[str]]] = []

    def run(text: str, batch: int) -> set[str]:
        (tmp_path / "in" / f"{batch}.txt").write_text(text)
        query = (
            spark.readStream.text(str(tmp_path / "in"))
            .writeStream.foreachBatch(
                lambda rows, number: batches.append((number, [row.value for row in rows.collect()]))
            )
            .option("checkpointLocation", str(tmp_path / "spark"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert query.exception() is None
        logs = (tmp_path / "spark" / name for name in ("offsets", "commits"))
        return {path.name for log in logs for path in log.iterdir()}

    spark.conf.set(manager, usual)
    try:
        assert run("a", 0) == {"0", ".0.crc"}
    finally:
        spark.conf.set(manager, ours)
    assert run("b", 1) == {"0", ".0.crc", "1"}
    assert batches == [(0, ["a"]), (1, ["b"])]


def test_options_of_kafkas_client_are_in_no_plan(
    spark: "SparkSession", capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark prints the plan of a failed query, with the options of its sources."""
    reader = spark.readStream.format("rate").option("rowsPerSecond", "7")
    reader.option("kafka.sasl.jaas.config", "hidden").load().explain(extended=True)
    plan = capsys.readouterr().out
    assert "rowsPerSecond=7" in plan
    assert "kafka.sasl.jaas.config=" in plan
    assert "hidden" not in plan


def test_a_bad_number_becomes_null(spark: "SparkSession") -> None:
    """A value that does not fit its type becomes null and does not stop the query."""
    row = spark.sql("SELECT CAST('none' AS DOUBLE) AS delay").first()
    assert row is not None
    assert row["delay"] is None


def test_spark_reads_a_delta_table(spark: "SparkSession", tmp_path: Path) -> None:
    """The tests' session reads tables that delta-rs wrote."""
    write_deltalake(tmp_path / "table", pa.table({"n": [1, 2, 3]}))
    assert spark.read.format("delta").load(str(tmp_path / "table")).count() == 3


def test_a_second_call_gives_the_same_session(spark: "SparkSession") -> None:
    """Only one session runs in a process."""
    assert build_session("oriel-tests", cores=2).sparkContext is spark.sparkContext


def _logged(spark: "SparkSession", message: str, cause: str) -> str:
    """Return the text of Spark's log for an error with this message and cause."""
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    layout = log4j.LogManager.getContext(False).getConfiguration().getAppender("console")
    event = log4j.core.impl.Log4jLogEvent.newBuilder()
    event.setLoggerName("org.apache.spark.Some").setLevel(log4j.Level.ERROR)
    event.setMessage(log4j.message.SimpleMessage(message))
    if cause:
        event.setThrown(jvm.java.lang.RuntimeException(cause))
    return str(layout.getLayout().toSerializable(event.build()))


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            "Query terminated",
            "Traceback\n  File\noriel.pipeline.errors.EventLogError: event log shrank\n",
        ),
        ("Query terminated", "oriel.storage.errors.ForeignCheckpoint: the checkpoint"),
        ("Query terminated", "oriel.pipeline.windows.definitions.errors.IllegalArgument: no"),
        ("Lost task: Traceback\noriel.pipeline.errors.CheckpointError: gone\n", ""),
        ("Task 0 in stage 3.0 failed 1 times; aborting job", ""),
    ],
)
def test_the_log_is_silent_about_errors_of_ours(
    spark: "SparkSession", message: str, cause: str
) -> None:
    """The command line reports these errors in one line, so Spark's log has no trace."""
    assert _logged(spark, message, cause) == ""


def test_the_log_has_the_trace_of_any_other_error(spark: "SparkSession") -> None:
    """An unexpected error is logged completely, on lines of its own."""
    log = _logged(spark, "Query terminated", "ZeroDivisionError: in pipeline.errors")
    assert "ERROR Some: Query terminated\n" in log
    assert "java.lang.RuntimeException: ZeroDivisionError: in pipeline.errors\n\tat " in log
    assert log.endswith("\n")


def test_an_error_of_a_query_is_raised_and_not_logged_too(
    spark: "SparkSession", capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark's loggers of query contexts would repeat the text of the exception."""
    with pytest.raises(PySparkException, match="nowhere"):
        spark.range(1).selectExpr("nowhere").collect()
    with pytest.raises(PySparkException, match="nowhere"):
        spark.range(1).select("nowhere").collect()
    assert capfd.readouterr().err == ""
