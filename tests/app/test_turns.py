"""Tests of turns: long work has a bounded share of each event loop turn."""

import asyncio
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from oriel.app.contract import Limits
from oriel.app.guards import Turns
from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from tests.app.api_client import ApiClient, served
from tests.app.problem_shape import assert_problem

_STEPS = 100


def _turns_of_steps(step_seconds: float) -> list[int]:
    """Run steps of this simulated duration, and return the turn of each step."""
    now, turn, ran_in = 0.0, 0, list[int]()

    def step() -> None:
        nonlocal now
        now += step_seconds
        ran_in.append(turn)

    def count() -> None:
        nonlocal turn
        turn += 1
        asyncio.get_running_loop().call_soon(count)

    async def run() -> None:
        turns = Turns(64, lambda: now)
        asyncio.get_running_loop().call_soon(count)
        await asyncio.gather(*(turns.run(step) for _ in range(_STEPS)))

    asyncio.run(run())
    return ran_in


@pytest.mark.parametrize(("step_seconds", "most"), [(0.002, 3), (1.0, 1), (0.0, 64)])
def test_a_turn_of_the_event_loop_runs_steps_for_a_bounded_time(
    step_seconds: float, most: int
) -> None:
    """A turn runs at most 64 steps, and starts no step after 5 ms."""
    assert max(np.bincount(_turns_of_steps(step_seconds))) == most


def test_an_error_in_a_step_ends_its_stream_only() -> None:
    """A stream gets the error of its own step only. A stream that has left runs no step."""
    ran: list[int] = []

    async def run() -> list[object]:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: ran.append(-1))
        turns = Turns(64)
        wrong = asyncio.ensure_future(turns.run(lambda: 1 // 0))
        left = asyncio.ensure_future(turns.run(partial(ran.append, 1)))
        others = [asyncio.ensure_future(turns.run(partial(ran.append, i))) for i in (2, 3)]
        loop.call_soon(left.cancel)
        return await asyncio.gather(wrong, left, *others, return_exceptions=True)

    found = asyncio.run(run())
    assert [type(one) for one in found[:2]] == [ZeroDivisionError, asyncio.CancelledError]
    assert found[2:] == [None, None]
    assert ran[-2:] == [2, 3]


def test_more_watched_keys_than_the_limit_are_refused(tmp_path: Path) -> None:
    """The keys of all open streams count toward the limit, until a stream ends."""
    with served(tmp_path) as made:
        made.commit({"key": "a", "start": 1})
        service = Service(tmp_path, ServiceSettings(Limits(watched_keys=3)))
        client = ApiClient(service)
        watch = "/v1/stores/store/watch?for_ms=1&key=a&key=b"
        with service.gate.stream(2):
            assert_problem(client.get(watch), 503, "overloaded", "--limit-watched-keys")
        assert client.get(f"{watch}&key=c").status == 200
        assert_problem(client.get(f"{watch}&key=c&key=d"), 503, "overloaded")
        assert service.gate.watched_keys == 0
        service.catalog.close()
