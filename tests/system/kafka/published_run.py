"""Batches whose rows are written to Kafka, with crashes before and after that (``Runs.call``)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oriel import SessionWindows, StreamsBuilder, TimeWindows, Topology, count
from oriel.pipeline.run import PipelineRun, RunSettings
from oriel.pipeline.run.publishing import Publisher
from oriel.pipeline.sources import EventLog, kafka_settings
from oriel.pipeline.spark import build_session


class _CrashError(Exception):
    """Represents a crash of the process."""


def topology() -> Topology:
    """Return a store of each kind: with tombstones, final rows only, and without windows."""
    builder = StreamsBuilder()
    grouped = builder.stream("t", "v LONG").group_by_key()
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(10, 20))
    sessions.count().materialize("sessions").to("sessions-out")
    tumbling = grouped.windowed_by(TimeWindows.of_size_and_grace(10, 0))
    tumbling.count().materialize("final").to("final-out", final_only=True)
    grouped.aggregate(n=count()).materialize("totals").to("totals-out")
    return builder.build()


def _run(spark: SparkSession, directory: Path, address: str, *times_ms: int) -> None:
    """Run a batch with one record at each time."""
    with (directory / "log" / "t" / "0.jsonl").open("ab") as file:
        for time_ms in times_ms:
            record = {"key": "k", "value": {"v": 1}, "timestamp_ms": time_ms}
            file.write(orjson.dumps(record) + b"\n")
    options = {"bootstrap.servers": address}
    settings = RunSettings(
        directory / "data", "app", None, tasks=1, sync=False, publish_options=options
    )
    run = PipelineRun.recover(spark, topology(), EventLog(directory / "log"), settings)
    try:
        run.start(lambda _batch, _stores: None).awaitTermination()
    except PySparkException:
        if not isinstance(run.failure, _CrashError):
            raise
    finally:
        run.close()


def main(arguments: Sequence[str]) -> int:
    """Run a batch, and batches that crash after and before publication, and repeat these.

    Arguments: a directory, and the address of the brokers.
    """
    directory, address = Path(arguments[0]), arguments[1]
    (directory / "log" / "t").mkdir(parents=True)
    spark = build_session("published", cores=1, extra=kafka_settings())
    _run(spark, directory, address, 0, 5, 30)
    publish = Publisher.publish

    def publish_and_crash(self: Publisher, *arguments: Any) -> None:
        publish(self, *arguments)
        if arguments[1].name == "totals":
            raise _CrashError

    Publisher.publish = publish_and_crash  # type: ignore[assignment, method-assign]
    _run(spark, directory, address, 12)
    Publisher.publish = publish  # type: ignore[method-assign]
    _run(spark, directory, address)

    def crash(_self: Publisher, *_arguments: Any) -> None:
        raise _CrashError

    Publisher.publish = crash  # type: ignore[assignment, method-assign]
    _run(spark, directory, address, 40)
    Publisher.publish = publish  # type: ignore[method-assign]
    # The second start does not repeat anything.
    _run(spark, directory, address)
    _run(spark, directory, address)
    spark.stop()
    return 0
