"""Tests of retries: which requests are repeated, when, and how often, and unexpected responses."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random
from typing import Any

import httpx
import pytest

from oriel.client import (
    AsyncClient,
    Client,
    InvalidRequest,
    KeysOfSeveralShards,
    NotAllowed,
    NotFound,
    NotReady,
    OrielError,
    Position,
    PositionNotReached,
    Problem,
    Retries,
    ServiceFailed,
    ServiceUnreachable,
    UnexpectedAnswer,
)
from oriel.client.errors import problem_of
from oriel.client.protocol import Address, RawResponse
from oriel.client.store_reads import stores, wait_for
from oriel.client.transport.exchange import Pause, Send, exchange
from oriel.client.window_reads import latest
from tests.ports import reserved_port

_STORES = RawResponse(200, {}, b'{"stores": []}')


def _problem(status: int, code: str = "some-code", **headers: str) -> RawResponse:
    document = {"status": status, "code": code, "title": "T", "detail": "D", "instance": "/"}
    return RawResponse(status, headers, json.dumps(document).encode())


def _pauses(
    read: Any, *responses: RawResponse | ServiceUnreachable, attempts: int = 5
) -> list[float]:
    """Return the pauses until the value, for these responses in their order."""
    steps = exchange(read, Retries(attempts), Random(1))
    rest = iter(responses)
    pauses: list[float] = []
    outcome: RawResponse | ServiceUnreachable | None = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration:
            assert not list(rest)
            return pauses
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            outcome = None
        else:
            outcome = next(rest)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_may_pass_is_tried_again_after_what_it_asks_for(status: int) -> None:
    """A retry follows at Retry-After or up to a quarter later, so that clients do not coincide."""
    busy = _problem(status, **{"retry-after": "3"})
    pauses = _pauses(stores(), busy, busy, _STORES)
    assert len(pauses) == 2
    assert [pause for pause in pauses if not 3 <= pause <= 3.75] == []
    assert pauses[0] != pauses[1]


def test_without_a_word_of_it_pauses_double() -> None:
    """Without Retry-After or without a response, pauses start at 0.1 s and double."""
    pauses = _pauses(
        stores(),
        ServiceUnreachable("refused"),
        _problem(503),
        RawResponse(502, {}, b"<html>"),
        _STORES,
    )
    for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True):
        assert least <= pause <= least * 1.25


def test_retry_after_may_be_a_date() -> None:
    """Retry-After can be a date. A past date means no pause, and an invalid value is ignored."""
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=9), usegmt=True)
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    pauses = _pauses(
        stores(), _problem(503, **{"retry-after": soon}), _problem(503, **{"retry-after": past}),
        _problem(503, **{"retry-after": "whenever"}), _STORES,
    )  # fmt: skip
    # Up to a quarter is added. A slow machine can use some of the 9 seconds before the read.
    assert 3 < pauses[0] <= 11.25
    assert pauses[1] == 0
    assert 0.4 <= pauses[2] <= 0.5


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (_problem(404), NotFound), (_problem(400), InvalidRequest),
        (_problem(401), NotAllowed), (_problem(403), NotAllowed),
        (_problem(406), InvalidRequest), (_problem(410), InvalidRequest),
        (_problem(500), ServiceFailed), (_problem(503, **{"retry-after": "3600"}), NotReady),
        (_problem(503, "behind-position-bound", **{"retry-after": "1"}), PositionNotReached),
        (RawResponse(404, {}, b"<html>not here</html>"), UnexpectedAnswer),
        (RawResponse(418, {}, b"[]"), UnexpectedAnswer),
        (RawResponse(200, {}, b"<html>log in</html>"), UnexpectedAnswer),
        (RawResponse(200, {}, b'{"shops": []}'), UnexpectedAnswer),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_raised_at_once(
    response: RawResponse, error: type[OrielError]
) -> None:
    """Permanent errors and long Retry-After values are raised without a retry."""
    with pytest.raises(error) as raised:
        _pauses(stores(), response)
    if isinstance(raised.value, Problem):
        assert (raised.value.title, raised.value.detail) == ("T", "D")


def test_the_number_of_attempts_is_bounded() -> None:
    """After the last attempt, its error is raised."""
    with pytest.raises(ServiceUnreachable, match="third"):
        _pauses(stores(), *map(ServiceUnreachable, ("first", "second", "third")), attempts=3)


def test_a_wait_for_a_position_is_no_failure() -> None:
    """A wait for a position is repeated until its time is over, beyond the number of attempts."""
    not_reached = _problem(503, "behind-position-bound", **{"retry-after": "0"})
    reached = RawResponse(200, {}, b'{"position": {"version": 3, "offsets": {}}, "keys": []}')
    read = wait_for(Address("s"), Position(3), wait_s=60)
    assert len(_pauses(read, *[not_reached] * 7, reached, attempts=2)) == 7
    steps = exchange(read, Retries(), Random(1))
    sent = next(steps)
    assert isinstance(sent, Send)
    assert dict(sent.request.query) == {"min_version": "3", "limit": "1", "wait_ms": "10000"}
    assert sent.wait_s == 10
    with pytest.raises(PositionNotReached):
        _pauses(wait_for(Address("s"), Position(3), wait_s=0), not_reached)
    # The client also waits for a store that is not ready, but never retries before Retry-After.
    assert len(_pauses(read, *[_problem(503)] * 4, reached, attempts=2)) == 4
    for delay_s in ("61", "30"):
        with pytest.raises(NotReady):
            _pauses(read, _problem(503, **{"retry-after": delay_s}))


def test_what_is_not_there_is_none() -> None:
    """A read returns None without a window or row. An unknown store raises an error."""
    steps = exchange(latest(Address("s"), "k"), Retries(), Random(1))
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(_problem(404, "window-not-found"))
    assert end.value.value is None
    with pytest.raises(Problem):
        _pauses(latest(Address("s"), "k"), _problem(404, "unknown-store"))


def test_a_problem_without_its_fields_is_no_problem_document() -> None:
    """The error for a response that is not a problem document shows its body."""
    error = problem_of(400, b'{"error": "bad"}', None)
    assert isinstance(error, UnexpectedAnswer)
    assert "bad" in str(error)


def test_keys_of_several_shards_name_the_shard_of_each_key() -> None:
    """The error has the shard of each key, so that a program can send one request per shard."""
    document = {"code": "keys-of-several-shards", "status": 400, "owners": [1, 2, 1]}
    error = problem_of(400, json.dumps(document).encode(), None)
    assert isinstance(error, KeysOfSeveralShards)
    assert error.owners == (1, 2, 1)
    del document["owners"]
    older = problem_of(400, json.dumps(document).encode(), None)
    assert isinstance(older, KeysOfSeveralShards)
    assert older.owners == ()


def _answering(*responses: Mapping[str, Any]) -> tuple[Callable[..., Any], list[httpx.Request]]:
    rest: Iterator[Mapping[str, Any]] = iter(responses)
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(**next(rest))

    return handle, seen


def test_both_clients_pause_and_send_again() -> None:
    """Both clients retry with the current token, which is not part of the URL."""
    tokens = iter(["one", "two", "three", "four"])
    busy = {"status_code": 503, "headers": {"Retry-After": "0"}, "json": {}}
    good = {"status_code": 200, "json": {"stores": []}}
    handle, seen = _answering(busy, good, busy, good)
    transport = httpx.MockTransport(handle)
    with Client("http://oriel/", token=lambda: next(tokens), transport=transport) as client:
        assert client.stores() == []

    async def use() -> None:
        async with AsyncClient(
            "http://oriel", token=lambda: next(tokens), transport=transport
        ) as other:
            assert await other.stores() == []

    asyncio.run(use())
    sent = [request.headers["authorization"] for request in seen]
    assert sent == ["Bearer one", "Bearer two", "Bearer three", "Bearer four"]
    assert {str(request.url) for request in seen} == {"http://oriel/v1/stores"}


def test_nobody_there_is_one_line() -> None:
    """Without a service, the error of both clients has the URL and the reason."""
    once, url = Retries(attempts=1), f"http://127.0.0.1:{reserved_port()}"
    with (
        Client(url, token="secret", retries=once) as client,  # noqa: S106
        pytest.raises(ServiceUnreachable, match=rf"no response from {url}: .*refused"),
    ):
        client.stores()

    async def use() -> None:
        async with AsyncClient(url, retries=once) as other:
            await other.stores()

    with pytest.raises(ServiceUnreachable, match="no response from"):
        asyncio.run(use())
    with pytest.raises(ValueError, match="is not an address"):
        Client("http://[::1")
    with pytest.raises(ValueError, match=r"'localhost' is not the address of a service\. Use"):
        Client("localhost")
