"""Measure the time from produce until a read finds the record.

Reads request the oldest probe that is not found yet, in each store. A probe counts as found when
the last store has it. Probes do not wait for each other, so the wait of a slow probe also counts
for the next one.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.peer_runs.cases import EVENT_LOG, KINDS, PEER, STORE, Kind, topology
from benchmarks.peer_runs.http_load import Connection
from benchmarks.peer_runs.kafka_streams_runs import Peer
from benchmarks.peer_runs.plan import LatencyCase, Run
from benchmarks.peer_runs.processes import ORIEL_COMMAND, Failed, running, say
from benchmarks.peer_runs.processor import Snapshot, snapshot
from benchmarks.peer_runs.producing import LogSink, Probe, Producing, Sink, TopicSink, producing
from benchmarks.peer_runs.topics import delete_topics, make_topic
from oriel.demo import serving

_PAUSE_SECONDS = 0.002
#: Until the first response: two JVMs start, and the first batches are slow.
_FIRST_SECONDS = 120.0
_WARM_UP_SECONDS = 15.0
#: If a later probe is not found for so long, the system does not keep up with the producer.
_FIND_SECONDS = 30.0

#: Five stores over one topic, one of each kind.
_FIVE = {name: kind for name, kind in KINDS.items() if not kind.dense}


class NotKeepingUpError(Failed):
    """A store does not have a probe in time."""


class Waits(NamedTuple):
    """The seconds until each probe was found, and the processor time before and after.

    ``kept_up``: False if the benchmark stopped because a probe was not found.
    """

    seconds: list[float]
    kept_up: bool
    before: Snapshot
    after: Snapshot
    producer: int


class Reader:
    """Reads each probe from each store, over one connection."""

    def __init__(self, address: tuple[str, int], paths: Sequence[str]) -> None:
        """Connect. A path and a key are the address of a key in a store."""
        self._connection = Connection(address)
        self._connection.socket.settimeout(_FIRST_SECONDS)
        self._paths = paths

    def close(self) -> None:
        """Close the connection."""
        self._connection.socket.close()

    def find(self, probe: Probe, within_seconds: float) -> None:
        """Wait until all stores have the probe.

        Raises:
            NotKeepingUpError: a store does not have it that many seconds after it was produced.
            OSError: the service does not respond.
        """
        for path in self._paths:
            request = f"GET {path}{probe.key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
            while not self._succeeds(request):
                if time.perf_counter() > probe.sent + within_seconds:
                    message = f"{path}{probe.key} was not found in {within_seconds:g} s"
                    raise NotKeepingUpError(message)
                time.sleep(_PAUSE_SECONDS)

    def _succeeds(self, request: bytes) -> bool:
        self._connection.send(request)
        while (response := self._connection.receive()) is None:
            pass
        return response[1]


def found_after(producer: Producing, reader: Reader, seconds: float) -> Waits:
    """Return the waits of the probes that were produced in the measured time.

    That time begins some seconds after the first probe was found.
    """
    probe = producer.next_probe(_FIRST_SECONDS)
    reader.find(probe, _FIRST_SECONDS)
    warm = time.perf_counter() + _WARM_UP_SECONDS
    before = snapshot()
    waits: list[float] = []
    try:
        while probe.sent < warm:
            probe = producer.next_probe(_FIRST_SECONDS)
            reader.find(probe, _FIND_SECONDS)
        before = snapshot()
        while probe.sent < before.at + seconds:
            probe = producer.next_probe(_FIRST_SECONDS)
            reader.find(probe, _FIND_SECONDS)
            if before.at <= probe.sent < before.at + seconds:
                waits.append(time.perf_counter() - probe.sent)
        kept_up = True
    except NotKeepingUpError as error:
        say(str(error))
        kept_up = False
    return Waits(waits, kept_up, before, snapshot(), producer.pid)


def measure(run: Run, peer: Peer, servers: str, directory: Path, seconds: float) -> Waits:
    """Measure a run of a ``LatencyCase`` with new processes and a topic of its own."""
    case, system = run.case, run.system
    assert isinstance(case, LatencyCase)
    topic = f"latency-{system}-{case.records_per_second}-{case.stores}-{run.repeat}"
    directory = directory / topic
    directory.mkdir()
    make_sink: Callable[[], Sink]
    if system == EVENT_LOG:
        log = directory / "log"
        # The pipeline starts before the producer's process, and needs the topic.
        LogSink(log / topic)
        make_sink, source = partial(LogSink, log / topic), ["--event-log", str(log)]
    else:
        make_topic(servers, topic)
        make_sink, source = partial(TopicSink, servers, topic), ["--kafka", servers]
    stores = _FIVE if case.stores > 1 else {STORE: KINDS["sliding"]}
    with (
        _serving(system, topic, stores, peer, source, directory) as (address, paths),
        producing(make_sink, case.records_per_second) as producer,
    ):
        reader = Reader(address, paths)
        try:
            waits = found_after(producer, reader, seconds)
        finally:
            reader.close()
    delete_topics(servers, topic)
    shutil.rmtree(directory)
    return waits


def latency_figures(waits: Waits) -> dict[str, Any]:
    """Return percentiles of the waits in milliseconds, as JSON. None if it did not keep up."""
    p50, p99, longest = (
        [round(float(ms), 1) for ms in np.percentile(waits.seconds, [50, 99, 100]) * 1000]
        if waits.kept_up
        else [None] * 3
    )
    return {
        "probes": len(waits.seconds),
        "kept_up": waits.kept_up,
        "p50_ms": p50,
        "p99_ms": p99,
        "longest_ms": longest,
    }


@contextmanager
def _serving(
    system: str,
    topic: str,
    stores: dict[str, Kind],
    peer: Peer,
    source: Sequence[str],
    directory: Path,
) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """Run the system over ``topic``, and yield the address and the path of each store."""
    if system == PEER:
        with peer.serving(KINDS["sliding"], topic) as address:
            yield address, ["/"]
        return
    file, data = directory / "latency.py", directory / "data"
    file.write_text(topology(stores, topic))
    data.mkdir()
    command = [*ORIEL_COMMAND, "run", str(file), *source, "--data", str(data)]
    with running("oriel run", command, directory / "run.log"), serving(data) as client:
        address = (client.base_url.host, client.base_url.port or 80)
        yield address, [f"/v1/stores/{store}/latest/" for store in stores]
