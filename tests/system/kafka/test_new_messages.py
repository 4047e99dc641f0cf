"""The planner of a Kafka topic waits for messages of all topics, tested with a real broker."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
)
from pyspark.sql.streaming.datasource import ReadMaxRows

from oriel.pipeline import kafka_slices
from oriel.pipeline.kafka_slices import KafkaPlanner, TopicEnds, known_offset
from oriel.pipeline.sources.client_settings import client_settings
from tests.e2e.kafka_broker import Broker
from tests.storage.waiting import WAIT_SECONDS, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

#: Longer than a test needs to send a message, and shorter than librdkafka's request timeout.
_IDLE_SECONDS = 50.0


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> list[str]:
    """Return two empty topics with two partitions each."""
    name = request.node.name.strip("]").replace("[", "-")
    topics = [f"waiting-{name}-{each}" for each in "ab"]
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    for made in admin.create_topics([NewTopic(topic, 2, 1) for topic in topics]).values():
        made.result(timeout=WAIT_SECONDS)
    wait_until(
        lambda: TopicEnds(admin, topics).latest(), "leaders of the new topics",
        passing=(KafkaException,),
    )  # fmt: skip
    return topics


@pytest.fixture
def planner(
    broker: Broker, topics: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> KafkaPlanner:
    """Return the planner of the first topic."""
    monkeypatch.setattr(kafka_slices, "MAX_WAIT_SECONDS", _IDLE_SECONDS)
    settings = tmp_path / "settings.json"
    read = client_settings(broker.address, {"isolation.level": "read_committed"})
    settings.write_bytes(orjson.dumps(dict(read)))
    return KafkaPlanner(topics[0], settings, {"0": 0, "1": 0}, 1_000, topics)


def _end(planner: KafkaPlanner, start: int) -> int:
    """Return the end of the next batch in partition 1."""
    of_topics = planner.latestOffset({planner._topic: {"0": 0, "1": start}}, ReadMaxRows(1_000))
    ends = of_topics[planner._topic]
    assert ends["0"] == 0
    return int(ends["1"])


def _send(broker: Broker, topic: str, *, transactional: bool, count: int = 1) -> None:
    """Send messages as one batch, which the consumer receives as a whole."""
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": broker.address, "log_level": 0, "linger.ms": 1_000,
    }  # fmt: skip
    if transactional:
        settings["transactional.id"] = "waiting"
    producer = Producer(settings)
    if transactional:
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
    for _ in range(count):
        producer.produce(topic, b"v", b"k", 1)
    producer.flush()
    if transactional:
        producer.commit_transaction(WAIT_SECONDS)


@pytest.mark.parametrize(
    # The index of the topic, whether it is a transaction, and the number of messages.
    "sent",
    # A wait reads the first of several messages. The others stay in the queue for the next wait.
    [(0, False, 1), (0, True, 1), (0, False, 3), (1, False, 1)],
    ids=["its-topic", "transaction", "several", "another-topic"],
)
def test_a_message_of_any_topic_ends_a_wait(
    broker: Broker,
    topics: list[str],
    planner: KafkaPlanner,
    sent: tuple[int, bool, int],
) -> None:
    """A message ends each of several waits. A transactional message does so after its commit."""
    number, transactional, count = sent
    assert _end(planner, 0) == 0, "the first call notes the ends"
    records = planner._records
    assert records is not None
    consumer = records._consumer
    waits, found = threading.Event(), []

    class Noting:
        """The consumer of the planner, with the messages that it found."""

        assign, unassign = consumer.assign, consumer.unassign

        def poll(self, seconds: float) -> None:
            """Record the message that ends the wait."""
            waits.set()
            found.append(consumer.poll(seconds))

    vars(records)["_consumer"] = Noting()

    def send() -> None:
        assert waits.wait(WAIT_SECONDS)
        _send(broker, topics[number], transactional=transactional, count=count)

    # The marker of a transaction has an offset.
    step = 0 if number else count + transactional
    for start in (0, step, 2 * step):
        waits.clear()
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(send)
            assert _end(planner, start) == start + step
            sending.result()
    assert len(found) == 3
    assert None not in found, "a wait ended without a message"


def test_an_offset_that_the_client_does_not_know_is_an_error() -> None:
    """An invalid offset of the client is an error. As an end, it would look like lost records.

    The client can return it when a broker stops.
    """
    assert known_offset(ListOffsetsResultInfo(7, 0, 0)) == 7
    with pytest.raises(KafkaException):
        known_offset(ListOffsetsResultInfo(OFFSET_INVALID, 0, 0))


def test_partitions_are_requested_again_after_a_time_or_an_error(
    broker: Broker, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new partition is found after a second, and a topic that was created again at once."""
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    monkeypatch.setattr(kafka_slices, "_PARTITIONS_SECONDS", 3_600.0)
    ends = TopicEnds(admin, topics)
    two = {"0": 0, "1": 0}
    assert ends.latest() == {topics[0]: two, topics[1]: two}
    for future in admin.create_partitions([NewPartitions(topics[0], 3)]).values():
        future.result(timeout=WAIT_SECONDS)
    three = {**two, "2": 0}
    monkeypatch.setattr(kafka_slices, "_PARTITIONS_SECONDS", 0.05)
    always_new = TopicEnds(admin, topics)
    wait_until(
        always_new.latest, "the new partition", lambda found: found[topics[0]] == three,
        passing=(KafkaException,),
    )  # fmt: skip
    assert ends.latest() == {topics[0]: two, topics[1]: two}
    for future in admin.delete_topics(topics).values():
        future.result(timeout=WAIT_SECONDS)
    wait_until(lambda: _raises(ends), "the end of the topics", passing=())
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(timeout=WAIT_SECONDS)
    one = {"0": 0}
    wait_until(
        ends.latest, "the new topics",
        lambda found: found == {topics[0]: one, topics[1]: one}, passing=(KafkaException,),
    )  # fmt: skip


def _raises(ends: TopicEnds) -> bool:
    try:
        ends.latest()
    except KafkaException:
        return True
    return False
