"""The service in its real processes: supervisor, worker and tailer, with requests over a socket."""

import http.client
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oriel.storage import DataLayout
from oriel.storage.index import IndexDirectory
from tests.app.api_client import ApiResponse
from tests.storage.waiting import WAIT_SECONDS, wait_until

ROOT = "/v1/stores/store"
SERVE = [sys.executable, "-m", "oriel", "serve"]
#: The command of ``tests.app.impatient_serve``.
IMPATIENT = [sys.executable, "-m", "tests.app.impatient_serve"]
#: Errors of a request to a service that does not listen, or whose worker ends.
NO_RESPONSE = (OSError, http.client.HTTPException)
_WITHOUT_PANDAS = Path(__file__).with_name("without_pandas")


def connection_to(port: int, *, is_tls: bool) -> http.client.HTTPConnection:
    """Return a connection to a port of this machine that trusts any certificate."""
    if not is_tls:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_SECONDS, context=context)


class Serving:
    """`oriel serve` on a free port."""

    def __init__(self, data: Path, *options: str, serve: Sequence[str] = SERVE) -> None:
        """Start the service, and return when it listens."""
        self.data = data
        command = [*serve, "--data", str(data), "--port", "0", *options]
        #: The standard error output of all its processes.
        self.stderr = data.with_name(f"{data.name}.stderr")
        with self.stderr.open("wb") as stderr_file:
            self.process = subprocess.Popen(
                command, env=environment(), stdout=subprocess.PIPE, stderr=stderr_file
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        match = re.search(r"(https?)://.*:(\d+)$", line.strip())
        assert match, line
        self._is_tls = match[1] == "https"
        self.port = int(match[2])

    def get(self, target: str) -> ApiResponse:
        """Send one request. http.client sends the path unchanged."""
        return self._send("GET", target, None)

    def get_text(self, target: str) -> str:
        """Send one request and return the body of its response."""
        return self.get(target).body.decode()

    def post(self, target: str, body: bytes) -> ApiResponse:
        """Send one request with a body."""
        return self._send("POST", target, body)

    def _send(self, method: str, target: str, body: bytes | None) -> ApiResponse:
        connection = connection_to(self.port, is_tls=self._is_tls)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return ApiResponse(response.status, headers, response.read())
        finally:
            connection.close()

    def raw(self, content: bytes) -> bytes:
        """Send bytes, and return all received bytes until the service closes the connection."""
        with self.connect() as client:
            client.sendall(content)
            return b"".join(iter(lambda: client.recv(65_536), b""))

    def connect(self) -> socket.socket:
        """Open a separate connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_SECONDS)

    def version(self) -> int:
        """Return the served version of the store, or -1 without a response of the store."""
        try:
            return _version(self.get(ROOT))
        except NO_RESPONSE:
            return -1

    def wait_for(self, version: int) -> None:
        """Wait until the store is served at this version."""
        wait_until(
            lambda: self.get(ROOT), f"version {version} of the store",
            lambda response: _version(response) >= version, passing=NO_RESPONSE,
        )  # fmt: skip

    def wait_for_status(self, target: str, status: int) -> ApiResponse:
        """Wait until the service responds with this status. A missing response is an error."""
        return wait_until(
            lambda: self.get(target), f"status {status} of {target}",
            lambda response: response.status == status,
        )  # fmt: skip

    def wait_until_ready(self, store: str) -> None:
        """Wait until the service serves a store that was created while it runs."""
        self.wait_for_status(f"/v1/stores/{store}", 200)

    def children(self) -> dict[str, int]:
        """Return the process ids of tailer and worker by module name."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,args=", "--ppid", str(self.process.pid)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        matches = re.findall(r"^\s*(\d+) .*-m (\S+)", listed.stdout, re.MULTILINE)
        return {module: int(pid) for pid, module in matches}

    def generation(self) -> Path:
        """Return the directory of the current generation of the index."""
        generation = IndexDirectory(DataLayout(self.data).index("store")).current()
        assert generation is not None
        return generation

    def end(self) -> int:
        """Stop the service, and return its exit code."""
        self.process.terminate()
        code = self.process.wait(WAIT_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def _version(response: ApiResponse) -> int:
    return int(response.json["position"]["version"]) if response.status == 200 else -1


def environment() -> dict[str, str]:
    """Return the environment of a service in tests."""
    directories = [str(_WITHOUT_PANDAS), os.environ["PYTHONPATH"]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(directories)}


@contextmanager
def ready_service(data: Path) -> Iterator[Serving]:
    """Yield a service of a data directory when ``/readyz`` returns 200, and end it afterwards."""
    serving = Serving(data)
    try:
        serving.wait_for_status("/readyz", 200)
        yield serving
    finally:
        serving.end()
