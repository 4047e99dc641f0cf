"""Send the flights to a Kafka topic with a given speed: ``oriel demo --kafka HOST:PORT``."""

import time
from collections.abc import Iterator

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from oriel.demo.errors import DemoError
from oriel.demo.progress import say

_STEP_SECONDS = 0.2
_ANSWER_SECONDS = 30
_LINE_SECONDS = 10


def send_flights(
    bootstrap: str, topic: str, partition: np.ndarray, lines: pa.Array, per_second: float
) -> None:
    """Send the lines of an event log in their order, each to its partition.

    If the topic already has flights, continue after them.

    Raises:
        DemoError: Kafka does not respond, the topic or a partition does not exist, or Kafka rejects
            a record.
    """
    try:
        sent = _counts(bootstrap, topic, int(partition.max()) + 1)
        producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        failures: list[str] = []
        started = line_at = time.monotonic()
        for done, (number, line) in enumerate(_still_to_send(partition, lines, sent)):
            # Use wall-clock time, so that the speed is correct after a slow step.
            while done >= (time.monotonic() - started) * per_second:
                producer.poll(_STEP_SECONDS)
            record = orjson.loads(line)
            producer.produce(
                topic,
                value=orjson.dumps(record["value"]),
                key=record["key"],
                partition=number,
                timestamp=record["timestamp_ms"],
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )
            if failures:
                break
            if time.monotonic() - line_at >= _LINE_SECONDS:
                line_at = time.monotonic()
                say(f"{sum(sent) + done + 1:,} of {len(lines):,} flights are sent to {topic}")
        unsent = producer.flush(_ANSWER_SECONDS)
    except (KafkaException, BufferError) as error:
        message = f"cannot send flights to Kafka at {bootstrap}: {error}"
        raise DemoError(message) from error
    if failures or unsent:
        reason = failures[0] if failures else f"{unsent} records were not acknowledged"
        message = f"cannot send flights to topic {topic} of Kafka at {bootstrap}: {reason}"
        raise DemoError(message)
    say(f"all {len(lines):,} flights are in topic {topic}")


def _counts(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Return how many records each partition of the topic has."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    known = client.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic].partitions
    if len(known) < partitions:
        message = (
            f"topic {topic} of Kafka at {bootstrap} has {len(known)} partitions. Create it with "
            f"--partitions={partitions}, one for each airport of New York"
        )
        raise DemoError(message)
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, p): newest for p in range(partitions)}
    answers = client.list_offsets(wanted, request_timeout=_ANSWER_SECONDS)
    ends = {place.partition: answer.result().offset for place, answer in answers.items()}
    return [ends[p] for p in range(partitions)]


def _still_to_send(
    partition: np.ndarray, lines: pa.Array, sent: list[int]
) -> Iterator[tuple[int, str]]:
    left = list(sent)
    for number, line in zip(partition.tolist(), lines, strict=True):
        if left[number]:
            left[number] -= 1
        else:
            yield number, line.as_py()
