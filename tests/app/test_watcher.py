"""Tests of waiting for a position: one poll of the index serves all waiting requests."""

import asyncio
from pathlib import Path

from oriel.app.contract import Limits
from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from tests.app.api_client import ApiClient, ApiResponse, Served, served
from tests.app.problem_shape import assert_problem
from tests.storage.waiting import wait_in_loop

ROOT = "/v1/stores/store"
_WAITERS = 1_000
_FOREVER = f"{ROOT}/latest/a?min_version=99&wait_ms=30000"


async def _waiting(store: Served, targets: list[str]) -> list["asyncio.Task[ApiResponse]"]:
    tasks = [asyncio.ensure_future(store.client.call(target)) for target in targets]
    await wait_in_loop(
        lambda: store.service.gate.waiting, f"{len(tasks)} waiters", lambda n: n == len(tasks)
    )
    return tasks


def test_all_waiters_of_a_store_look_once(changing: Served) -> None:
    """A thousand waiting requests share their polls, and each gets its response."""
    watcher = changing.service.catalog.view("store").watcher

    async def run() -> list[ApiResponse]:
        targets = [
            f"{ROOT}/latest/a?min_version={2 + i % 2}&wait_ms=30000" for i in range(_WAITERS)
        ]
        tasks = await _waiting(changing, targets)
        looks = watcher.looks
        await wait_in_loop(lambda: watcher.looks - looks, "three looks", lambda count: count >= 3)
        # With separate polls, each request would have polled three times.
        assert watcher.looks - looks < _WAITERS
        changing.commit({"key": "a", "start": 60})
        changing.commit({"key": "a", "start": 70})
        return await asyncio.gather(*tasks)

    responses = asyncio.run(run())
    assert {response.status for response in responses} == {200}
    assert changing.service.gate.waiting == 0


def test_nobody_looks_when_nobody_waits(changing: Served) -> None:
    """Polling ends with the last waiting request."""
    watcher = changing.service.catalog.view("store").watcher

    async def run() -> None:
        (task,) = await _waiting(changing, [_FOREVER])
        task.cancel()
        await task
        look = watcher._task
        assert look is not None
        await wait_in_loop(look.done, "the end of the look")
        assert watcher._task is look, "another look has begun"

    asyncio.run(run())
    assert changing.service.gate.waiting == 0


def test_a_worker_that_ends_responds_to_all_waiting_requests(changing: Served) -> None:
    """A worker that ends rejects all waiting requests, and serves requests without a wait."""

    async def run() -> list[ApiResponse]:
        tasks = await _waiting(changing, [_FOREVER] * 3)
        changing.service.stop_waiting()
        responses = await asyncio.gather(*tasks, changing.client.call(_FOREVER))
        assert (await changing.client.call(f"{ROOT}/latest/a?wait_ms=9")).status == 200
        return responses

    for response in asyncio.run(run()):
        assert_problem(response, 503, "shutting-down")


def test_requests_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    """Requests above the limit get 503 at once, and slots are free again afterwards."""
    with served(tmp_path) as made:
        made.commit({"key": "a", "start": 1})
        service = Service(tmp_path, ServiceSettings(Limits(requests=1, waiting_requests=1)))
        client = ApiClient(service)
        service.gate.enter()
        assert_problem(client.get("/v1/stores"), 503, "overloaded", "--limit-requests")
        assert client.get("/healthz").status == 200
        service.gate.leave()
        assert client.get("/v1/stores").status == 200
        service.catalog.close()
