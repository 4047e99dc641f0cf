"""Event streams: what changes of a store, or of some of its keys, told as it happens.

A stream has no buffer of its own. It knows how far it has come and sends the next version's rows
when its client has taken those before, so a slow client costs one event of memory. Who takes
nothing is closed in time and comes back with the id of its last event.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import orjson

from oriel.app.contract import (
    EVENT_STREAM,
    OPERATIONS,
    ApiError,
    MethodNotAllowed,
    decode_path,
    problem_answer,
)
from oriel.app.guards import AccessGuard, Gate, Scope, Send
from oriel.app.push.changes import ChangeReader, Changes, ResetNeeded
from oriel.app.push.events import EventId, event, frame, heartbeat
from oriel.app.reads import StoreCatalog, StoreView, position_of
from oriel.storage import StoreNotReady, UnknownStore
from oriel.storage.delta import DeltaLog
from oriel.storage.index import IndexState

#: Seconds between two signs of life of a stream that has nothing to tell.
HEARTBEAT_SECONDS = 15.0
#: Seconds between two looks whether the token of a silent stream is still good. What is told
#: never waits for one: it is looked before each event.
_ACCESS_SECONDS = 5.0
#: Bytes of rows in one event, unless one row is longer.
_EVENT_BYTES = 64 * 1024

_WATCH = OPERATIONS["watch"]

_HEADERS = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache"),
    # nginx would keep events until it has some kilobytes.
    (b"x-accel-buffering", b"no"),
]


def watched_store(raw_path: bytes) -> bytes | None:
    """The raw name of the store whose changes a path asks for; None when it is another path."""
    parts = raw_path.split(b"/")
    if len(parts) != 5 or parts[1:3] != [b"v1", b"stores"] or parts[4] != b"watch":
        return None
    return parts[3]


class _Watched(NamedTuple):
    """What one stream tells: to whom, of which keys (none: of all), and until when."""

    scope: Scope
    view: StoreView
    keys: Sequence[str]
    until: float


class _Denied(Exception):
    """The token of a stream reaches it no more; ``problem`` is the document that says why."""

    def __init__(self, problem: bytes) -> None:
        super().__init__()
        self.problem = problem


class EventStreams:
    """The event streams of a worker."""

    def __init__(self, catalog: StoreCatalog, gate: Gate, access: AccessGuard | None) -> None:
        """There are none; each takes a place of the gate, and ends when its token does."""
        self._catalog = catalog
        self._gate = gate
        self._access = access
        self.reader = ChangeReader()

    def close(self) -> None:
        """End what reads for the streams; there are none any more."""
        self.reader.close()

    async def serve(self, store: bytes, scope: Scope, send: Send) -> None:
        """Tell changes until the client goes, its time is up, or the worker ends.

        Raises:
            ApiError: the request can't be answered; nothing was sent.
            StorageError: the store can't answer now; nothing was sent.
        """
        if scope["method"] not in {"GET", "HEAD"}:
            message = f"{scope['method']} is not allowed here; stores are read only"
            raise MethodNotAllowed(message)
        view = self._catalog.view(decode_path(store))
        query = _WATCH.query.read(scope["query_string"])
        after = _last_event_id(scope, query["after"])
        with view.snapshot() as snapshot:
            state = snapshot.state
        for key in query["key"]:
            # One that can't be there would be watched in vain.
            state.definition.keys.escaped(key)
        for_ms = query["for_ms"]
        until = float("inf") if for_ms is None else time.monotonic() + for_ms / 1000
        watched = _Watched(scope, view, tuple(dict.fromkeys(query["key"])), until)
        with self._gate.stream():
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if scope["method"] == "GET":
                try:
                    at = await self._begin(watched, state, after, send)
                    await self._go_on(watched, state, at, send)
                except _Denied as denied:
                    # Without an id: who comes back with another token goes on where it was.
                    await _send(send, b"event: denied\ndata: %b\n\n" % denied.problem)
            await send({"type": "http.response.body", "body": b""})

    async def _begin(
        self, watched: _Watched, state: IndexState, after: EventId | None, send: Send
    ) -> EventId:
        """Send what a stream begins with; returns how far the client is then."""
        if after is None:
            at = EventId.of(state.version, state.table_id, state.digest)
            await _send(send, event("position", at, _told(watched.view, state)))
            return at
        reason = _why_not_after(watched.view.log, state, after)
        if reason is not None:
            return await _reset(watched.view, state, reason, send)
        await _send(send, b": resumed\n\n")
        return after

    async def _go_on(self, watched: _Watched, state: IndexState, at: EventId, send: Send) -> None:
        """Send each version that the index comes to, from the row behind ``at`` on."""
        view = watched.view
        table_id = state.table_id
        sign_at = time.monotonic() + HEARTBEAT_SECONDS
        while True:
            self._check_access(watched)
            newest = _newest(view)
            if newest is not None and newest.table_id != table_id:
                at = await _reset(view, newest, "the table was replaced by another", send)
                table_id = newest.table_id
            is_behind = newest is not None and _is_behind(at, newest.version)
            if newest is not None and is_behind:
                try:
                    at = await self._send_next(watched, newest, at, send)
                except ResetNeeded as error:
                    at = await _reset(view, newest, str(error), send)
                # What is kept costs no waiting: who catches up must not keep the others out.
                await asyncio.sleep(0)
            now = time.monotonic()
            if now >= sign_at:
                # Also where the store changes all the time, but none of the watched keys.
                await _send(send, heartbeat(at))
                sign_at = now + HEARTBEAT_SECONDS
            if is_behind and not self._gate.is_closing:
                continue
            if self._gate.is_closing or now >= watched.until:
                # What is missing comes behind the id of the last event, from another worker.
                return
            known, table = at.version, table_id
            look_seconds = HEARTBEAT_SECONDS if self._access is None else _ACCESS_SECONDS
            await view.watcher.wait(
                lambda state: state.version > known or state.table_id != table,  # noqa: B023
                min(look_seconds, sign_at - now, watched.until - now),
            )

    def _check_access(self, watched: _Watched) -> None:
        """Raise ``_Denied`` where a token has ended, was taken back or reaches less by now."""
        if self._access is None:
            return
        try:
            self._access.check_again(watched.scope)
        except (ApiError, UnknownStore) as error:
            path = watched.scope["raw_path"].decode("latin-1")
            raise _Denied(problem_answer(error, path).body) from error

    async def _send_next(
        self, watched: _Watched, state: IndexState, at: EventId, send: Send
    ) -> EventId:
        """Send what is left of a version, or the next one; returns how far the client is then.

        The log is read with the definition that the index has; an entry that changes it resets.
        """
        version, from_row = (at.version + 1, 0) if at.row is None else (at.version, at.row)
        changes = await self.reader.changes(
            watched.view.log, state.table_id, state.definition, version
        )
        at = EventId.of(version, state.table_id, changes.digest)
        rows = changes.rows_of(watched.keys, from_row)
        pieces = _pieces(changes, [int(row) for row in rows])
        for number, piece in enumerate(pieces, 1):
            row = None if number == len(pieces) else piece[-1] + 1
            self._check_access(watched)
            told = _told(watched.view, state, version, changes)
            await _send(send, frame("change", at._replace(row=row), _data(told, changes, piece)))
        return at


def _last_event_id(scope: Scope, after: str | None) -> EventId | None:
    """Where the client is: by its header, which a browser sends anew each time, or its query."""
    for name, value in scope["headers"]:
        if name == b"last-event-id" and value:
            return EventId.read(value.decode("latin-1"))
    return None if after is None else EventId.read(after)


def _is_behind(at: EventId, version: int) -> bool:
    """Whether there is something to send up to a version."""
    return at.version < version or (at.version == version and at.row is not None)


def _newest(view: StoreView) -> IndexState | None:
    """The state of the index; None while it can't answer."""
    try:
        with view.snapshot() as snapshot:
            return snapshot.state
    except StoreNotReady:
        return None


