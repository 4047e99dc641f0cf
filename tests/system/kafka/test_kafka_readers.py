"""Both readers of Kafka have equal tables, dead letters and counters as their result."""

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from tests.e2e.kafka_broker import Broker
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import WAIT_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.kafka]

TOPOLOGY = """
from oriel import Consumed, SessionWindows, StreamsBuilder, TimeWindows, count, collect_list, sum

builder = StreamsBuilder()
headers = Consumed(headers={{"h": "trace"}})
of_headers = builder.stream({topics[0]!r}, "v INT", headers).group_by_key()
(
    of_headers.windowed_by(TimeWindows.of_size_and_grace(10, 20))
    .aggregate(n=count(), v=sum("v"), h=collect_list("trace"))
    .materialize("grid")
)
plain = builder.stream({topics[1]!r}, "v INT").filter("v <> 3").group_by_key()
(
    plain.windowed_by(SessionWindows.of_inactivity_gap_and_grace(5, 20))
    .aggregate(v=collect_list("v"))
    .materialize("sessions")
)
topology = builder.build()
"""

_PARTITIONS = 3
_VALUES = [b'{"v": 1}', b'{"v": 3}', b'{"v": 70000}', b"rubbish", b'{"v": "x"}', b"\xff", b"", None]
_KEYS = [b"a", b"b", b"\xc3\xa9", b"", b"\xff", None]
_HEADERS: list[list[tuple[str, str | bytes | None]] | None] = [
    None,
    [],
    [("h", b"1")],
    [("h", b"1"), ("h", b"2")],
    [("h", None)],
    [("g", b"\xff")],
]


class _Topics:
    """Random records in two topics."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.names = [f"readers-{seed}-headers", f"readers-{seed}-plain"]
        self._choose = random.Random(seed)
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        new = [NewTopic(name, _PARTITIONS, 1) for name in self.names]
        for future in admin.create_topics(new).values():
            future.result(timeout=WAIT_SECONDS)
        client = {"bootstrap.servers": broker.address, "log_level": 0}
        self._plain = Producer(client)
        self._transactional = Producer({**client, "transactional.id": f"readers-{seed}"})
        self._transactional.init_transactions(30)
        self._time_ms = 0

    def fill(self) -> None:
        """Write records in committed transactions, in aborted ones, and outside of transactions."""
        for _ in range(25):
            kind = self._choose.randrange(3)
            producer = self._transactional if kind else self._plain
            if kind:
                producer.begin_transaction()
            for _ in range(self._choose.randint(1, 12)):
                self._produce(producer)
            producer.flush()
            if kind == 1:
                producer.commit_transaction(30)
            elif kind == 2:
                producer.abort_transaction(30)

    def _produce(self, producer: Producer) -> None:
        choose = self._choose
        self._time_ms += choose.randint(0, 3)
        producer.produce(
            choose.choice(self.names),
            choose.choice([*_VALUES, *[_VALUES[0]] * 12]),
            choose.choice([*_KEYS, *[_KEYS[0]] * 6]),
            choose.randrange(_PARTITIONS),
            timestamp=max(1, self._time_ms - choose.choice([0, 0, 0, 15, 40])),
            headers=choose.choice(_HEADERS),
        )


def _content(data: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the newest rows of each table, and the dead letters, without machine times."""
    found = {}
    for directory in sorted((data / "tables").iterdir()):
        order = "offset" if directory.name.startswith("_") else "revision"
        rows = DeltaTable(directory).to_pyarrow_table().sort_by(order).to_pylist()
        if directory.name.startswith("_"):
            keep = ("topic", "partition", "offset", "reason", "key", "raw", "headers")
            found[directory.name] = sorted(
                ({name: row.get(name) for name in keep} for row in rows), key=repr
            )
            continue
        newest = {}
        for row in rows:
            identity = (row["key"], row.get("window_start"), row.get("window_end"))
            newest[identity] = {
                name: value
                for name, value in row.items()
                if name not in {"revision", "batch", "committed_at"}
            }
        found[directory.name] = sorted(
            (row for row in newest.values() if not row.get("deleted")), key=repr
        )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_both_readers_have_equal_results(
    tmp_path: Path, broker: Broker, kafka_runs: Runs, seed: int
) -> None:
    """The topics have transactions, headers, null values, invalid records and random batches."""
    topics = _Topics(broker, seed)
    (tmp_path / "topology.py").write_text(TOPOLOGY.format(topics=topics.names))
    choose = random.Random(seed)
    for _ in range(2):
        topics.fill()
        counters, contents = {}, {}
        for reader in ("client", "spark"):
            data = tmp_path / reader
            ended = kafka_runs.run(
                str(tmp_path / "topology.py"), "--data", str(data), "--kafka", broker.address,
                "--once", "--kafka-reader", reader, "--max-batch-records",
                str(choose.randint(5, 60)),
            )  # fmt: skip
            assert ended.code == 0, ended.errors
            counters[reader] = {
                store: {name: n for name, n in of_store.items() if name != "changed_windows"}
                for store, of_store in ended.summary["stores"].items()
            }
            contents[reader] = _content(data)
        assert counters["client"] == counters["spark"]
        assert contents["client"] == contents["spark"]
        assert counters["client"]["grid"]["dead_lettered"] > 0
        assert contents["client"]["_dead_letters"]
