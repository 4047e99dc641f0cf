"""Tests of following changes: over broken connections, until the token ends, without a stream."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import httpx
import pytest

from oriel.client import (
    AsyncClient,
    Change,
    Client,
    Gone,
    NotAllowed,
    NotFound,
    NotReady,
    OrielError,
    Position,
    Removed,
    Retries,
    ServiceUnreachable,
    UnexpectedAnswer,
    Window,
)
from oriel.client.protocol import Address
from oriel.client.store_reads import watch_windows
from oriel.client.terminal import command
from oriel.client.transport.streaming import Following
from tests.client.conftest import Running

#: Attempts without a pause.
_AT_ONCE = Retries(attempts=4, longest_pause_s=0.0)


def _event(name: str, number: int, **fields: Any) -> bytes:
    content = {"store": "store", "position": {"version": number, "offsets": {}}, **fields}
    return f"event: {name}\nid: {number}-a-b\ndata: {json.dumps(content)}\n\n".encode()


def _window(start_ms: int) -> dict[str, Any]:
    return {
        "key": "é", "window_start_ms": start_ms, "window_end_ms": start_ms + 10, "n": 2**63 - 1,
        "timestamp_ms": start_ms, "final": False,
    }  # fmt: skip


_REMOVED = {"key": "é", "window_start_ms": 1, "window_end_ms": 2}
_EVENTS = [
    _event("position", 1),
    _event("change", 2, windows=[_window(10)], removed=[_REMOVED]),
    b"id: 4-a-b\n\n",
    _event("change", 5, windows=[_window(20)], removed=[]),
    _event("reset", 6, reason="rows were deleted"),
]
_PROBLEM = {"status": 401, "code": "unauthorized", "title": "T", "detail": "expired"}
_DENIED = b"event: denied\ndata: " + json.dumps(_PROBLEM).encode() + b"\n\n"


#: The data of one connection, which an exception breaks, or the status and code of a problem.
Connection = list[bytes | Exception] | tuple[int, str]


class _Stub:
    """A service that returns these connections in their order."""

    def __init__(self, *connections: Connection) -> None:
        self._connections = iter(connections)
        #: ``Last-Event-ID`` of each request.
        self.last_event_ids: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.last_event_ids.append(request.headers.get("last-event-id"))
        content = next(self._connections)
        if isinstance(content, tuple):
            status, code = content
            return httpx.Response(status, json={"status": status, "code": code})
        return httpx.Response(200, stream=_Pieces(content))


class _Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, content: list[bytes | Exception]) -> None:
        self._pieces = content

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def _follow(stub: _Stub) -> tuple[list[Change[Window]], OrielError]:
    """Return all changes and the error that ends the stream."""
    changes = []
    transport = httpx.MockTransport(stub)
    with Client("http://oriel", retries=_AT_ONCE, transport=transport) as client:
        try:
            for change in client.window_store("store").watch("é", after=1):
                changes.append(change)  # noqa: PERF402 - kept where the stream ends by an error
        except OrielError as error:
            return changes, error
    raise AssertionError


def _follow_async(stub: _Stub) -> tuple[list[Change[Window]], OrielError]:
    async def run() -> tuple[list[Change[Window]], OrielError]:
        changes = []
        transport = httpx.MockTransport(stub)
        async with AsyncClient("http://oriel", retries=_AT_ONCE, transport=transport) as client:
            try:
                async for change in client.window_store("store").watch("é", after=1):
                    changes.append(change)  # noqa: PERF401 - as above
            except OrielError as error:
                return changes, error
        raise AssertionError

    return asyncio.run(run())


Follow = Callable[[_Stub], tuple[list[Change[Window]], OrielError]]
both_clients = pytest.mark.parametrize("follow", [_follow, _follow_async])


@both_clients
def test_a_broken_stream_resumes_at_its_position(follow: Follow) -> None:
    """A broken stream resumes after the last id, also of a heartbeat. Data resets the attempts."""
    broken = httpx.ReadError("reset by peer")
    stub = _Stub(
        [_EVENTS[0], _EVENTS[1][:30], broken],
        (503, "store-not-ready"),
        [_EVENTS[1], _EVENTS[2]],
        [broken],
        (503, "overloaded"),
        [_EVENTS[3] + _EVENTS[4][:9], _EVENTS[4][9:], _DENIED],
    )
    changes, error = follow(stub)
    assert stub.last_event_ids == [None, "1-a-b", "1-a-b", "4-a-b", "4-a-b", "4-a-b"]
    assert [change.position.version for change in changes] == [1, 2, 5, 6]
    assert [[window.start_ms for window in change.items] for change in changes] == [
        [], [10], [20], [],
    ]  # fmt: skip
    assert changes[1].items[0]["n"] == 2**63 - 1
    assert changes[1].removed == [Removed("é", 1, 2)]
    assert [change.reset for change in changes] == [None, None, None, "rows were deleted"]
    assert isinstance(error, NotAllowed)
    assert (error.code, str(error)) == ("unauthorized", "expired")


@both_clients
@pytest.mark.parametrize(
    ("connection", "kind"),
    [
        ((404, "unknown-route"), NotFound),
        ([b"event: change\ndata: {}\n\n"], UnexpectedAnswer),
        ([b"event: change\ndata: [\n\n"], UnexpectedAnswer),
        ([b"event: denied\ndata: [\n\n"], UnexpectedAnswer),
    ],
)
def test_a_permanent_error_is_raised_immediately(
    follow: Follow, connection: Connection, kind: type
) -> None:
    """A permanent error is raised without another attempt."""
    stub = _Stub(connection)
    assert isinstance(follow(stub)[1], kind)
    assert len(stub.last_event_ids) == 1


@both_clients
def test_an_unavailable_service_is_an_error(follow: Follow) -> None:
    """An unavailable service is an error after the usual number of attempts."""
    refused: Connection = [httpx.ConnectError("refused")]
    stub = _Stub(*[refused] * 4)
    assert isinstance(follow(stub)[1], ServiceUnreachable)
    stub = _Stub(*[(503, "overloaded")] * 4)
    assert isinstance(follow(stub)[1], NotReady)


def test_events_may_be_cut_anywhere() -> None:
    """Events can be cut at any byte, even within a character."""
    whole = b": resumed\n\n" + b"".join(_EVENTS)
    expected = [*Following(watch_windows(Address("s")), _AT_ONCE, Random(1)).took(whole)]
    assert len(expected) == 4
    for cut in range(len(whole)):
        following = Following(watch_windows(Address("s")), _AT_ONCE, Random(1))
        assert [*following.took(whole[:cut]), *following.took(whole[cut:])] == expected


@pytest.mark.slow
def test_changes_of_a_real_service_are_followed(client: Client, running: Running) -> None:
    """A stream has the changes of its key after a position, an id or a version."""
    store = client.window_store("store")
    changes = store.watch("told")
    begin = next(changes)
    assert (begin.items, begin.reset) == ([], None)
    running.table.commit([{"key": "told", "start": 10, "n": 1}, {"key": "other", "start": 10}])
    version = running.table.commit([{"key": "told", "start": 20, "n": 2}])
    first, second = islice(changes, 2)
    changes.close()  # type: ignore[attr-defined]
    assert [(w.key, w["n"]) for w in (*first.items, *second.items)] == [("told", 1), ("told", 2)]
    assert first.items == [store.window("told", 10)]
    assert second.position == store.wait_for(Position(version))
    assert next(store.watch("told", after=first.id)).items == second.items
    assert next(store.watch("told", after=begin.position.version)).items == first.items
    assert next(store.watch("told", after=begin.position)).items == first.items
    lost = replace(begin.position, history="01234567-01234567")
    assert next(store.watch("told", after=lost)).reset is not None
    with pytest.raises(Gone):
        store.at_least(lost).latest("told")
    totals = client.key_value_store("totals")
    assert next(totals.watch("a")).position == totals.position()


def test_without_a_stream_a_key_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no stream is available, `oriel get --watch` polls the key."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    stub = _Stub([_EVENTS[0]], (404, "unknown-route"))
    transport = httpx.MockTransport(stub)
    with Client("http://oriel", retries=_AT_ONCE, transport=transport) as client:
        occasions = command._occasions(client.window_store("store"), "é")
        assert len([*islice(occasions, 5)]) == 5
    assert len(stub.last_event_ids) == 2
    assert pauses.count(command._EVERY_S) == 3
