"""Send the flights to a Kafka topic with a given speed: ``oriel demo --kafka HOST:PORT``."""

import time
from collections.abc import Iterator
from itertools import islice

import numpy as np
import orjson
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from oriel.demo.errors import DemoError
from oriel.demo.progress import say

_STEP_SECONDS = 0.2
#: One step has at most this many records, so each partition gets them in one request.
_STEP_RECORDS = 2_000
_RESPONSE_SECONDS = 30
_LINE_SECONDS = 10
#: The command ends with an error if the broker is down for longer.
_OUTAGE_SECONDS = 300.0
_RETRY_SECONDS = 1.0
#: How long a new topic can be unknown to the broker, or its partitions without a leader.
_START_SECONDS = 10.0

#: Kafka expires a producer by the times of its records, and these are of 2013. After a restart, a
#: broker would therefore accept a retry of records that it has already. So the client does not
#: retry: after a failure, the flights continue after the records that the topic has.
#:
#: Some errors do not count as retries, for example NOT_LEADER_OR_FOLLOWER, although a broker that
#: shuts down can respond with it after it has written the records. Such a record times out before
#: its next attempt, which is at least 0.8 times the backoff later.
_PRODUCER: dict[str, str | int | bool] = {
    "acks": "all", "enable.idempotence": False, "retries": 0, "linger.ms": 1_000,
    "max.in.flight.requests.per.connection": 1, "log_level": 0,
    "message.timeout.ms": 10_000, "retry.backoff.ms": 60_000, "retry.backoff.max.ms": 60_000,
}  # fmt: skip


def send_flights(
    bootstrap: str, topic: str, partition: np.ndarray, lines: pa.Array, per_second: float
) -> None:
    """Send the lines of an event log in their order, each to its partition.

    If the topic already has flights, continue after them, also after an outage of the broker.

    Raises:
        DemoError: Kafka does not respond, the topic or a partition does not exist, or Kafka rejects
            records for several minutes.
    """
    patience_seconds, progress_at = _START_SECONDS, time.monotonic()
    while True:
        try:
            sent = _counts(bootstrap, topic, int(partition.max()) + 1)
            if patience_seconds < _OUTAGE_SECONDS:
                patience_seconds, progress_at = _OUTAGE_SECONDS, time.monotonic()
            producer = Producer({**_PRODUCER, "bootstrap.servers": bootstrap})
            rest = _still_to_send(partition, lines, sent)
            accepted, failure = _send_rest(producer, topic, rest, per_second)
            progress_at = time.monotonic() if accepted else progress_at
        except (KafkaException, DemoError) as error:
            failure = str(error)
        if failure is None:
            say(f"all {len(lines):,} flights are in topic {topic}")
            return
        if time.monotonic() - progress_at > patience_seconds:
            message = f"cannot send flights to topic {topic} of Kafka at {bootstrap}: {failure}"
            raise DemoError(message)
        say(f"sending again after the flights in topic {topic}: {failure}")
        time.sleep(_RETRY_SECONDS)


def _send_rest(
    producer: Producer, topic: str, rest: Iterator[tuple[int, str]], per_second: float
) -> tuple[int, str | None]:
    """Send records in steps until the end or until a step fails.

    Returns:
        How many records Kafka has accepted, and the reason of the failure. None at the end.
    """
    failures: list[str] = []

    def note(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(str(error))

    done, started, line_at = 0, time.monotonic(), time.monotonic()
    while True:
        # Use wall-clock time, so that the speed is correct after a slow step.
        due = int((time.monotonic() - started) * per_second) + 1 - done
        step = list(islice(rest, min(due, _STEP_RECORDS))) if due > 0 else []
        if due > 0 and not step:
            return done, None
        for number, line in step:
            record = orjson.loads(line)
            producer.produce(
                topic,
                value=orjson.dumps(record["value"]),
                key=record["key"],
                partition=number,
                timestamp=record["timestamp_ms"],
                on_delivery=note,
            )
        unsent = producer.flush(_RESPONSE_SECONDS) if step else 0
        if failures or unsent:
            producer.purge()
            reason = failures[0] if failures else f"{unsent} records were not acknowledged"
            return done, reason
        done += len(step)
        if time.monotonic() - line_at >= _LINE_SECONDS:
            line_at = time.monotonic()
            say(f"{done:,} flights are sent to {topic}")
        if due <= _STEP_RECORDS:
            time.sleep(_STEP_SECONDS)


def _counts(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """Return how many records each partition of the topic has."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    # A request for this topic alone would create it, with one partition.
    topics = client.list_topics(timeout=_RESPONSE_SECONDS).topics
    known = len(topics[topic].partitions) if topic in topics else 0
    if known < partitions:
        message = (
            f"the topic has {known} partitions. Create it with --partitions={partitions}, "
            "one for each airport of New York"
        )
        raise DemoError(message)
    newest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    wanted = {TopicPartition(topic, p): newest for p in range(partitions)}
    futures = client.list_offsets(wanted, request_timeout=_RESPONSE_SECONDS)
    ends = {one.partition: future.result().offset for one, future in futures.items()}
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
