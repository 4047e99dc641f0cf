"""Two shards with two replicas each and nginx, configured as in docs/how-to/routing.md."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson

from tests.app.serving import NO_RESPONSE, ROOT, Serving, connection_to
from tests.certificates import write_certificate
from tests.ports import reserved_port
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_until

LIST_OF_KEYS = f"{ROOT}/latestOfKeys"
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "routing.md"


class Router(NamedTuple):
    """nginx, and its services by shard and replica."""

    port: int
    is_tls: bool
    services: dict[tuple[int, int], Serving]
    start: Any

    def ask(
        self, target: str, keys: Sequence[str] | None = None, host: str = "localhost"
    ) -> tuple[int, Any]:
        """Return status and body of a read through the router: a GET, or a POST with keys."""
        connection = connection_to(self.port, is_tls=self.is_tls)
        body = None if keys is None else orjson.dumps(keys)
        try:
            connection.request("GET" if keys is None else "POST", target, body, {"Host": host})
            response = connection.getresponse()
            return response.status, orjson.loads(response.read())
        finally:
            connection.close()

    def latest(self, key: str) -> tuple[int, Any]:
        """Return status and body of a read of one key."""
        return self.ask(f"{ROOT}/latest/{quote(key, safe='')}")

    def restart(self, shard: int, replica: int) -> None:
        """End a service, start it again and wait until it is ready."""
        self.services[shard, replica].end()
        self.services[shard, replica] = self.start(shard, replica)
        wait_until_ready(self.services[shard, replica])


@contextmanager
def running_router(directory: Path, keys: Sequence[str], *, is_tls: bool) -> Iterator[Router]:
    """Run the services and nginx over one window per key, until the block ends."""
    table = StoreTable(directory / "data", make_definition())
    table.commit([{"key": key, "start": 10} for key in keys])
    write_certificate(directory)
    tls = ["--tls-cert", str(directory / "cert.pem"), "--tls-key", str(directory / "key.pem")]
    ports = {(shard, replica): reserved_port() for shard in (1, 2) for replica in (1, 2)}

    def start(shard: int, replica: int) -> Serving:
        index = directory / f"index-{replica}"
        index.mkdir(exist_ok=True)
        return Serving(
            directory / "data", "--shard", f"{shard}/2", "--index", str(index),
            "--port", str(ports[shard, replica]), "--allowed-host", "oriel.example.org",
            *(tls if is_tls else ()),
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        services = dict(zip(ports, pool.map(lambda place: start(*place), ports), strict=True))
    port = reserved_port()
    nginx = _started_nginx(directory, port, ports, is_tls=is_tls)
    try:
        for service in services.values():
            wait_until_ready(service)
        yield Router(port, is_tls, services, start)
    finally:
        nginx.terminate()
        nginx.wait()
        for service in services.values():
            service.end()


def _started_nginx(
    directory: Path, port: int, ports: dict[tuple[int, int], int], *, is_tls: bool
) -> "subprocess.Popen[bytes]":
    page, tls = re.findall(r"```nginx\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    if is_tls:
        page = page.replace("proxy_pass http://", "proxy_pass https://")
        page = page.replace("listen 127.0.0.1:8080;", tls)
        page = page.replace("/etc/oriel/ca.pem", str(directory / "cert.pem"))
        page = page.replace("/etc/oriel", str(directory))
        # The name in the certificate of this test.
        page = page.replace("proxy_ssl_name oriel.example.org", "proxy_ssl_name localhost")
    page = re.sub(r"127\.0\.0\.1:8(080|443)\b", f"127.0.0.1:{port}", page)
    for (shard, replica), own in ports.items():
        page = page.replace(
            f"127.0.0.1:80{'8' if replica == 1 else '9'}{shard}", f"127.0.0.1:{own}"
        )
    config = directory / "nginx.conf"
    config.write_text(
        f"daemon off; pid {directory}/nginx.pid; error_log {directory}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n"
        f"client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;\n"
        f"fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u;\n"
        f"scgi_temp_path {directory}/s;\n"
        f"{page} }}\n"
    )
    nginx = subprocess.Popen(["nginx", "-c", str(config), "-e", str(directory / "error.log")])
    wait_until(
        lambda: _status(port, is_tls=is_tls), "a response of nginx", passing=(OSError,),
        process=nginx,
    )  # fmt: skip
    return nginx


def _status(port: int, *, is_tls: bool) -> int:
    connection = connection_to(port, is_tls=is_tls)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    finally:
        connection.close()


def wait_until_ready(service: Serving) -> None:
    """Wait until the service can serve its stores."""
    wait_until(
        lambda: service.get("/readyz"), "readiness", lambda response: response.status == 200,
        passing=NO_RESPONSE,
    )  # fmt: skip
