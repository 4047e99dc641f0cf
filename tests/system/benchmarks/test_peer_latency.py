"""The latency part of `oriel bench peer`, with a service inside the test."""

import os
import queue
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from benchmarks.peer_runs import latency
from benchmarks.peer_runs.http_load import Connection
from benchmarks.peer_runs.latency import (
    NotKeepingUpError,
    Reader,
    Waits,
    found_after,
    latency_figures,
)
from benchmarks.peer_runs.processes import Failed
from benchmarks.peer_runs.processor import snapshot
from benchmarks.peer_runs.producing import LogSink, Probe, Producing, produce, producing


class Visible:
    """A sink whose records are visible immediately in all stores, except those in ``lagging``."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.lagging: set[str] = set()

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Keep the keys."""
        assert time_ms > 0
        self.keys.extend(keys)


@pytest.fixture(name="sink")
def sink_fixture(monkeypatch: pytest.MonkeyPatch) -> Visible:
    """Return a sink, and disable the warm-up."""
    monkeypatch.setattr(latency, "_WARM_UP_SECONDS", 0.0)
    return Visible()


@pytest.fixture(name="address")
def address_fixture(sink: Visible) -> Iterator[tuple[str, int]]:
    """Yield the address of a service that returns the sink's keys."""

    class Responses(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, store, key = self.path.split("/")
            found = key in sink.keys and store not in sink.lagging
            self.send_response(200 if found else 404)
            # Kafka Streams' service also capitalizes this header.
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Responses) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        host, port = server.server_address[:2]
        yield str(host), port
        server.shutdown()
        thread.join()


@contextmanager
def _producing(sink: Visible, records_per_second: float) -> Iterator[Producing]:
    """Produce in a thread, because the test's service has the records of this process."""
    probes: queue.Queue[Probe] = queue.Queue()
    stop = threading.Event()
    thread = threading.Thread(target=produce, args=(sink, records_per_second, probes, stop))
    thread.start()
    yield Producing(probes, os.getpid())
    stop.set()
    thread.join()


def test_probes_are_found_among_the_records(sink: Visible, address: tuple[str, int]) -> None:
    """Each probe of the measured time has a wait, while the other records continue."""
    with _producing(sink, 1_000) as producer:
        reader = Reader(address, ["/a/", "/b/"])
        waits = found_after(producer, reader, seconds=2)
        reader.close()
    produced = [key for key in sink.keys if key.startswith("probe-")]
    assert 0 < len(waits.seconds) < len(produced)
    assert min(waits.seconds) > 0
    assert waits.after.at - waits.before.at >= 2
    others = [key for key in sink.keys if key.startswith("key-")]
    assert others[:3] == ["key-0", "key-1", "key-2"]
    assert len(others) >= 20 * len(produced)


class Ticks:
    """A stop event that is set after some ticks, without any wait."""

    def __init__(self, ticks: int) -> None:
        self._left = ticks

    def wait(self, timeout: float | None = None) -> bool:
        """Count a tick."""
        assert timeout is not None
        self._left -= 1
        return self._left < 0


@pytest.mark.parametrize("rate", [10, 1_000, 10_000])
def test_the_pace_includes_the_probes(rate: int) -> None:
    """100 seconds have that many records, and about ten probes per second."""
    sink, probes = Visible(), queue.Queue[Probe]()
    produce(sink, rate, probes, Ticks(100 * 50))
    assert probes.qsize() == pytest.approx(1_000, rel=0.1)
    assert len(sink.keys) == pytest.approx(100 * rate, rel=0.1)


def test_a_process_of_its_own_produces(tmp_path: Path) -> None:
    """The log contains the producer's probes, and the producer ends with the block."""
    directory = tmp_path / "readings"
    with producing(partial(LogSink, directory), 1_000) as producer:
        assert producer.pid != os.getpid()
        probe = producer.next_probe(60)
    keys = [orjson.loads(line)["key"] for line in (directory / "0.jsonl").read_text().splitlines()]
    assert probe.key in keys
    assert not Path(f"/proc/{producer.pid}").exists()


def test_a_producer_without_probes_is_an_error() -> None:
    """The benchmark does not wait forever."""
    with pytest.raises(Failed, match=r"the producer sent nothing for 0\.01 s"):
        Producing(queue.Queue(), 0).next_probe(0.01)


def test_percentiles_are_in_milliseconds() -> None:
    """p50, p99 and the longest wait."""
    now = snapshot()
    waits = Waits([n / 1000 for n in range(101)], True, now, now, 1)
    assert latency_figures(waits) == {
        "probes": 101, "kept_up": True, "p50_ms": 50.0, "p99_ms": 99.0, "longest_ms": 100.0,
    }  # fmt: skip
    lagging = latency_figures(Waits([1.0], False, now, now, 1))
    assert (lagging["kept_up"], lagging["p50_ms"], lagging["probes"]) == (False, None, 1)


def test_a_probe_is_found_when_the_last_store_has_it(
    sink: Visible, address: tuple[str, int]
) -> None:
    """If one store never has it, the error names the store."""
    sink.lagging = {"b"}
    sink.keys = ["probe-1"]
    reader = Reader(address, ["/a/", "/b/"])
    with pytest.raises(NotKeepingUpError, match="/b/probe-1 was not found in 0 s"):
        reader.find(Probe("probe-1", 0.0), 0.0)
    reader.close()


def test_a_system_that_does_not_keep_up_ends_the_run(
    sink: Visible, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has no percentiles, and the benchmark continues with the next run."""
    monkeypatch.setattr(latency, "_FIND_SECONDS", 0.3)
    probes: queue.Queue[Probe] = queue.Queue()
    for number in range(2):
        probes.put(Probe(f"probe-{number}", time.perf_counter()))
    sink.keys = ["probe-0"]
    monkeypatch.setattr(latency, "_WARM_UP_SECONDS", 5.0)
    reader = Reader(address, ["/a/"])
    waits = found_after(Producing(probes, os.getpid()), reader, seconds=2)
    reader.close()
    assert (waits.kept_up, waits.seconds) == (False, [])


def test_an_event_log_takes_records_of_both_partitions(tmp_path: Path) -> None:
    """Records of one call have the same time. A single probe is in partition 0."""
    sink = LogSink(tmp_path / "readings")
    sink.send(["a", "b", "c"], 5)
    sink.send(["probe-1"], 7)
    lines = [
        [orjson.loads(line) for line in (tmp_path / "readings" / name).read_text().splitlines()]
        for name in ("0.jsonl", "1.jsonl")
    ]
    assert [[line["key"] for line in part] for part in lines] == [["a", "c", "probe-1"], ["b"]]
    assert lines[0][2] == {"key": "probe-1", "value": {"v": 1.0}, "timestamp_ms": 7}


def test_a_connection_that_ends_is_an_error() -> None:
    """If a service ends the connection, its reader does not wait forever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()
        with pytest.raises(ConnectionError, match="ended the connection"):
            connection.receive()
        connection.socket.close()
