"""Write the records of a data set once for all runs, as a topic and as an event log."""

from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.peer_runs.cases import PARTITIONS, DataSet

_SECONDS = 60
#: The client tells on stderr of what it throws away when it is closed.
_QUIET = {"log_level": 0}

_LINE = '{{"key":"key-{}","value":{{"v":{}}},"timestamp_ms":{}}}\n'


def make_topic(servers: str, topic: str) -> None:
    """Make an empty topic of two partitions."""
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(timeout=_SECONDS)


def produce(servers: str, data: DataSet) -> None:
    """Make the topic of ``data`` and send all of its records, a key always to one partition."""
    make_topic(servers, data.topic)
    settings = {"queue.buffering.max.messages": 2_000_000, "linger.ms": 50}
    producer = Producer({"bootstrap.servers": servers, **settings, **_QUIET})
    for block in data.blocks():
        for key, time_ms, value in zip(*(column.tolist() for column in block), strict=True):
            producer.produce(
                data.topic, b'{"v":%r}' % value, b"key-%d" % key,
                partition=key % PARTITIONS, timestamp=time_ms,
            )  # fmt: skip
        producer.flush()


def write_log(root: Path, data: DataSet) -> int:
    """Write the same records as an event log below ``root``; return how many bytes it has."""
    folder = root / data.topic
    folder.mkdir(parents=True)
    paths = [folder / f"{partition}.jsonl" for partition in range(PARTITIONS)]
    for block in data.blocks():
        for partition, path in enumerate(paths):
            taken = block.keys % PARTITIONS == partition
            columns = (column[taken].tolist() for column in (block.keys, block.values))
            times_ms = block.times_ms[taken].tolist()
            with path.open("a") as file:
                file.writelines(map(_LINE.format, *columns, times_ms))
    return sum(path.stat().st_size for path in paths)


def delete_topics(servers: str, prefix: str) -> None:
    """Delete the topics that begin with ``prefix``: changelogs of a run that has ended."""
    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    names: Sequence[str] = [n for n in admin.list_topics(timeout=10).topics if n.startswith(prefix)]
    if names:
        for future in admin.delete_topics(list(names)).values():
            future.result(timeout=_SECONDS)
