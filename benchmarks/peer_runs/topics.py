"""Write the records of a data set once for all runs, as a topic and as an event log."""

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.peer_runs.cases import BLOCK, KEYS, PARTITIONS, DataSet
from benchmarks.peer_runs.processes import Failed

_SECONDS = 60
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_MOST_QUEUED = 500_000
#: Otherwise, the client logs to stderr which messages it discards when it is closed.
_QUIET = {"log_level": 0}

_LINE = '{{"key":"key-{}","value":{{"v":{}}},"timestamp_ms":{}}}\n'


def make_topic(servers: str, topic: str) -> None:
    """Create an empty topic with two partitions."""
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(timeout=_SECONDS)


def produce(servers: str, data: DataSet) -> None:
    """Create the topic of ``data`` and send all of its records. A key has one partition.

    Raises:
        Failed: The broker does not have all records.
    """
    make_topic(servers, data.topic)
    settings = {
        "queue.buffering.max.messages": _MOST_QUEUED + BLOCK,
        "queue.buffering.max.kbytes": 2_000_000,
        "linger.ms": 50,
        # Keeps the order after a retry.
        "enable.idempotence": True,
    }
    producer = Producer({"bootstrap.servers": servers, **settings, **_QUIET})
    keys = [b"key-%d" % key for key in range(KEYS)]
    for block in data.blocks():
        while len(producer) > _MOST_QUEUED:
            producer.poll(0.01)
        for key, time_ms, value in zip(*(column.tolist() for column in block), strict=True):
            producer.produce(
                data.topic, b'{"v":%r}' % value, keys[key],
                partition=key % PARTITIONS, timestamp=time_ms,
            )  # fmt: skip
    producer.flush()
    if (found := _records(servers, data.topic)) != data.records:
        message = f"topic {data.topic} has {found:,} records, not {data.records:,}"
        raise Failed(message)


def _records(servers: str, topic: str) -> int:
    """Return the number of records of a topic that was written once."""
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    ends = {TopicPartition(topic, partition): _LATEST for partition in range(PARTITIONS)}
    found = admin.list_offsets(ends).values()
    return sum(future.result(timeout=_SECONDS).offset for future in found)


def write_log(root: Path, data: DataSet) -> None:
    """Write the same records as an event log below ``root``."""
    directory = root / data.topic
    directory.mkdir(parents=True)
    paths = [directory / f"{partition}.jsonl" for partition in range(PARTITIONS)]
    for block in data.blocks():
        for partition, path in enumerate(paths):
            taken = block.keys % PARTITIONS == partition
            columns = (column[taken].tolist() for column in (block.keys, block.values))
            times_ms = block.times_ms[taken].tolist()
            with path.open("a") as file:
                file.writelines(map(_LINE.format, *columns, times_ms))


def delete_topics(servers: str, prefix: str) -> None:
    """Delete the topics that begin with ``prefix``, for example the changelogs of a run."""
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    names: Sequence[str] = [n for n in admin.list_topics(timeout=10).topics if n.startswith(prefix)]
    if names:
        for future in admin.delete_topics(list(names)).values():
            future.result(timeout=_SECONDS)
