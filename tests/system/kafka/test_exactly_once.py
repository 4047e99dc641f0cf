"""Messages that read_committed consumers see exactly once, whatever is killed."""

import multiprocessing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import orjson
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oriel.pipeline.errors import Fenced, KafkaUnavailable
from oriel.pipeline.sinks import Marker, Messages, TopicProducer
from oriel.pipeline.sources import BrokersUnavailable
from tests.campaigns import cases
from tests.e2e.kafka_broker import Broker, messages_of
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS, wait_until
from tests.system.kafka.killed_publication import (
    ANY_TIME,
    RECORDS,
    STEPS,
    TIME_MS,
    Site,
    publish,
)

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_PARTITIONS = 3
#: The number of batches of a process that is killed.
_MOST_BATCHES = 3


def make_topic(address: str, name: str, **config: str) -> str:
    """Create a topic and return its name."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    topic = NewTopic(name, _PARTITIONS, 1, config=config)
    admin.create_topics([topic])[name].result(timeout=WAIT_SECONDS)
    return name


def messages(numbers: range, time_ms: int = TIME_MS) -> Messages:
    """Return messages with these numbers as values."""
    texts = [b"%d" % number for number in numbers]
    times_ms = [time_ms + number for number in numbers]
    return Messages(texts, texts, times_ms, ("source", "n"), (texts, texts))


def seen(address: str, topic: str) -> Counter[int]:
    """Return how often a read_committed consumer sees each number."""
    found = messages_of(address, topic, _PARTITIONS)
    return Counter(int(message.value() or b"") for message in found)


@pytest.fixture(name="topic")
def _topic(request: pytest.FixtureRequest, broker: Broker) -> str:
    return make_topic(broker.address, f"once-{request.node.name.partition('[')[0]}"[:200])


@pytest.fixture(name="producer")
def _producer(broker: Broker, topic: str) -> Iterator[TopicProducer]:
    producer = Site(Path(), broker.address, topic).producer()
    yield producer
    producer.close()


@cases(len(STEPS) + 2, 100)
def test_each_record_is_read_once_after_kills(tmp_path: Path, broker: Broker, number: int) -> None:
    """At each step of the commit, and at any time, a killed process loses and repeats nothing."""
    site = Site(tmp_path, broker.address, make_topic(broker.address, f"killed-{number}"))
    random = Random(number)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.system.kafka.killed_publication"])
    steps = [*STEPS, ANY_TIME, ANY_TIME] * (number // len(STEPS) + 1)
    for step in [*random.sample(steps[:number], number), ""]:
        # A process that is killed at a random time can need longer than the others.
        arguments = _MOST_BATCHES, step, random.randrange(_MOST_BATCHES), random.uniform(0.0, 0.6)
        process = context.Process(target=publish, args=(site, *arguments))
        process.start()
        process.join(WAIT_SECONDS)
        expected = {-9, 0} if step == ANY_TIME else {-9 if step else 0}
        assert process.exitcode in expected, step
    found = [
        (message.partition(), message.key(), orjson.loads(message.value() or b"")["n"],
         message.timestamp()[1], dict(message.headers() or []))
        for message in messages_of(site.address, site.topic, _PARTITIONS)
    ]  # fmt: skip
    numbers = [n for _, _, n, _, _ in found]
    assert len(numbers) >= RECORDS * number
    assert sorted(numbers) == list(range(len(numbers)))
    by_key: dict[bytes | None, list[int]] = {}
    for _, key, n, time_ms, headers in found:
        by_key.setdefault(key, []).append(n)
        assert time_ms == TIME_MS + n
        assert headers == {"source": b"t/0/%d" % n, "timestamp_ms": b"%d" % time_ms}
    # Messages of one key keep their order.
    assert [sorted(of_key) for of_key in by_key.values()] == list(by_key.values())


def test_a_broker_that_is_killed_in_a_transaction_has_each_message_once(tmp_path: Path) -> None:
    """Requests are in flight, and the times of the messages are old."""
    broker = Broker(tmp_path)
    try:
        topic = make_topic(broker.address, "killed")
        site = Site(tmp_path, broker.address, topic)
        kills = [0]

        def chunks(first: int, *, kill_at: int) -> Iterator[Messages]:
            for number in range(10):
                yield messages(range(first + number * 500, first + (number + 1) * 500))
                if number == kill_at and kills[0]:
                    kills[0] -= 1
                    broker.kill()
                    broker.start()

        producer, expected = site.producer(), 0
        for batch in range(2):
            kills[0] = 1
            for _ in range(5):
                try:
                    producer.send(batch, f"batch {batch}", chunks(expected, kill_at=2 * batch + 2))
                    break
                except KafkaUnavailable:
                    # A run also starts again.
                    continue
            else:
                pytest.fail("the broker runs, but the batch was not written")
            expected += 5_000
        producer.close()
        assert seen(broker.address, topic) == Counter(range(expected))
    finally:
        broker.kill()


def test_a_new_producer_fences_the_old_one(broker: Broker, topic: str) -> None:
    """The old producer is in the middle of a batch, and the batch's messages stay invisible."""
    old, new = (Site(Path(), broker.address, topic).producer() for _ in range(2))
    old.send(0, "a", [messages(range(10))])

    def overtaken() -> Iterator[Messages]:
        yield messages(range(10, 20))
        new.send(1, "b", [messages(range(10, 20))])
        yield messages(range(20, 30))

    with pytest.raises(Fenced, match=f"writes to the topic '{topic}' as 'oriel/app/{topic}'"):
        old.send(1, "b", overtaken())
    assert seen(broker.address, topic) == Counter(range(20))
    old.close()
    new.close()


