"""The latency part of `oriel bench peer`, against a service that the test itself is."""

import socket
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest

from benchmarks.peer_runs import latency
from benchmarks.peer_runs.http_load import Connection
from benchmarks.peer_runs.latency import LogSink, found_after, producing
from benchmarks.peer_runs.processes import Failed


class Visible:
    """A sink whose records can be read at once, in all stores but those that are ``behind``."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.behind: set[str] = set()

    def send(self, keys: Sequence[str], time_ms: int) -> None:
        """Keep the keys."""
        assert time_ms > 0
        self.keys.extend(keys)


@pytest.fixture(name="sink")
def sink_fixture(monkeypatch: pytest.MonkeyPatch) -> Visible:
    """A sink, and no warm-up."""
    monkeypatch.setattr(latency, "_WARM_UP_SECONDS", 0.0)
    return Visible()


@pytest.fixture(name="address")
def address_fixture(sink: Visible) -> Iterator[tuple[str, int]]:
    """A service that has what the sink has."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _, store, key = self.path.split("/")
            found = key in sink.keys and store not in sink.behind
            self.send_response(200 if found else 404)
            # Kafka Streams' service, too, writes the header with a capital letter.
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        host, port = server.server_address[:2]
        yield str(host), port
        server.shutdown()
        thread.join()


def test_probes_are_found_among_the_records(sink: Visible, address: tuple[str, int]) -> None:
    """A wait for each probe of the measured time, while the other records go on."""
    with producing(sink) as probes:
        waited = found_after(probes, address, ["/a/", "/b/"], seconds=2)
    produced = [key for key in sink.keys if key.startswith("probe-")]
    assert 0 < len(waited) < len(produced)
    assert min(waited) > 0
    others = [key for key in sink.keys if key.startswith("key-")]
    assert others[:3] == ["key-0", "key-1", "key-2"]
    assert len(others) >= 20 * len(produced)


def test_a_probe_is_found_when_the_last_store_has_it(
    sink: Visible, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One store that never has it makes the wait an error, which names it."""
    monkeypatch.setattr(latency, "_FIRST_SECONDS", 0.3)
    sink.behind = {"b"}
    sink.keys = ["probe-1"]
    connection = Connection(address)
    with pytest.raises(Failed, match="/b/probe-1 was not found"):
        latency._await(connection, latency.Probe("probe-1", 0.0), ["/a/", "/b/"])
    connection.socket.close()


def test_an_event_log_takes_records_of_both_partitions(tmp_path: Path) -> None:
    """Lines of one time; a single probe goes to partition 0."""
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
    """A service that is gone does not leave its reader waiting for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(server.getsockname())
        accepted, _ = server.accept()
        accepted.close()
        with pytest.raises(ConnectionError, match="ended the connection"):
            connection.receive()
        connection.socket.close()
