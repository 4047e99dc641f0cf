"""Requests reach shards and replicas through nginx, configured as in docs/how-to/routing.md."""

import http.client
import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

import orjson
import pytest

from oriel.storage.shards import Shard
from tests.app.serving import ROOT
from tests.storage.waiting import wait_until
from tests.system.operations.routers import LIST_OF_KEYS, Router, running_router

pytestmark = pytest.mark.e2e

PLAIN_KEYS = [f"key-{number}" for number in range(40)]
KEYS = [*PLAIN_KEYS, "é", "a/b", "..", "a//b", "", "a b", "%", "q?x=1"]


@pytest.fixture(scope="module", params=["http", "https"])
def router(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Router]:
    """Yield two shards with two replicas each, and nginx as their router."""
    if shutil.which("nginx") is None:
        reason = "nginx not found (Debian: apt-get install nginx-light)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("routing")
    with running_router(directory, KEYS, is_tls=request.param == "https") as router:
        yield router


def test_each_key_is_with_one_shard_and_found_through_the_router(router: Router) -> None:
    """Each key has one shard, whatever its characters, and the other shard names the owner."""
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
    """The problem of keys of several shards has the shard of each key.

    The router can try any shard first.
    """
    status, problem = router.ask(LIST_OF_KEYS, KEYS)
    assert (status, problem["code"]) == (400, "keys-of-several-shards")
    assert problem["owners"] == [Shard(1, 2).owner(key) for key in KEYS]
    found: list[str] = []
    for shard in (1, 2):
        keys = [key for key, owner in zip(KEYS, problem["owners"], strict=True) if owner == shard]
        status, body = router.ask(LIST_OF_KEYS, keys)
        assert status == 200, body
        found += [window["key"] for window in body["windows"]]
    assert sorted(found) == sorted(KEYS)


def test_a_problem_of_the_host_passes_the_router(router: Router) -> None:
    """A wrong host is a 421 like a wrong shard, but the problem has no owner."""
    target = f"{ROOT}/latest/{PLAIN_KEYS[0]}"
    assert router.ask(target, host="oriel.example.org")[0] == 200
    status, problem = router.ask(target, host="other.example.org")
    assert (status, problem["code"]) == (421, "unknown-host")
    assert "--allowed-host" in problem["detail"]


def _have_continued(seen: list[int], rounds: list[int]) -> bool:
    return all(now > before for now, before in zip(rounds, seen, strict=True))


def test_a_rolling_restart_fails_no_request(router: Router) -> None:
    """The services of a shard restart one after the other, while clients read all keys."""
    done = threading.Event()
    failed: list[tuple[str, str]] = []
    rounds = [0, 0, 0]

    def repeat(client: int) -> None:
        while not done.is_set():
            for number, key in enumerate(PLAIN_KEYS):
                try:
                    # Both kinds of requests, because nginx repeats a POST only with a setting.
                    listed = number % 2 == 0
                    read = router.ask(LIST_OF_KEYS, [key]) if listed else router.latest(key)
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
        seen = list(rounds)
        router.restart(*place)
        wait_until(
            lambda: list(rounds), f"a round of each client after {seen}",
            partial(_have_continued, seen),
        )  # fmt: skip
    done.set()
    for client in clients:
        client.join()
    assert failed == []
