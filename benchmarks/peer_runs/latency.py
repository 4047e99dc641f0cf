"""Measure the time from produce until a read finds the record, at 1,000 records/s.

A thread produces records at an even pace. About ten times per second, at random moments, it
produces a *probe*, a record with its own key. Reads request the oldest probe that is not found
yet, in each store, so a probe counts as found when the last store has it. Probes do not wait for
each other, so the wait of a slow probe also counts for the next one.
"""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np
from confluent_kafka import Producer

from benchmarks.peer_runs.cases import KEYS, KINDS, PARTITIONS, STORE, topology
from benchmarks.peer_runs.figures import EVENT_LOG, ORIEL, PEER
from benchmarks.peer_runs.http_load import Connection
from benchmarks.peer_runs.kafka_streams_runs import Peer
from benchmarks.peer_runs.processes import ORIEL_COMMAND, Failed, running
from benchmarks.peer_runs.topics import make_topic
from oriel.demo import serving

RECORDS_PER_SECOND = 1_000
_TICKS_PER_SECOND = 50
_PROBES_A_TICK = 0.2
_PAUSE_SECONDS = 0.002
#: Until the first answer: two JVMs start, and the first batches are slow.
_FIRST_SECONDS = 120.0
_WARM_UP_SECONDS = 15.0

#: Five stores over one topic, one of each kind.
_FIVE = {name: kind for name, kind in KINDS.items() if not kind.dense}


class Case(NamedTuple):
    """Who is asked (a key of ``TITLES``), and how many stores there are to fill."""

    system: str
    stores: int


CASES = (Case(ORIEL, 1), Case(ORIEL, 5), Case(EVENT_LOG, 1), Case(EVENT_LOG, 5), Case(PEER, 1))


class Sink(Protocol):
    """Where records go."""

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Send a record of each key, all of one time, without delay."""


class TopicSink:
    """A Kafka topic."""

    def __init__(self, servers: str, topic: str) -> None:
        """Send to ``topic``, each record at once."""
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0})
        self._topic = topic

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Hand the records to the client, whose own thread sends them."""
        for place, key in enumerate(keys):
            self._producer.produce(
                self._topic, b'{"v":1.0}', key.encode(),
                partition=place % PARTITIONS, timestamp=time_ms,
            )  # fmt: skip
        self._producer.poll(0)


class LogSink:
    """A topic of an event log."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._paths = [folder / f"{partition}.jsonl" for partition in range(PARTITIONS)]

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Append each partition's lines in one write."""
        for partition, path in enumerate(self._paths):
            with path.open("a") as file:
                file.writelines(
                    f'{{"key":"{key}","value":{{"v":1.0}},"timestamp_ms":{time_ms}}}\n'
                    for key in keys[partition::PARTITIONS]
                )


class Probe(NamedTuple):
    """A record that is looked for, and when it was produced (``time.perf_counter``)."""

    key: str
    sent: float


@contextmanager
def producing(sink: Sink) -> Iterator["queue.Queue[Probe]"]:
    """Produce in the background; yield the probes in the order in which they were produced."""
    probes: queue.Queue[Probe] = queue.Queue()
    done = threading.Event()

    def produce() -> None:
        chance = Random(9)
        each = RECORDS_PER_SECOND // _TICKS_PER_SECOND
        began = time.perf_counter()
        tick = 0
        # The pace is that of the clock: what one tick was late, the next is early.
        while not done.wait(max(0.0, began + tick / _TICKS_PER_SECOND - time.perf_counter())):
            now_ms = int(time.time() * 1000)
            if chance.random() < _PROBES_A_TICK:
                probe = Probe(f"probe-{tick}", time.perf_counter())
                sink.send([probe.key], now_ms)
                probes.put(probe)
            sink.send([f"key-{(tick * each + n) % KEYS}" for n in range(each)], now_ms)
            tick += 1

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield probes
    finally:
        done.set()
        thread.join()


def found_after(
    probes: "queue.Queue[Probe]", address: tuple[str, int], paths: Sequence[str], seconds: float
) -> list[float]:
    """Return how many seconds each probe took that was produced in the measured time.

    That time begins some seconds after the first probe was found; ``paths`` are those that ask
    each store for a key.

    Raises:
        Failed: a probe was not found for long.
        OSError: the service does not answer.
    """
    connection = Connection(address)
    connection.socket.settimeout(_FIRST_SECONDS)
    first = probes.get(timeout=_FIRST_SECONDS)
    _await(connection, first, paths)
    begin = time.perf_counter() + _WARM_UP_SECONDS
    waited = []
    probe = first
    while probe.sent < begin + seconds:
        probe = probes.get(timeout=_FIRST_SECONDS)
        _await(connection, probe, paths)
        if begin <= probe.sent < begin + seconds:
            waited.append(time.perf_counter() - probe.sent)
    connection.socket.close()
    return waited


def _await(connection: Connection, probe: Probe, paths: Sequence[str]) -> None:
    for path in paths:
        request = f"GET {path}{probe.key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        end = time.perf_counter() + _FIRST_SECONDS
        while not _is_there(connection, request):
            if time.perf_counter() > end:
                message = f"{path}{probe.key} was not found in {_FIRST_SECONDS:g} s"
                raise Failed(message)
            time.sleep(_PAUSE_SECONDS)


def _is_there(connection: Connection, request: bytes) -> bool:
    connection.send(request)
    while (answer := connection.receive()) is None:
        pass
    return answer[1]


def measure(case: Case, peer: Peer, servers: str, folder: Path, seconds: float) -> dict[str, Any]:
    """Measure one case with fresh processes and a topic of its own."""
    topic = f"latency-{case.system}-{case.stores}"
    folder = folder / topic
    folder.mkdir()
    sink: Sink
    if case.system == EVENT_LOG:
        log = folder / "log"
        sink, source = LogSink(log / topic), ["--event-log", str(log)]
    else:
        make_topic(servers, topic)
        sink, source = TopicSink(servers, topic), ["--kafka", servers]
    with _serving(case, topic, source, peer, folder) as (address, paths), producing(sink) as probes:
        waited = found_after(probes, address, paths, seconds)
    p50, p99 = (float(ms) for ms in np.percentile(waited, [50, 99]) * 1000)
    return {
        **case._asdict(),
        "probes": len(waited),
        "p50_ms": round(p50, 1),
        "p99_ms": round(p99, 1),
        "longest_ms": round(max(waited) * 1000, 1),
    }


@contextmanager
def _serving(
    case: Case, topic: str, source: Sequence[str], peer: Peer, folder: Path
) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """Run the system over ``topic``; yield where its service is, and each store's path of reads."""
    if case.system == PEER:
        with peer.serving(KINDS["sliding"], topic) as address:
            yield address, ["/"]
        return
    stores = _FIVE if case.stores > 1 else {STORE: KINDS["sliding"]}
    file, data = folder / "latency.py", folder / "data"
    file.write_text(topology(stores, topic))
    data.mkdir()
    command = [*ORIEL_COMMAND, "run", str(file), *source, "--data", str(data)]
    with running("oriel run", command, folder / "run.log"), serving(data) as client:
        address = (client.base_url.host, client.base_url.port or 80)
        yield address, [f"/v1/stores/{store}/latest/" for store in stores]