def test_a_batch_is_sent_again_unless_its_marker_shows_it(broker: Broker, topic: str) -> None:
    """The marker has the identity of the batch, because a restored pipeline repeats numbers."""
    for batch, identity, numbers in (
        (0, "a", range(10)), (0, "a", range(10)), (0, "other", range(10, 20)),
        (1, "b", range(20, 30)), (1, "b", range(20, 30)),
    ):  # fmt: skip
        producer = Site(Path(), broker.address, topic).producer()
        producer.send(batch, identity, [messages(numbers)])
        producer.close()
    assert seen(broker.address, topic) == Counter(range(30))


def test_a_long_batch_is_several_transactions(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that fails in the middle continues after the messages that are committed."""
    clock = [0.0]
    monkeypatch.setattr("oriel.pipeline.sinks.topic_producer.time.monotonic", lambda: clock[0])
    producer = Site(Path(), broker.address, topic).producer()

    def chunks(*, fails: bool) -> Iterator[Messages]:
        for first in range(0, 50, 10):
            yield messages(range(first, first + 10))
            if fails and first == 30:
                raise RuntimeError
            # More than a quarter of the transaction's timeout.
            clock[0] += 8.0

    with pytest.raises(RuntimeError):
        producer.send(0, "a", chunks(fails=True))
    assert 0 < seen(broker.address, topic).total() < 50
    producer.send(0, "a", chunks(fails=False))
    assert seen(broker.address, topic) == Counter(range(50))
    producer.close()


def test_a_topic_that_is_created_again_gets_the_batch(broker: Broker, topic: str) -> None:
    """Kafka deletes the marker with the topic, so the batch is sent again."""
    producer = Site(Path(), broker.address, topic).producer()
    producer.send(0, "a", [messages(range(10))])
    producer.close()
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    admin.delete_topics([topic])[topic].result(timeout=WAIT_SECONDS)
    # The broker deletes it in the background.
    wait_until(lambda: make_topic(broker.address, topic), "a new topic", passing=(KafkaException,))
    producer.send(0, "a", [messages(range(10))])
    producer.close()
    assert seen(broker.address, topic) == Counter(range(10))


def test_a_topic_that_does_not_exist_is_named(broker: Broker) -> None:
    """The error is immediate, and the broker does not create the topic."""
    producer = Site(Path(), broker.address, "no-such-topic").producer()
    with pytest.raises(KafkaUnavailable, match="no topic 'no-such-topic'"):
        producer.send(0, "a", [messages(range(10))])
    admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
    assert "no-such-topic" not in admin.list_topics(timeout=WAIT_SECONDS).topics


@pytest.mark.parametrize(("size", "most"), [(2_000_000, 10_000_000), (5_000, 1_000)])
def test_a_message_that_is_too_large_names_the_options(
    broker: Broker, size: int, most: int
) -> None:
    """The client or the broker rejects it, and nothing of the batch is visible."""
    config = {"max.message.bytes": str(most)}
    topic = make_topic(broker.address, f"size-{size}", **config)
    producer = Site(Path(), broker.address, topic).producer()
    large = replace_values(messages(range(3)), b"1" * size)
    with pytest.raises(KafkaUnavailable, match=r"max\.request\.size, and max\.message\.bytes"):
        producer.send(0, "a", [messages(range(10)), large])
    producer.close()
    producer.send(0, "b", [messages(range(10))])
    producer.close()
    assert seen(broker.address, topic) == Counter(range(10))


def replace_values(of: Messages, value: bytes) -> Messages:
    """Return messages with another value."""
    return of._replace(values=[value] * len(of.values))


def test_a_timeout_that_brokers_refuse_is_named(broker: Broker, topic: str) -> None:
    """A transaction timeout above the brokers' maximum is an error that names the setting."""
    settings = {"bootstrap.servers": broker.address, "transaction.timeout.ms": "1000000"}
    producer = TopicProducer(settings, "app", topic, timeout_seconds=30)
    with pytest.raises(KafkaUnavailable, match=r"transaction\.max\.timeout\.ms of the brokers"):
        producer.send(0, "a", [messages(range(10))])


def test_a_broker_that_does_not_respond_is_an_error_that_can_pass() -> None:
    """The error occurs after the request timeout, and has the reason of the connection failure."""
    site = Site(Path(), f"127.0.0.1:{reserved_port()}", "out")
    producer = TopicProducer(
        {"bootstrap.servers": site.address}, "app", "out", timeout_seconds=1
    )  # fmt: skip
    with pytest.raises(BrokersUnavailable, match=r"Connect to .* failed"):
        producer.send(0, "a", [messages(range(10))])


def test_the_marker_is_an_offset_of_the_producers_group(broker: Broker, topic: str) -> None:
    """The group has the name of the transactional id, and the metadata contains the batch."""
    producer = Site(Path(), broker.address, topic).producer()
    producer.send(7, "a", [messages(range(10))])
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "log_level": 0, "group.id": producer.name}
    )
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_SECONDS)
    consumer.close()
    producer.close()
    assert Marker.of(found.offset, found.metadata) == Marker(7, "a", 10)
