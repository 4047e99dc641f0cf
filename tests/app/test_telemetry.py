"""Tests of the service's metrics, request logs, traces, documentation and secure start."""

import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from oriel.app.contract import OPERATIONS
from oriel.app.server import main
from oriel.app.telemetry import measures
from tests.app.api_client import Served
from tests.app.serving import ROOT, Serving
from tests.certificates import write_certificate
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_for, wait_until

Samples = dict[tuple[str, tuple[str, ...]], float]


def _samples(body: bytes) -> Samples:
    """Return each sample without buckets by its name and its label values."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_each_response_is_counted_once(changing: Served) -> None:
    """Each response is counted once by operation and store, and errors also by status."""
    for target in ("latest/a", "latest/a", "latest/nothing", "keys", "nothing", ""):
        changing.get(f"{ROOT}/{target}".rstrip("/"))
    for target in ("/v1/stores/nope/latest/a", "/healthz", "/no/such/path", "/v1/stores"):
        changing.get(target)
    samples = _samples(changing.get("/metrics").body)
    seconds, errors = "oriel_http_request_seconds_count", "oriel_http_errors_total"
    counted = {labels: value for (name, labels), value in samples.items() if name == seconds}
    assert counted == {
        ("latest", "store"): 3, ("listKeys", "store"): 1, ("", "store"): 1,
        ("describeStore", "store"): 1, ("latest", ""): 1, ("health", ""): 1, ("", ""): 1,
        ("listStores", ""): 1,
    }  # fmt: skip
    failed = {labels: value for (name, labels), value in samples.items() if name == errors}
    assert failed == {
        ("latest", "404", "store"): 1, ("", "404", "store"): 1, ("latest", "404", ""): 1,
        ("", "404", ""): 1,
    }  # fmt: skip


def test_the_labels_are_few_for_any_requests(
    changing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown names never become labels, and stores above a limit share one label."""
    for number in range(50):
        changing.get(f"/v1/stores/x{number}/latest/a")
        changing.get(f"{ROOT}/x{number}")
        changing.get(f"/x{number}")
    assert len(changing.service.measures._known) == 0
    monkeypatch.setattr(measures, "STORES_MAX", 0)
    changing.get(ROOT)
    changing.add(make_definition("second"))
    changing.get("/v1/stores/second")
    labels = {labels for name, labels in _samples(changing.get("/metrics").body) if "http" in name}
    assert ("describeStore", "other") in labels
    assert len({label for label in labels if label and label[0] == "latest"}) <= 2


def test_the_index_is_measured(changing: Served) -> None:
    """The metrics have lag, size and readers of each index."""
    changing.table.commit()
    samples = _samples(changing.get("/metrics").body)
    assert samples["oriel_index_lag_versions", ("store",)] == 1
    assert samples["oriel_index_lag_seconds", ("store",)] >= 0
    assert samples["oriel_index_bytes", ("store",)] > 0
    assert samples["oriel_index_readers", ("store",)] >= 1


def test_the_documentation_page_loads_nothing_from_elsewhere(empty_store: Served) -> None:
    """The page's script, styles and icon are served, and its policy allows no others."""
    page = empty_store.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    named = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    assert len(named) == 3
    for target in named:
        assert target.startswith("/docs/")
        assert empty_store.get(target).status == 200
    assert b"http://" not in page.body
    assert b"https://" not in page.body
    script = empty_store.get("/docs/swagger-ui-bundle.js")
    # An older version cannot show an OpenAPI 3.1 document.
    assert re.search(rb'"5\.\d+\.\d+"', script.body)
    assert OPERATIONS["docs"].path == "/docs"


@pytest.mark.slow
def test_workers_add_up_what_they_count(tmp_path: Path) -> None:
    """Any worker returns the counts of all workers, including those of a killed one."""
    StoreTable(tmp_path, make_definition()).commit([{"key": "a", "start": 1}])
    serving = Serving(tmp_path, "--workers", "2", "--access-log", "--log-format", "json")
    serving.wait_for(1)
    name, labels = "oriel_http_request_seconds_count", ("latest", "store")
    for _ in range(20):
        assert serving.get(f"{ROOT}/latest/a").status == 200

    def counted() -> float:
        return _samples(serving.get("/metrics").body).get((name, labels), 0)

    # A worker publishes its counts once per second.
    wait_for(20, counted, "the count of both workers")
    worker = serving.children()["oriel.app.server.worker"]
    subprocess.run(["kill", "-9", str(worker)], check=True)
    wait_until(
        serving.children, f"another worker than {worker}",
        lambda found: found.get("oriel.app.server.worker", worker) != worker,
    )  # fmt: skip
    assert counted() == 20
    wait_until(
        lambda: _samples(serving.get("/metrics").body)["oriel_http_connections", ()],
        "the number of connections",
    )
    assert serving.end() == 0
    lines = [orjson.loads(line) for line in serving.stderr.read_bytes().splitlines()]
    requests = [line for line in lines if line.get("target") == f"{ROOT}/latest/a"]
    assert len(requests) == 20
    assert {(line["event"], line["status"], line["method"]) for line in requests} == {
        ("request", 200, "GET")
    }


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Return the URL of a trace collector, and the requests that it received."""
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_traces_are_sent_where_the_environment_says(
    tmp_path: Path, collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request, hot or cold, sends a span."""
    address, received = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    serving = Serving(tmp_path)
    serving.get("/v1/stores/nope/latest/a")
    serving.get("/healthz")
    wait_until(lambda: b"".join(received), "the spans", lambda spans: b"/healthz" in spans)
    assert serving.end() == 0
    assert b"/v1/stores/nope/latest/a" in b"".join(received)
    assert b"oriel" in b"".join(received)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for localhost and its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


@pytest.mark.slow
def test_it_serves_https(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """With tokens and a certificate, the service serves HTTPS on any address, and not HTTP."""
    file = tmp_path / "tokens.toml"
    make = [sys.executable, "-m", "oriel", "token", "all", "--file", str(file)]
    made = subprocess.run(make, capture_output=True, text=True, check=True).stdout.strip()
    certificate_file, key_file = certificate
    serving = Serving(
        tmp_path / "data", "--host", "0.0.0.0", "--tokens", str(file),
        "--tls-cert", str(certificate_file), "--tls-key", str(key_file),
    )  # fmt: skip
    context = ssl.create_default_context(cafile=str(certificate_file))
    request = urllib.request.Request(f"https://localhost:{serving.port}/v1/stores")
    request.add_header("Authorization", f"Bearer {made}")
    with urllib.request.urlopen(request, context=context, timeout=60) as response:  # noqa: S310
        assert response.status == 200
        assert "strict-transport-security" in response.headers
        assert orjson.loads(response.read()) == {"stores": []}
    with serving.connect() as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1 200" not in client.recv(100)
    assert serving.end() == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--tls-cert", "x"], 2, "must be set together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], 1, "cannot read no.pem"),
        (["--tokens", "no.toml"], 1, "no.toml: the token file cannot be read"),
        (["--jwks", "no.json"], 2, "--jwt-issuer"),
        (
            ["--jwks", "no.json", "--jwt-issuer", "x", "--jwt-audience", "y"], 1,
            "no.json: the keys for JSON Web Tokens cannot be read",
        ),
    ],
)  # fmt: skip
def test_what_is_not_secure_is_not_started(
    tmp_path: Path, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An insecure or invalid option is reported in one line before any file is created."""
    try:
        ended: Any = main(["--data", str(tmp_path / "data"), "--port", "0", *options])
    except SystemExit as refused:
        ended = refused.code
    assert ended == code
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "data").exists()
