"""Batches of a sink that a process publishes until it kills itself at a step, without Spark.

``publish`` runs in a process of its own: ``multiprocessing`` starts it from a server that has no
Kafka client, because such a client does not survive a fork.
"""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from oriel import StreamsBuilder
from oriel.pipeline.commit import Checkpoint, SinkDefinition, SinkTopic, sink_topic
from oriel.pipeline.language import Publication
from oriel.pipeline.lowered import lower
from oriel.pipeline.plan import InputSource, PreparedBatch
from oriel.pipeline.sinks import (
    Messages,
    TopicProducer,
    batch_identity,
    record_messages,
    topic_producer,
)
from oriel.pipeline.state import write_segment
from oriel.pipeline.windows import NULL_VALUE
from oriel.storage import CommitRecord, DataLayout

#: Records of a batch, in two segments.
RECORDS = 300
#: As of the flights: Kafka expires the state of idempotent producers by the times of records.
TIME_MS = 1_357_034_400_000
VALUES = pa.schema([("n", pa.int64())])
#: Where a process is killed: at this call of a client, of the sink or of the note, or at any time.
STEPS = ("prepared", "begun", "produced", "flushed", "marked", "committing", "committed", "noted")
ANY_TIME = "any time"


@dataclass(frozen=True)
class Site:
    """A checkpoint and the topic of its sink."""

    data: Path
    address: str
    topic: str

    def producer(self) -> TopicProducer:
        """Return a producer of the pipeline."""
        settings = {"bootstrap.servers": self.address}
        return TopicProducer(settings, "app", self.topic, timeout_seconds=30)


def sink_inputs(topic: str) -> tuple[SinkDefinition, list[InputSource]]:
    """Return a sink that copies the topic ``t``, and its inputs."""
    builder = StreamsBuilder()
    builder.stream("t", "n BIGINT").to(topic)
    (sink,) = lower(builder.build()).sinks
    return SinkDefinition.of(sink, 8), [InputSource(sink.inputs[0].lineage, topic="t")]


def records(first: int, count: int) -> pa.Table:
    """Return records of a partition as a sink's tasks write them, with values from ``first`` on."""
    numbers = np.arange(first, first + count)
    return pa.table({
        "key": [f"k{number % 7}" for number in numbers],
        "partition": np.zeros(count, np.int32),
        "offset": numbers,
        "timestamp_ms": TIME_MS + numbers,
        NULL_VALUE.name: np.zeros(count, bool),
        "n": numbers,
    })  # fmt: skip


def publish(site: Site, batches: int, step: str, at: int, seconds: float) -> None:
    """Publish the next batches as a run does.

    Args:
        site: The checkpoint and the topic.
        batches: The number of batches.
        step: Where the process kills itself, or an empty string.
        at: In which of these batches.
        seconds: When it kills itself, for ``ANY_TIME``.
    """
    if step == ANY_TIME:
        threading.Timer(seconds, _kill).start()
    definition, inputs = sink_inputs(site.topic)
    producer = site.producer()
    with Checkpoint(DataLayout(site.data).checkpoint("app"), sync=False) as checkpoint:

        def send(directory: Path, prepared: PreparedBatch) -> None:
            names = [name for of_task in prepared.segments.values() for name in of_task]
            messages = _slowly(record_messages(directory, names, VALUES, inputs, Publication("")))
            producer.send(prepared.record.batch, batch_identity(prepared), messages)

        sink = SinkTopic(DataLayout(site.data), checkpoint, definition, send, sync=False)
        versions = checkpoint.versions(sink.definition.state_name)
        first = sink.recorded_batch() + 1
        for batch in range(first, first + batches):
            prepared = versions.prepared(batch) or versions.prepare(
                batch, _prepared(batch, versions.directory), [versions.directory]
            )
            if batch == first + at:
                _arm(step, producer)
            sink.commit(prepared, batch)
    producer.close()


def _prepared(batch: int, directory: Path) -> PreparedBatch:
    half = RECORDS // 2
    segments = {
        task: [
            write_segment(
                directory, records(batch * RECORDS + task * half, half), f"{batch:012d}-{task}",
                sync=False,
            )
        ]
        for task in range(2)
    }  # fmt: skip
    record = CommitRecord(batch, {"t": {"0": (batch + 1) * RECORDS}}, {}, -1)
    return PreparedBatch(record, segments, {}, [], [], RECORDS, 0)


def _slowly(messages: Iterator[Messages]) -> Iterator[Messages]:
    """Yield few messages at a time, so that a kill can be between them."""
    for chunk in messages:
        for begin in range(0, len(chunk.keys), 50):
            rest = chunk.after(begin)
            first, second = rest.headers
            yield Messages(
                rest.keys[:50], rest.values[:50], rest.times_ms[:50], rest.header_names,
                (first[:50], second[:50]),
            )  # fmt: skip


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(step: str, producer: TopicProducer) -> None:
    """Kill this process at a step of the next batch."""
    if step == "prepared":
        _kill()
    note = sink_topic.mark_published
    if step == "committed":
        sink_topic.mark_published = lambda *_arguments, **_named: _kill()
    elif step == "noted":

        def noted(*arguments: Any, **named: Any) -> None:
            note(*arguments, **named)
            _kill()

        sink_topic.mark_published = noted
    elif step in {"begun", "produced", "flushed", "marked", "committing"}:
        topic_producer.__dict__["Producer"] = partial(_KilledProducer, step)
        # The next batch starts a producer, as after a failure.
        producer.close()


class _KilledProducer(Producer):
    """A producer that kills its process at a step of a transaction."""

    def __init__(self, step: str, settings: Any) -> None:
        super().__init__(settings)
        self._step = step
        self._produced = 0

    def begin_transaction(self) -> None:
        super().begin_transaction()
        if self._step == "begun":
            _kill()

    def produce(self, *arguments: Any, **named: Any) -> None:
        super().produce(*arguments, **named)
        self._produced += 1
        if self._step == "produced" and self._produced == RECORDS // 2 + 10:
            _kill()

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        if self._step == "flushed":
            self.flush()
            _kill()
        super().send_offsets_to_transaction(*arguments)
        if self._step == "marked":
            _kill()

    def commit_transaction(self, *arguments: Any) -> None:
        if self._step == "committing":
            # While the request is under way.
            self.flush()
            threading.Thread(target=super().commit_transaction, daemon=True).start()
            _kill()
        super().commit_transaction(*arguments)
