"""Shards and replicas behind a real nginx, configured as docs/routing.md says."""

import http.client
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
import pytest

from oriel.storage.shards import Shard
from tests.app.serving import NO_ANSWER, ROOT, Serving, connection_to
from tests.certificates import write_certificate
from tests.ports import reserved_port
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import wait_until

pytestmark = pytest.mark.e2e

PLAIN_KEYS = [f"key-{number}" for number in range(40)]
KEYS = [*PLAIN_KEYS, "é", "a/b", "..", "a//b", "", "a b", "%", "q?x=1"]
_OF_KEYS = f"{ROOT}/latestOfKeys"
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "routing.md"


class Router(NamedTuple):
    """nginx, and the services behind it by shard and replica."""

    port: int
    is_tls: bool
    services: dict[tuple[int, int], Serving]
    start: Any

    def ask(
        self, target: str, keys: Sequence[str] | None = None, host: str = "localhost"
    ) -> tuple[int, Any]:
        """Status and body of a read through the router; a POST if it lists keys."""
        connection = connection_to(self.port, is_tls=self.is_tls)
        body = None if keys is None else orjson.dumps(keys)
        try:
            connection.request("GET" if keys is None else "POST", target, body, {"Host": host})
            answer = connection.getresponse()
            return answer.status, orjson.loads(answer.read())
        finally:
            connection.close()

    def latest(self, key: str) -> tuple[int, Any]:
        """Status and body of a read of one key."""
        return self.ask(f"{ROOT}/latest/{quote(key, safe='')}")


@pytest.fixture(scope="module", params=["http", "https"])
def router(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Router]:
    """Two shards with two replicas each, and nginx in front of them."""
    if shutil.which("nginx") is None:
        reason = "nginx not found (Debian: apt-get install nginx-light)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("routing")
    table = StoreTable(folder / "data", make_definition())
    table.commit([{"key": key, "start": 10} for key in KEYS])
    is_tls = request.param == "https"
    write_certificate(folder)
    tls = ["--tls-cert", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem")]
    ports = {(shard, replica): reserved_port() for shard in (1, 2) for replica in (1, 2)}

    def start(shard: int, replica: int) -> Serving:
        index = folder / f"index-{replica}"
        index.mkdir(exist_ok=True)
        return Serving(
            folder / "data", "--shard", f"{shard}/2", "--index", str(index),
            "--port", str(ports[shard, replica]), "--allowed-host", "oriel.example.org",
            *(tls if is_tls else ()),
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        services = dict(zip(ports, pool.map(lambda place: start(*place), ports), strict=True))
    port = reserved_port()
    nginx = _started_nginx(folder, port, ports, is_tls=is_tls)
    try:
        for service in services.values():
            _wait_until_ready(service)
        yield Router(port, is_tls, services, start)
    finally:
        nginx.terminate()
        nginx.wait()
        for service in services.values():
            service.end()


def _started_nginx(
    folder: Path, port: int, ports: dict[tuple[int, int], int], *, is_tls: bool
) -> "subprocess.Popen[bytes]":
    page, tls = re.findall(r"```nginx\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    if is_tls:
        page = page.replace("proxy_pass http://", "proxy_pass https://")
        page = page.replace("listen 127.0.0.1:8080;", tls)
        page = page.replace("/etc/oriel/ca.pem", str(folder / "cert.pem"))
        page = page.replace("/etc/oriel", str(folder))
        # The name of the certificate of this test.
        page = page.replace("proxy_ssl_name oriel.example.org", "proxy_ssl_name localhost")
    page = re.sub(r"127\.0\.0\.1:8(080|443)\b", f"127.0.0.1:{port}", page)
    for (shard, replica), own in ports.items():
        page = page.replace(
            f"127.0.0.1:80{'8' if replica == 1 else '9'}{shard}", f"127.0.0.1:{own}"
        )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\n"
        f"events {{}}\nhttp {{ access_log off;\n"
        f"client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
        f"fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        f"{page} }}\n"
    )
    nginx = subprocess.Popen(["nginx", "-c", str(config), "-e", str(folder / "error.log")])
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


