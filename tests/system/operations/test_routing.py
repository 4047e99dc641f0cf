"""Shards and replicas behind a real nginx, configured as docs/routing.md says."""

import http.client
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
import pytest

from oriel.storage.shards import Shard
from tests.app.serving import NO_ANSWER, ROOT, Serving
from tests.ports import reserved_port
from tests.storage.store_tables import StoreTable, make_definition
from tests.storage.waiting import WAIT_SECONDS, wait_until

pytestmark = pytest.mark.e2e

PLAIN_KEYS = [f"key-{number}" for number in range(40)]
KEYS = [*PLAIN_KEYS, "é", "a/b", "..", "a//b", "", "a b", "%", "q?x=1"]
_PAGE = Path(__file__).resolve().parents[3] / "docs" / "routing.md"


class Router(NamedTuple):
    """nginx, and the services behind it by shard and replica."""

    port: int
    services: dict[tuple[int, int], Serving]
    start: Any

    def latest(self, key: str) -> tuple[int, Any]:
        """Status and body of a read through the router."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_SECONDS)
        try:
            connection.request("GET", f"{ROOT}/latest/{quote(key, safe='')}")
            answer = connection.getresponse()
            return answer.status, orjson.loads(answer.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Router]:
    """Two shards with two replicas each, and nginx in front of them."""
    if shutil.which("nginx") is None:
        reason = "nginx not found (Debian: apt-get install nginx-light)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("routing")
    table = StoreTable(folder / "data", make_definition())
    table.commit([{"key": key, "start": 10} for key in KEYS])
    ports = {(shard, replica): reserved_port() for shard in (1, 2) for replica in (1, 2)}

    def start(shard: int, replica: int) -> Serving:
        index = folder / f"index-{replica}"
        index.mkdir(exist_ok=True)
        return Serving(
            folder / "data", "--shard", f"{shard}/2", "--index", str(index),
            "--port", str(ports[shard, replica]),
        )  # fmt: skip

    services = {place: start(*place) for place in ports}
    port = reserved_port()
    nginx = _started_nginx(folder, port, ports)
    try:
        for service in services.values():
            _wait_until_ready(service)
        yield Router(port, services, start)
    finally:
        nginx.terminate()
        nginx.wait()
        for service in services.values():
            service.end()


def _started_nginx(
    folder: Path, port: int, ports: dict[tuple[int, int], int]
) -> "subprocess.Popen[bytes]":
    (page,) = re.findall(r"```nginx\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    page = page.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
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
    wait_until(lambda: _status(port), "a response of nginx", passing=(OSError,), process=nginx)
    return nginx


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS)
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
        refused = service.post(f"{ROOT}/latestOfKeys", orjson.dumps([keys[0], other]))
        assert (refused.status, refused.headers["oriel-owner"]) == (421, str(3 - shard))
        assert service.post(f"{ROOT}/latestOfKeys", orjson.dumps(keys)).status == 200
    assert sorted(listed) == sorted(KEYS)
    for key in KEYS:
        status, body = router.latest(key)
        assert status == 200, (key, body)
        assert [window["key"] for window in body["windows"]] == [key]
    assert router.latest("nobody")[0] == 404


def _have_gone_on(seen: list[int], rounds: list[int]) -> bool:
    return all(now > before for now, before in zip(rounds, seen, strict=True))


def test_a_rolling_restart_fails_no_request(router: Router) -> None:
    """One service of a shard after the other ends and comes back, while clients read all keys."""
    done = threading.Event()
    failed: list[tuple[str, str]] = []
    rounds = [0, 0, 0]

    def read(client: int) -> None:
        while not done.is_set():
            for key in PLAIN_KEYS:
                try:
                    status, body = router.latest(key)
                except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
                    failed.append((key, repr(error)))
                else:
                    if status != 200:
                        failed.append((key, str(body)))
                # Else three clients would take the processor from the services that start.
                done.wait(0.005)
            rounds[client] += 1

    clients = [threading.Thread(target=read, args=(number,)) for number in range(len(rounds))]
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
