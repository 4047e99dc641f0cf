"""Structs and maps in user-defined aggregates of a real run: on disk, restarted, in a topic."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from oriel import StreamsBuilder, Topology
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.sinks import Messages, TopicProducer
from oriel.pipeline.sources import EventLog

pytestmark = pytest.mark.slow


def counted(_: str, value: Any, kept: dict[str, Any]) -> dict[str, Any]:
    """Count words, and keep the newest one."""
    word = value["at"]["word"]
    counts = {**kept["counts"], word: kept["counts"].get(word, 0) + len(value["tags"])}
    return {"counts": counts, "newest": value["at"], "all": [*kept["all"], value["tags"]]}


def topology() -> Topology:
    """Return a topology with the updates of a key's words in a topic."""
    builder = StreamsBuilder()
    words = builder.stream("t", "at STRUCT<word: STRING, n: INT>, tags MAP<STRING, INT>")
    table = words.group_by_key().aggregate(
        lambda: {"counts": {}, "newest": None, "all": []},
        counted,
        schema="counts MAP<STRING, BIGINT>, newest STRUCT<word: STRING, n: INT>, "
        "all ARRAY<MAP<STRING, INT>>",
    )
    table.to_stream().to("out")
    return builder.build()


def test_functions_keep_structs_and_maps_over_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aggregates read from disk are dicts again, and the topic has them as JSON objects."""
    written: list[Any] = []

    def send(_: TopicProducer, _batch: int, _identity: str, messages: Iterable[Messages]) -> None:
        written.extend(orjson.loads(value or b"") for each in messages for value in each.values)

    monkeypatch.setattr(TopicProducer, "send", send)
    log = tmp_path / "log"
    (log / "t").mkdir(parents=True)
    settings = RunSettings(
        tmp_path / "data",
        "app",
        None,
        tasks=2,
        sync=False,
        publish_options={"bootstrap.servers": "none"},
    )
    for number, word in enumerate(("tea", "cup", "tea")):
        with (log / "t" / "0.jsonl").open("ab") as file:
            value = {"at": {"word": word, "n": number}, "tags": {"x": number, "y": None}}
            record = {"key": "k", "value": value, "timestamp_ms": number}
            file.write(orjson.dumps(record) + b"\n")
        run = PipelineRun.recover(spark, topology(), EventLog(log), settings)
        try:
            run.start(lambda _batch, _stores: None).awaitTermination()
        finally:
            run.close()
    counts: list[dict[str, int]] = [row["counts"] for row in written]
    assert counts == [{"tea": 2}, {"tea": 2, "cup": 2}, {"tea": 4, "cup": 2}]
    assert written[-1]["newest"] == {"word": "tea", "n": 2}
    assert [tags["x"] for tags in written[-1]["all"]] == [0, 1, 2]
