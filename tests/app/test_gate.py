"""Tests of the memory limit of long responses, with a time that the test sets."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oriel.app.contract import Limits, Overloaded
from oriel.app.guards import Gate
from tests.storage.waiting import wait_in_loop

_PIECE = 64 * 1024
_BODY = b"x" * (8 * _PIECE)


class _Client:
    """A client that reads one piece of its response per call of ``take``."""

    def __init__(self, gate: Gate) -> None:
        self.received = 0
        self.is_aborted = False
        self.pieces_offered = 0
        self._may_take = asyncio.Semaphore(0)
        scope = {"extensions": {"oriel.abort": self._abort}}
        self.response = asyncio.ensure_future(gate.send(scope, self._send, 200, [], _BODY))

    def _abort(self) -> None:
        self.is_aborted = True
        self.response.cancel()

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.body":
            self.pieces_offered += 1
            await self._may_take.acquire()
            self.received += len(message["body"])

    async def take(self) -> None:
        """Read the next piece, and wait until the gate has processed it."""
        offered = max(self.pieces_offered, 1)
        self._may_take.release()
        await wait_in_loop(
            lambda: self.pieces_offered > offered or self.response.done(), "the next piece"
        )


def _gate(unsent_bytes: int, clock: Callable[[], float]) -> Gate:
    gate = Gate(Limits(unsent_bytes=unsent_bytes), clock)
    for _ in range(3):
        gate.enter()
    return gate


def test_a_client_that_takes_64_kb_per_second_keeps_its_response() -> None:
    """A client that reads 64 KB/s keeps its response, although slower clients are newer."""

    async def run() -> None:
        now = 0.0
        gate = _gate(2 * len(_BODY), lambda: now)
        steady, stuck = _Client(gate), _Client(gate)
        for _ in range(7):
            await steady.take()
            now += 1.0
        assert gate.unsent_bytes == 2 * len(_BODY)
        newest = _Client(gate)
        await newest.take()
        assert (steady.is_aborted, stuck.is_aborted) == (False, True)
        await steady.take()
        assert steady.received == len(_BODY)
        for _ in range(7):
            await newest.take()
        assert newest.received == len(_BODY)
        assert (gate.unsent_bytes, gate.requests) == (0, 3)

    asyncio.run(run())


def test_a_response_is_refused_while_all_others_are_fast_enough() -> None:
    """No client loses its response within the first second, so a new response is rejected."""

    async def run() -> None:
        now = 0.0
        gate = _gate(2 * len(_BODY), lambda: now)
        clients = [_Client(gate), _Client(gate)]
        await clients[0].take()
        now = 0.9
        refused = _Client(gate)
        with pytest.raises(Overloaded, match="--limit-unsent-bytes"):
            await refused.response
        assert [client.is_aborted for client in clients] == [False, False]
        for client in clients:
            client.response.cancel()

    asyncio.run(run())


def test_a_long_read_takes_no_place_of_other_requests() -> None:
    """Long reads have their own limit, so that short reads find a slot."""
    gate = Gate(Limits(requests=1, long_reads=1))
    gate.enter()
    with gate.long_read():
        gate.enter()
        with pytest.raises(Overloaded, match="--limit-long-reads"), gate.long_read():
            pass
        with gate.long_read(always=True):
            assert (gate.requests, gate.long_reads) == (0, 2)
    assert (gate.requests, gate.long_reads) == (2, 0)
