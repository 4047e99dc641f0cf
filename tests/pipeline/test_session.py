"""The Spark session that runs use."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipeline.session import build_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def test_python_workers_find_the_project(spark: "SparkSession") -> None:
    """Code that runs in Spark's Python workers can import the project's packages."""

    def names(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from storage.layout import DEAD_LETTERS  # noqa: PLC0415 - the point of the test

        for _ in batches:
            yield pa.record_batch({"name": [DEAD_LETTERS]})

    rows = spark.range(1, numPartitions=1).mapInArrow(names, "name string").collect()
    assert [row["name"] for row in rows] == ["_dead_letters"]


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


def test_a_bad_number_becomes_null(spark: "SparkSession") -> None:
    """A value that does not fit its type gives null instead of stopping the query."""
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
