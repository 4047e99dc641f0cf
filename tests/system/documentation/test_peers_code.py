"""Code of other systems on the pages is correct, as far as their own programs can tell."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oriel.storage import DataLayout
from tests.documentation.pages import IN_SPARK, blocks
from tests.storage.store_tables import StoreTable, make_definition
from tests.tidy.project import ROOT
from tests.windows.kafka_peer import class_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KAFKA_STREAMS = ROOT / "docs" / "for-kafka-streams.md"
_SPARK = ROOT / "docs" / "for-spark.md"

#: What the page's Java goes on from.
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


@pytest.mark.slow
def test_the_java_of_the_guide_compiles(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What the guide shows of Kafka Streams is what its own release accepts."""
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
    """What the guide shows of Spark is what a session accepts: columns, types, watermarks."""
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


@pytest.mark.slow
def test_the_query_for_the_rows_that_count_runs(spark: "SparkSession", tmp_path: Path) -> None:
    """Of a window that was written twice it gives the newer row, of one that is gone nothing."""
    (query,) = (b.text for b in blocks(ROOT / "docs" / "tables.md") if b.note == IN_SPARK)
    table = StoreTable(tmp_path, make_definition("store"))
    table.commit([{"key": "a", "start": 0, "n": 1}, {"key": "b", "start": 0, "n": 2}])
    table.commit([{"key": "a", "start": 0, "n": 3}, {"key": "b", "start": 0, "deleted": True}])
    path = DataLayout(tmp_path).table("store")
    rows = spark.sql(query.replace("DATA/tables/STORE", str(path))).collect()
    assert [(row["key"], row["n"]) for row in rows] == [("a", 3)]
