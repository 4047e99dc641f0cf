"""Code of other systems on the pages is correct, as far as their own programs can check it."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.app.serving import Serving, ready_service
from tests.documentation.pages import IN_SPARK, blocks
from tests.documentation.table_queries import (
    CURRENT_ROWS,
    QUERIES,
    WITHOUT_PACKAGE,
    as_served,
    run_in_spark,
    run_python,
    served,
)
from tests.tidy.project import ROOT
from tests.windows.kafka_peer import class_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.e2e.runs_in_one_process import Runs

_KAFKA_STREAMS = ROOT / "docs" / "migrate" / "kafka-streams.md"
_SPARK = ROOT / "docs" / "migrate" / "spark.md"

#: The declarations before the page's Java.
_CLASS = """\
import static java.time.Duration.*;
import java.time.Instant;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.state.*;

abstract class Page {
    record Order(String item, double amount) {}
    StreamsBuilder builder;
    KafkaStreams streams;
    Serde<Order> orderSerde;
    Instant from, to;
%s
}
"""

_ORDERS = """\
from oriel import SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, count, sum

builder = StreamsBuilder()
orders = builder.stream("orders", schema="amount DOUBLE").group_by_key()
for store, windows in (
    ("minutes", TimeWindows.of_size_and_grace(60_000, 60_000)),
    ("ten_minutes", SlidingWindows.of_time_difference_and_grace(600_000, 300_000)),
    ("sessions", SessionWindows.of_inactivity_gap_and_grace(60_000, 300_000)),
):
    orders.windowed_by(windows).aggregate(orders=count(), revenue=sum("amount")).materialize(store)
topology = builder.build()
"""


@pytest.mark.slow
def test_the_java_of_the_guide_compiles(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The Kafka Streams code of the guide compiles with the release that the guide names."""
    java = [block.text for block in blocks(_KAFKA_STREAMS) if block.language == "java"]
    assert len(java) >= 5
    methods = [f"    void block{number}() {{\n{text}    }}\n" for number, text in enumerate(java)]
    source = tmp_path / "Page.java"
    source.write_text(_CLASS % "".join(methods))
    jars = class_path(tmp_path_factory.getbasetemp() / "kafka-peer")
    command = ["javac", "-proc:none", "-d", str(tmp_path), "-cp", jars, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_spark_code_of_the_guide_is_analysed(spark: "SparkSession") -> None:
    """A Spark session accepts the columns, types and watermarks of the guide's Spark code."""
    rates = spark.readStream.format("rate").load()
    scope: dict[str, Any] = {
        "orders": rates.selectExpr(
            "CAST(value AS STRING) AS city", "CAST(value AS DOUBLE) AS amount", "timestamp AS time"
        ),
        "payments": rates.selectExpr("CAST(value AS STRING) AS payer", "timestamp AS paid"),
    }
    of_spark = [block for block in blocks(_SPARK) if block.note == IN_SPARK]
    assert len(of_spark) >= 3
    for block in of_spark:
        exec(compile("\n" * block.line + block.text, str(_SPARK), "exec"), scope)  # noqa: S102
    assert scope["revenue"].columns == ["city", "start", "end", "orders", "revenue"]
    assert scope["paid"].isStreaming


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, runs: "Runs") -> "Iterator[Serving]":
    """Serve tables (minutes, ten minutes, sessions) that the pipeline wrote in three batches."""
    directory = tmp_path_factory.mktemp("tables")
    topology, log = directory / "orders.py", directory / "events" / "orders" / "0.jsonl"
    topology.write_text(_ORDERS)
    log.parent.mkdir(parents=True)
    for times in (range(0, 3_000, 25), range(2_900, 4_800, 40), (5_000, 4_950, 5_400, 5_200)):
        with log.open("a") as file:
            file.writelines(
                f'{{"key": "{("oslo", "lisbon")[second % 3 == 0]}", "timestamp_ms": {second}000,'
                f' "value": {{"amount": {second % 7}}}}}\n'
                for second in times
            )
        options = [
            "--event-log",
            str(directory / "events"),
            "--data",
            str(directory / "data"),
            "--once",
        ]
        ended = runs.run(str(topology), *options)
        assert ended.code == 0, ended.errors
    with ready_service(directory / "data") as service:
        yield service


@pytest.mark.slow
def test_the_queries_for_tables_return_what_the_service_returns(
    tables: Serving, spark: "SparkSession"
) -> None:
    """Spark, DuckDB, Polars and pandas find the current rows of the pipeline's tables."""
    stores = ("minutes", "ten_minutes", "sessions")
    expected = {store: served(tables, store) for store in stores}
    paths = [tables.data / "tables" / store for store in stores]
    for path in paths:
        rows = DeltaTable(path).to_pyarrow_table().num_rows
        assert rows > len(expected[path.name][CURRENT_ROWS]) > 0
        for with_package in (True, False):
            run_in_spark(spark, path, with_package=with_package)
            found = {name: as_served(spark.table(name).toArrow()) for name in QUERIES}
            assert found == expected[path.name]
    for tool in range(1 + WITHOUT_PACKAGE):
        assert run_python(tool, paths) == expected
