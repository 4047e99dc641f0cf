"""Produce records at an even pace in a process of its own, with *probes* among them.

About ten times per second, at random moments, a record has a key of its own: a probe, which the
benchmark looks for. The pace includes the probes. At ten records per second, all are probes. At a
higher pace, there are more keys, so that a key has at most one record per second.
"""

import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple, Protocol

from confluent_kafka import Producer

from benchmarks.peer_runs.cases import KEYS, PARTITIONS
from benchmarks.peer_runs.processes import Failed

_TICKS_PER_SECOND = 50
_PROBES_A_TICK = 0.2
_PROBES_PER_SECOND = _TICKS_PER_SECOND * _PROBES_A_TICK
_STOP_SECONDS = 30.0


class Probe(NamedTuple):
    """A record that is looked for, and when it was produced (``time.perf_counter``).

    This time is the same in all processes of a machine.
    """

    key: str
    sent: float


class Sink(Protocol):
    """A destination of records."""

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Send a record of each key, all of one time, without delay."""


class Stop(Protocol):
    """An event of threads or of processes."""

    def wait(self, timeout: float | None = None) -> bool:
        """Return True once the producer must stop."""


class Probes(Protocol):
    """A queue of threads or of processes."""

    def put(self, obj: Probe) -> None:
        """Add a probe that was produced."""

    def get(self, *, timeout: float | None = None) -> Probe:
        """Return the next probe, or raise ``queue.Empty`` after the seconds of ``timeout``."""


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

    def __init__(self, directory: Path) -> None:
        """Append to the topic's files, which are created if they don't exist."""
        directory.mkdir(parents=True, exist_ok=True)
        self._paths = [directory / f"{partition}.jsonl" for partition in range(PARTITIONS)]
        for path in self._paths:
            path.touch()

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Append each partition's lines in one write."""
        for partition, path in enumerate(self._paths):
            with path.open("a") as file:
                file.writelines(
                    f'{{"key":"{key}","value":{{"v":1.0}},"timestamp_ms":{time_ms}}}\n'
                    for key in keys[partition::PARTITIONS]
                )


def produce(sink: Sink, records_per_second: float, probes: Probes, stop: Stop) -> None:
    """Send records at an even pace until ``stop``, and put each probe into ``probes``."""
    chance = Random(9)
    others_per_tick = max(0.0, records_per_second - _PROBES_PER_SECOND) / _TICKS_PER_SECOND
    keys = max(KEYS, int(records_per_second))
    began = time.perf_counter()
    tick = sent = 0
    # If one tick is late, the next waits less, so the mean pace is right.
    while not stop.wait(max(0.0, began + tick / _TICKS_PER_SECOND - time.perf_counter())):
        now_ms = int(time.time() * 1000)
        if chance.random() < _PROBES_A_TICK:
            probe = Probe(f"probe-{tick}", time.perf_counter())
            sink.send([probe.key], now_ms)
            probes.put(probe)
        tick += 1
        due = int(tick * others_per_tick)
        if due > sent:
            sink.send([f"key-{number % keys}" for number in range(sent, due)], now_ms)
            sent = due


class Producing:
    """The running producer."""

    def __init__(self, probes: Probes, pid: int) -> None:
        """Read from ``probes``. ``pid`` is the process of the producer."""
        self._probes = probes
        self.pid = pid

    def next_probe(self, seconds: float) -> Probe:
        """Return the next probe in the order in which they were produced.

        Raises:
            Failed: none was produced for that long.
        """
        try:
            return self._probes.get(timeout=seconds)
        except queue.Empty as error:
            message = f"the producer sent nothing for {seconds:g} s"
            raise Failed(message) from error


@contextmanager
def producing(make_sink: Callable[[], Sink], records_per_second: float) -> Iterator[Producing]:
    """Produce during the block. ``make_sink`` is called in the process of the producer."""
    # librdkafka's threads don't survive a fork.
    context = multiprocessing.get_context("spawn")
    probes: multiprocessing.Queue[Probe] = context.Queue()
    stop = context.Event()
    process = context.Process(
        target=_produce_into, args=(make_sink, records_per_second, probes, stop), daemon=True
    )
    process.start()
    assert process.pid is not None
    try:
        yield Producing(probes, process.pid)
    finally:
        stop.set()
        process.join(_STOP_SECONDS)
        process.kill()
        process.join()


def _produce_into(
    make_sink: Callable[[], Sink],
    records_per_second: float,
    probes: "multiprocessing.Queue[Probe]",
    stop: Stop,
) -> None:
    produce(make_sink(), records_per_second, probes, stop)
    # At the end, nobody reads the last probes.
    probes.cancel_join_thread()
