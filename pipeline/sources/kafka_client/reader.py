"""The reader of Kafka's records that uses librdkafka in Oriel's own tasks (decision 0087)."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from typing import ClassVar

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from oriel.pipeline.kafka_slices import FORMAT, SLICE_SCHEMA, KafkaSlice, KafkaSlices, slices
from oriel.pipeline.language import Source
from oriel.pipeline.sources.brokers import Brokers
from oriel.pipeline.sources.kafka_client.brokers import ClientBrokers
from oriel.pipeline.sources.kafka_client.reading import (
    RAW_SCHEMA,
    RAW_SCHEMA_WITH_HEADERS,
    reader_of,
)
from oriel.pipeline.sources.kafka_reader import TopicRead, reads_headers, reads_ingestion_time
from oriel.pipeline.sources.log import Batches
from oriel.pipeline.spark import map_in_arrow, scratch_directory
from oriel.storage import Offsets

_INGESTED = "ingested"


@dataclass(frozen=True)
class ClientReader:
    """Reads with librdkafka. Spark plans and places slices, and tasks fetch their records.

    Attributes:
        settings: Settings of librdkafka, which can contain secrets.
        skips_lost: If True, records that Kafka has deleted are skipped.
    """

    settings: Mapping[str, str] = field(repr=False)
    skips_lost: bool

    plans_slices: ClassVar[bool] = True
    needs_connector: ClassVar[bool] = False

    def brokers(self, _spark: SparkSession) -> Brokers:
        return ClientBrokers(self.settings)

    def stream(self, spark: SparkSession, read: TopicRead, sources: Sequence[Source]) -> DataFrame:
        _register(spark)
        rows = (
            spark.readStream.format(FORMAT)
            .option("topic", read.topic)
            .option("settings", str(self._settings_file))
            .option("firsts", orjson.dumps(dict(read.firsts)).decode())
            .option("batch_records", str(read.batch_records))
            .option("wait_for", orjson.dumps(read.wait_for).decode())
            .load()
        )
        return _with_ingestion_time(rows, sources)

    def between(
        self, spark: SparkSession, starts: Offsets, ends: Offsets, sources: Sequence[Source]
    ) -> DataFrame:
        _register(spark)
        frames = [
            spark.read.format(FORMAT)
            .option("topic", topic)
            .option("starts", orjson.dumps(starts.get(topic, {})).decode())
            .option("ends", orjson.dumps(of_topic).decode())
            .load()
            for topic, of_topic in ends.items()
            if slices(topic, starts.get(topic, {}), of_topic)
        ]
        return _with_ingestion_time(reduce(DataFrame.union, frames), sources)

    def row_opener(self, sources: Sequence[Source]) -> "SliceReaderFunction":
        return SliceReaderFunction(self.settings, _headers(sources), skips_lost=self.skips_lost)

    def raw_rows(self, rows: DataFrame, sources: Sequence[Source]) -> DataFrame:
        opened = self.row_opener(sources)
        schema = RAW_SCHEMA_WITH_HEADERS if reads_headers(sources) else RAW_SCHEMA
        if reads_ingestion_time(sources):
            schema = schema.append(pa.field(_INGESTED, pa.timestamp("us", "UTC")))

        def records(batches: Batches) -> Batches:
            return (block for _, block in opened(batches))

        return map_in_arrow(rows, records, from_arrow_schema(schema))

    def read(
        self, rows: DataFrame, starts: Offsets, ends: Offsets, sources: Sequence[Source]
    ) -> list[tuple[str, list[pa.RecordBatch]]]:
        # A batch often has no records of a partition, and the next one has.
        opener = replace(self.row_opener(sources), keeps_partitions=True)
        if reads_ingestion_time(sources):
            # Only Spark knows the time of the batch.
            found = opener(iter(rows.toArrow().to_batches()))
        else:
            planned = [
                part
                for topic, of_topic in ends.items()
                for part in slices(topic, starts.get(topic, {}), of_topic)
            ]
            found = opener.opened(planned)
        raw: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        for topic, block in found:
            raw.setdefault((topic, block["partition"][0].as_py()), []).append(block)
        return [(topic, blocks) for (topic, _), blocks in raw.items()]

    @property
    def _settings_file(self) -> Path:
        """Write the settings where only this user can read them, for the process that plans."""
        return _write_settings(orjson.dumps(dict(self.settings)))


@dataclass(frozen=True)
class SliceReaderFunction:
    """Reads the slices in rows of the source, in a task or in the driver.

    Attributes:
        settings: Settings of librdkafka.
        headers: Topic -> whether a source reads its headers. Empty if no source does.
        skips_lost: If True, records that Kafka has deleted are skipped.
        keeps_partitions: See ``SliceReader``.
    """

    settings: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, bool]
    skips_lost: bool
    keeps_partitions: bool = False

    def __call__(self, rows: Batches) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the topic and the raw records of each slice, in turn."""
        for batch in rows:
            for fields in batch.to_pylist():
                ingested = fields.pop(_INGESTED, None)
                for topic, block in self.opened([KafkaSlice(**fields)]):
                    if ingested is None:
                        yield topic, block
                        continue
                    times = pa.repeat(pa.scalar(ingested, pa.timestamp("us", "UTC")), len(block))
                    yield topic, block.append_column(_INGESTED, times)

    def opened(self, planned: Sequence[KafkaSlice]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the topic and the raw records of slices that are read together."""
        reader = reader_of(
            self.settings, skips_lost=self.skips_lost, keeps_partitions=self.keeps_partitions
        )
        return reader.read(planned, self.headers)


def _headers(sources: Sequence[Source]) -> dict[str, bool]:
    if not reads_headers(sources):
        return {}
    return {source.topic: reads_headers(sources, source.topic) for source in sources}


def _with_ingestion_time(rows: DataFrame, sources: Sequence[Source]) -> DataFrame:
    if not reads_ingestion_time(sources):
        return rows
    # The time of the batch in the offset log, so that a repeated batch has the same time.
    return rows.selectExpr(*SLICE_SCHEMA.names, f"current_timestamp() AS {_INGESTED}")


@cache
def _register(spark: SparkSession) -> None:
    """Register the source once, because Spark warns if it is registered twice."""
    spark.dataSource.register(KafkaSlices)


@cache
def _write_settings(settings: bytes) -> Path:
    # Only this user can read a file of ``mkstemp``.
    descriptor, name = tempfile.mkstemp(prefix="kafka-", suffix=".json", dir=scratch_directory())
    with os.fdopen(descriptor, "wb") as file:
        file.write(settings)
    return Path(name)
