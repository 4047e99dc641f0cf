"""Each extra works with the lowest version of each package that it allows."""

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from packaging.requirements import Requirement

from tests.golden.directories import LOG, topology
from tests.packaging.wheels import build_wheel, run_elsewhere
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_until
from tests.system.kills.table_checks import emitted_rows
from tests.tidy.project import ROOT

pytestmark = [pytest.mark.slow]

EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
_INSTALL_SECONDS = 600


def lowest_versions(*extras: str) -> list[str]:
    """Return a pin of the lowest version of each package that these extras require."""
    pins: dict[str, None] = {}
    for line in (line for extra in extras for line in EXTRAS[extra]):
        requirement = Requirement(line)
        if requirement.name == "oriel":
            pins |= dict.fromkeys(lowest_versions(*sorted(requirement.extras)))
            continue
        (bound,) = (one for one in requirement.specifier if one.operator in {">=", "=="})
        packages = f"[{','.join(requirement.extras)}]" if requirement.extras else ""
        marker = f"; {requirement.marker}" if requirement.marker else ""
        lowest = bound.version.replace(".*", ".0")
        pins[f"{requirement.name}{packages}=={lowest}{marker}"] = None
    return list(pins)


class Environment:
    """A fresh virtual environment with the wheel, some extras and their lowest versions."""

    def __init__(self, directory: Path, wheel: Path, *extras: str) -> None:
        """Install everything with pip, whose cache has earlier downloads."""
        venv.create(directory, with_pip=False, symlinks=True)
        self.bin = directory / "bin"
        self._wheel = wheel
        self.install(*extras)

    def install(self, *extras: str) -> None:
        """Install the extras. pip fails if a package needs a newer version of another one."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install"]
        wanted = [f"oriel[{','.join(extras)}] @ {self._wheel.as_uri()}", *lowest_versions(*extras)]
        options = ["--quiet", "--no-compile", "--disable-pip-version-check"]
        run_elsewhere([*pip, *options, *wanted], timeout=_INSTALL_SECONDS)

    def python(self, *arguments: str) -> str:
        """Run Python with warnings as errors, and return its output."""
        command = [str(self.bin / "python"), "-W", "error", *arguments]
        return run_elsewhere(command, python_path=ROOT, timeout=_INSTALL_SECONDS).stdout


@pytest.fixture(scope="module", name="wheel")
def _wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the checkout."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module", name="service")
def _service(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Return an environment with the packages of the service and its client."""
    directory = tmp_path_factory.mktemp("service")
    return Environment(directory, wheel, "app", "jwt", "otel", "client")


@pytest.fixture(scope="module", name="pipeline")
def _pipeline(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Return an environment with the packages of the pipeline."""
    return Environment(tmp_path_factory.mktemp("pipeline"), wheel, "pipeline", "kafka")


@pytest.fixture(autouse=True)
def _slow_fallbacks_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """google-crc32c warns if it cannot load its C code and computes in Python."""
    monkeypatch.setenv("PYTHONWARNINGS", "error::RuntimeWarning")


@contextmanager
def running_collector() -> Iterator[tuple[str, list[bytes]]]:
    """Yield the address of a server that accepts traces, and the bodies that it received."""
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


@contextmanager
def running_service(
    environment: Environment, data: Path, *options: str, **variables: str
) -> Iterator[str]:
    """Yield the address of ``oriel serve`` over ``data``."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(environment.bin / "oriel"), "serve", "--data", str(data), "--port", "0"]
    with subprocess.Popen(
        [*command, *options], env={**inherited, **variables}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            match = re.search(r"http://\S+", line)
            assert match, line
            yield match[0]
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS)


def status_of(url: str, token: str) -> int:
    """Return the status of a GET request with a bearer token."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:  # noqa: S310
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_service_and_its_client(service: Environment, tmp_path: Path) -> None:
    """A JWKS token grants access, the client reads a window, and the collector receives a trace.

    The test uses the extras app, jwt, otel and client.
    """
    key = rsa.generate_private_key(65537, 2048)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps({"keys": [{**public, "kid": "first", "alg": "RS256"}]}))
    claims = {"iss": "https://id.example", "aud": "oriel", "sub": "ann", "exp": 4_000_000_000}
    token = jwt.encode({**claims, "oriel_stores": ["store"]}, key, "RS256", {"kid": "first"})
    data = tmp_path / "data"
    StoreTable(data, make_definition()).commit([{"key": "a", "start": 10, "n": 3}])
    options = ["--jwks", str(keys), "--jwt-issuer", "https://id.example", "--jwt-audience", "oriel"]
    with (
        running_collector() as (collector, received),
        running_service(
            service, data, *options,
            OTEL_EXPORTER_OTLP_ENDPOINT=collector, OTEL_BSP_SCHEDULE_DELAY="50",
        ) as url,
    ):  # fmt: skip
        latest = f"{url}/v1/stores/store/latest/a"
        wait_until(lambda: status_of(latest, token) == 200, "the window of the key")
        assert status_of(latest, "not-a-token") == 401
        code = (
            "import sys; from oriel.client import Client\n"
            "with Client(sys.argv[1], token=sys.argv[2]) as client:\n"
            "    windows = client.window_store('store').backward_fetch('a')\n"
            "    print(windows.to_arrow()['n'].to_pylist())"
        )
        assert service.python("-c", code, url, token) == "[3]\n"
        wait_until(lambda: b"/v1/stores/store/latest/a" in b"".join(received), "the trace")


def test_the_pipeline(pipeline: Environment, tmp_path: Path) -> None:
    """A run over an event log counts each record, and Avro and Protobuf values are decoded."""
    arguments = ["--event-log", str(LOG), "--data", str(tmp_path), "--once", "--cores", "2"]
    command = [str(pipeline.bin / "oriel"), "run", str(topology("kinds")), *arguments]
    run_elsewhere(command, timeout=_INSTALL_SECONDS)
    lines = [line for path in LOG.glob("orders/*") for line in path.read_bytes().splitlines()]
    orders = [json.loads(line) for line in lines if line != b"rubbish"]
    rows = emitted_rows(tmp_path / "tables" / "totals")
    assert {key: newest["n"] for (key, *_), (*_, newest) in rows.items()} == Counter(
        order["key"] for order in orders if order["key"] and order["value"] is not None
    )
    found = pipeline.python("-m", "tests.system.packaging.decode_values")
    assert json.loads(found) == [{"id": 7}, {"id": 8}]


def test_the_demo(pipeline: Environment) -> None:
    """The demo's packages fit those of the pipeline, and the demo reads the flights."""
    pipeline.install("demo")
    code = "from oriel.demo import command\nprint(len(command._read().records))"
    assert pipeline.python("-c", code) == "336776\n"