def _why_not_after(log: DeltaLog, state: IndexState, after: EventId) -> str | None:
    """Why a stream can't go on behind an event; None when it can."""
    ours = EventId.of(after.version, state.table_id, "")
    if after.table not in {"", ours.table}:
        return "the table was replaced by another"
    if after.digest == "":
        return None
    entry = log.read(after.version)
    if entry is not None and not entry.digest.startswith(after.digest):
        return f"version {after.version} was replaced by another"
    return None


async def _reset(view: StoreView, state: IndexState, reason: str, send: Send) -> EventId:
    """Say that the client has to read anew, and go on behind the index's version."""
    at = EventId.of(state.version, state.table_id, state.digest)
    await _send(send, event("reset", at, {**_told(view, state), "reason": reason}))
    return at


def _told(
    view: StoreView,
    state: IndexState,
    version: int | None = None,
    changes: Changes | None = None,
) -> dict[str, Any]:
    """Store and position, of the index's version or of the one that changed something."""
    if changes is None:
        return {"store": view.name, "position": position_of(state)}
    offsets = {} if changes.record is None else changes.record.offsets
    return {"store": view.name, "position": {"version": version, "offsets": offsets}}


def _pieces(changes: Changes, rows: list[int]) -> list[list[int]]:
    """Cut rows into events of bounded size; none where there are no rows."""
    pieces: list[list[int]] = []
    begin = 0
    ends = list(accumulate(len(changes.windows[row]) for row in rows))
    sent = 0
    for number, end in enumerate(ends, 1):
        if end - sent >= _EVENT_BYTES or number == len(rows):
            pieces.append(rows[begin:number])
            begin, sent = number, end
    return pieces


def _data(told: Mapping[str, Any], changes: Changes, piece: Sequence[int]) -> bytes:
    """The data of one event: store, position, changed windows or rows, and those removed."""
    first = orjson.loads(changes.windows[piece[0]])
    is_windowed = "window_start_ms" in first
    changed = b",".join(changes.windows[row] for row in piece if not changes.deleted[row])
    gone = [_identity(changes.windows[row]) for row in piece if changes.deleted[row]]
    return b'%b,"%b":[%b],"removed":%b}' % (
        orjson.dumps(told)[:-1],
        b"windows" if is_windowed else b"rows",
        changed,
        orjson.dumps(gone),
    )


def _identity(window: bytes) -> dict[str, Any]:
    """What tells a removed window, or row."""
    fields = orjson.loads(window)
    names = ("key", "window_start_ms", "window_end_ms")
    return {name: fields[name] for name in names if name in fields}


async def _send(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})