def _wait_until_ready(service: Serving) -> None:
    wait_until(
        lambda: service.get("/readyz"), "readiness", lambda answer: answer.status == 200,
        passing=NO_ANSWER,
    )  # fmt: skip


def test_each_key_is_with_one_shard_and_found_through_the_router(router: Router) -> None:
    """Whatever characters it has; a shard names the owner of a key that is not its own."""
    listed: list[str] = []
    for shard in (1, 2):
        service = router.services[shard, 1]
        keys = service.get(f"{ROOT}/keys?limit=1000").json["keys"]
        assert keys == [key for key in sorted(KEYS) if Shard(shard, 2).owner(key) == shard]
        listed += keys
        other = next(key for key in KEYS if key not in keys)
        for target in (f"latest/{quote(other, safe='')}", f"window/10/{quote(other, safe='')}"):
            refused = service.get(f"{ROOT}/{target}")
            assert (refused.status, refused.json["code"]) == (421, "key-of-another-shard")
            assert refused.headers["oriel-owner"] == str(3 - shard)
        refused = service.post(f"{ROOT}/latestOfKeys", orjson.dumps([other]))
        assert (refused.status, refused.headers["oriel-owner"]) == (421, str(3 - shard))
        assert service.post(f"{ROOT}/latestOfKeys", orjson.dumps(keys)).status == 200
    assert sorted(listed) == sorted(KEYS)
    for key in KEYS:
        status, body = router.latest(key)
        assert status == 200, (key, body)
        assert [window["key"] for window in body["windows"]] == [key]
    assert router.latest("nobody")[0] == 404


def test_a_list_of_one_shard_is_read_and_one_of_several_can_be_divided(router: Router) -> None:
    """Through the router, whichever shard it tries first; the problem has the shard of each key."""
    status, problem = router.ask(_OF_KEYS, KEYS)
    assert (status, problem["code"]) == (400, "keys-of-several-shards")
    assert problem["owners"] == [Shard(1, 2).owner(key) for key in KEYS]
    found: list[str] = []
    for shard in (1, 2):
        keys = [key for key, owner in zip(KEYS, problem["owners"], strict=True) if owner == shard]
        status, body = router.ask(_OF_KEYS, keys)
        assert status == 200, body
        found += [window["key"] for window in body["windows"]]
    assert sorted(found) == sorted(KEYS)


def test_a_problem_of_the_host_passes_the_router(router: Router) -> None:
    """It is a 421 as that of another shard, and names no owner."""
    target = f"{ROOT}/latest/{PLAIN_KEYS[0]}"
    assert router.ask(target, host="oriel.example.org")[0] == 200
    status, problem = router.ask(target, host="other.example.org")
    assert (status, problem["code"]) == (421, "unknown-host")
    assert "--allowed-host" in problem["detail"]


def _have_gone_on(seen: list[int], rounds: list[int]) -> bool:
    return all(now > before for now, before in zip(rounds, seen, strict=True))


def test_a_rolling_restart_fails_no_request(router: Router) -> None:
    """One service of a shard after the other ends and comes back, while clients read all keys."""
    done = threading.Event()
    failed: list[tuple[str, str]] = []
    rounds = [0, 0, 0]

    def repeat(client: int) -> None:
        while not done.is_set():
            for number, key in enumerate(PLAIN_KEYS):
                try:
                    # Both kinds of requests, because nginx repeats a POST only if it may.
                    listed = number % 2 == 0
                    read = router.ask(_OF_KEYS, [key]) if listed else router.latest(key)
                    if read[0] != 200:
                        failed.append((key, str(read)))
                except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
                    failed.append((key, repr(error)))
                # About 100 requests per second by three clients.
                done.wait(0.03)
            rounds[client] += 1

    clients = [threading.Thread(target=repeat, args=(number,)) for number in range(len(rounds))]
    for client in clients:
        client.start()
    for place in [place for place in router.services if place[0] == 1]:
        service = router.services[place]
        seen = list(rounds)
        service.end()
        router.services[place] = router.start(*place)
        _wait_until_ready(router.services[place])
        wait_until(
            lambda: list(rounds), f"a round of each client after {seen}",
            partial(_have_gone_on, seen),
        )  # fmt: skip
    done.set()
    for client in clients:
        client.join()
    assert failed == []
