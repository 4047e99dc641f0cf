"""Slices of a real broker's partitions, read with librdkafka."""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oriel.pipeline.errors import KafkaUnavailable, RecordsLost
from oriel.pipeline.kafka_slices import KafkaSlice
from oriel.pipeline.sources.client_settings import client_settings
from oriel.pipeline.sources.kafka_client import reading
from oriel.pipeline.sources.kafka_client.reading import SliceReader
from tests.e2e.kafka_broker import Broker
from tests.ports import reserved_port
from tests.storage.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

_PARTITIONS = 3


class Log:
    """A topic of three partitions with transactions."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self.topic = topic
        self.admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        made = self.admin.create_topics([NewTopic(topic, _PARTITIONS, 1)])[topic]
        made.result(timeout=WAIT_SECONDS)
        self.settings = client_settings(broker.address, {"isolation.level": "read_committed"})
        self._plain = Producer({"bootstrap.servers": broker.address, "log_level": 0})
        self._transactional = Producer({
            "bootstrap.servers": broker.address, "log_level": 0, "transactional.id": topic,
        })  # fmt: skip
        self._transactional.init_transactions(30)

    def send(self, count: int, partition: int = 0) -> None:
        """Write records without a transaction."""
        for _ in range(count):
            self._plain.produce(self.topic, b"v", b"k", partition, timestamp=1)
        self._plain.flush()

    def transaction(self, count: int, partition: int = 0, *, commit: bool) -> None:
        """Write records in a transaction. Its marker uses one offset, some time later."""
        self._transactional.begin_transaction()
        for _ in range(count):
            self._transactional.produce(self.topic, b"v", b"k", partition, timestamp=1)
        self._transactional.flush()
        if commit:
            self._transactional.commit_transaction(30)
        else:
            self._transactional.abort_transaction(30)

    def end(self, partition: int = 0) -> int:
        """Return the last stable offset when no transaction is open."""
        consumer = Consumer(self._of_consumer)
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(self.topic, partition))[1])
        finally:
            consumer.close()

    def committed(self, partition: int = 0) -> list[int]:
        """Return the offsets that a plain consumer finds."""
        consumer = Consumer(self._of_consumer)
        consumer.assign([TopicPartition(self.topic, partition, 0)])
        found = []
        while (message := consumer.poll(WAIT_SECONDS)) is not None and not message.error():
            found.append(message.offset() or 0)
        consumer.close()
        return found

    @property
    def _of_consumer(self) -> dict[str, str | int | bool]:
        return {**self.settings, "group.id": "tests", "enable.partition.eof": True, "log_level": 0}

    def slice(self, start: int, end: int, partition: int = 0) -> KafkaSlice:
        """Return the slice between two offsets."""
        return KafkaSlice(self.topic, partition, start, end)


@pytest.fixture
def log(broker: Broker, request: pytest.FixtureRequest) -> Log:
    """Return an empty topic of the test."""
    return Log(broker, f"slices-{request.node.name.strip(']').replace('[', '-')}")


@pytest.fixture(params=[False, True])
def reader(log: Log, request: pytest.FixtureRequest) -> Iterator[SliceReader]:
    """Yield a reader without assigned partitions, as of a task and as of the driver."""
    made = SliceReader(log.settings, keeps_partitions=request.param)
    yield made
    made.close()


def _offsets(reader: SliceReader, *wanted: KafkaSlice) -> dict[int, list[int]]:
    """Return the offsets that a reader finds in each partition."""
    found: dict[int, list[int]] = {part.partition: [] for part in wanted}
    for _, batch in reader.read(wanted):
        (partition,) = set(batch["partition"].to_pylist())
        found[partition] += batch["offset"].to_pylist()
    return found


@pytest.mark.parametrize("seed", range(5))
def test_any_cut_into_slices_returns_each_committed_record_once(
    log: Log, reader: SliceReader, seed: int
) -> None:
    """Aborted transactions and markers are gaps, also at the start and the end of a slice."""
    choose = random.Random(seed)
    for _ in range(30):
        count, partition = choose.randint(1, 6), choose.randrange(_PARTITIONS)
        match choose.randrange(_PARTITIONS):
            case 0:
                log.send(count, partition)
            case kind:
                log.transaction(count, partition, commit=kind == 1)
    pieces = {}
    for partition in range(_PARTITIONS):
        end = log.end(partition)
        cuts = sorted({0, end, *(choose.randint(0, end) for _ in range(8))})
        pieces[partition] = list(pairwise(cuts))
    expected = {partition: log.committed(partition) for partition in pieces}
    found: dict[int, list[int]] = {partition: [] for partition in pieces}
    while any(pieces.values()):
        wanted = [
            log.slice(*of_partition.pop(0), partition)
            for partition, of_partition in pieces.items()
            if of_partition and choose.random() < 0.7
        ]
        for partition, offsets in _offsets(reader, *wanted).items():
            found[partition] += offsets
    assert found == expected


def test_a_slice_can_be_read_again_and_out_of_order(log: Log, reader: SliceReader) -> None:
    """A repeated batch has the same records, whatever was read between."""
    log.send(20)
    log.transaction(5, commit=False)
    log.send(1)
    committed = log.committed()
    for start, end in ((0, 20), (5, 9), (5, 9), (20, 27), (0, 27), (9, 12), (25, 27)):
        expected = [offset for offset in committed if start <= offset < end]
        assert _offsets(reader, log.slice(start, end)) == {0: expected}


def test_a_read_that_is_not_finished_loses_nothing(log: Log, reader: SliceReader) -> None:
    """After an error of the caller, the next read begins at its own start."""
    for partition in range(_PARTITIONS):
        log.send(10, partition)
    first = reader.read([log.slice(0, 5, partition) for partition in range(_PARTITIONS)])
    next(first)
    first.close()
    rest = [log.slice(5, 10, partition) for partition in range(_PARTITIONS)]
    assert _offsets(reader, *rest) == {
        partition: [5, 6, 7, 8, 9] for partition in range(_PARTITIONS)
    }


def test_records_arrive_while_a_partition_is_assigned(log: Log, reader: SliceReader) -> None:
    """A slice that continues its partition also has records that are newer than the last read."""
    start = 0
    for round_ in range(5):
        log.send(1)
        log.transaction(1, commit=bool(round_ % 2))
        end = log.end()
        expected = [offset for offset in log.committed() if start <= offset < end]
        assert _offsets(reader, log.slice(start, end)) == {0: expected}
        start = end


class _Noting:
    """A consumer that counts assignments. ``before_second`` is called before its second poll."""

    def __init__(
        self,
        consumer: Consumer,
        before_second: Callable[[], None] = lambda: None,
        first: Message | None = None,
    ) -> None:
        """Wrap a consumer. If ``first`` is set, the first poll returns it."""
        self._consumer = consumer
        self._before_second = before_second
        self._first = first
        self._polls = 0
        self.assignments = 0

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        """Count the assignment and forward it."""
        self.assignments += 1
        self._consumer.incremental_assign(places)

    def poll(self, seconds: float) -> Message | None:
        """Return the next message."""
        self._polls += 1
        if self._polls == 1 and self._first is not None:
            return self._first
        if self._polls == 2:
            self._before_second()
        return self._consumer.poll(seconds)

    def __getattr__(self, name: str) -> object:
        return getattr(self._consumer, name)


@pytest.mark.parametrize(("most_ahead", "assignments"), [(1_000, 1), (4, 2)])
def test_a_partition_stays_assigned_unless_it_is_far_ahead(
    log: Log, monkeypatch: pytest.MonkeyPatch, most_ahead: int, assignments: int
) -> None:
    """A partition stays assigned, as a new assignment costs more than dropping few records."""
    monkeypatch.setattr(reading, "_MAX_RECORDS_AHEAD", most_ahead)
    reader = SliceReader(log.settings, keeps_partitions=True)
    log.send(15, 0)
    noting = _Noting(reader._consumer, lambda: log.send(5, 1))
    vars(reader)["_consumer"] = noting
    # The first fetch finds ten records, all of the first partition.
    both = [log.slice(0, 5, 0), log.slice(0, 5, 1)]
    assert _offsets(reader, *both) == {0: [*range(5)], 1: [*range(5)]}
    assert _offsets(reader, log.slice(5, 15, 0)) == {0: [*range(5, 15)]}
    log.send(5, 1)
    # A partition that a read does not need keeps its records.
    assert _offsets(reader, log.slice(5, 10, 1)) == {1: [*range(5, 10)]}
    assert noting.assignments == assignments
    reader.close()


def test_an_error_of_a_partition_that_is_not_needed_does_not_end_a_read(log: Log) -> None:
    """The partition has lost its records. The read that needs them reports it."""
    reader = SliceReader(log.settings, keeps_partitions=True)
    log.send(5, 0)
    log.send(5, 1)
    assert _offsets(reader, log.slice(0, 5, 0), log.slice(0, 5, 1)) == {
        0: [*range(5)], 1: [*range(5)],
    }  # fmt: skip
    out_of_range = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    lost = Message(topic=log.topic, partition=1, offset=5, error=out_of_range)
    vars(reader)["_consumer"] = _Noting(reader._consumer, first=lost)
    log.send(5, 0)
    assert _offsets(reader, log.slice(5, 10, 0)) == {0: [*range(5, 10)]}
    assert list(reader._positions) == [(log.topic, 0)]
    reader.close()


def test_deleted_records_are_an_error_unless_they_are_skipped(
    log: Log, reader: SliceReader
) -> None:
    """With ``skips_lost``, a slice has the records that exist."""
    log.send(10)
    place = TopicPartition(log.topic, 0, 6)
    for future in log.admin.delete_records([place]).values():
        future.result(timeout=WAIT_SECONDS)
    with pytest.raises(RecordsLost, match="Kafka deleted records before they were read"):
        _offsets(reader, log.slice(0, 8))
    skipping = SliceReader(log.settings, skips_lost=True)
    assert _offsets(skipping, log.slice(0, 8)) == {0: [6, 7]}
    assert _offsets(skipping, log.slice(2, 5)) == {0: []}
    skipping.close()


def test_a_broker_that_ends_before_deleted_records_are_skipped_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run checks the brokers after this error, and continues when they respond."""
    monkeypatch.setattr(reading, "_RESPONSE_TIMEOUT_SECONDS", 0.2)
    settings = client_settings(f"127.0.0.1:{reserved_port()}", {})
    reader = SliceReader(settings, skips_lost=True)
    out_of_range = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE)
    lost = Message(topic="t", partition=0, offset=0, error=out_of_range)
    vars(reader)["_consumer"] = _Noting(reader._consumer, first=lost)
    with pytest.raises(KafkaUnavailable, match="topic 't', partition 0, cannot be read"):
        _offsets(reader, KafkaSlice("t", 0, 0, 1))
    reader.close()


def test_columns_have_all_parts_of_a_message(broker: Broker, log: Log, reader: SliceReader) -> None:
    """Null and empty keys and values differ, headers repeat, and their values can be null."""
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    headers: list[tuple[str, str | bytes | None]]
    headers = [("a", b"1"), ("a", b"\xff"), ("b", None), ("c", b"")]
    for key, value, of_message in (
        (None, b"", None),
        (b"", None, headers),
        (b"k\x00", b"\xff", []),
    ):
        producer.produce(log.topic, value, key, 0, timestamp=1_700_000_000_123, headers=of_message)
    producer.flush()
    (batch,) = [each for _, each in reader.read([log.slice(0, 3)], {log.topic: True})]
    assert batch["key"].to_pylist() == [None, b"", b"k\x00"]
    assert batch["raw"].to_pylist() == [b"", None, b"\xff"]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [1_700_000_000_123_000] * 3
    named = [{"key": key, "value": value} for key, value in headers]
    assert batch["headers"].to_pylist() == [None, named, None]
