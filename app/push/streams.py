"""Event streams with the changes of a store, or of some of its keys.

A stream does not have its own buffer. It sends the rows of the next version after its client has
read the previous event, so a slow client costs the memory of one event. A connection whose client
reads nothing is closed after a time limit. The client reconnects with the id of its last event.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import orjson

from oriel.app.contract import (
    EVENT_STREAM,
    OPERATIONS,
    ApiError,
    InvalidParameter,
    MethodNotAllowed,
    decode_path,
    problem_response,
)
from oriel.app.guards import AccessGuard, Gate, Scope, Send, Turns
from oriel.app.push.current import CurrentPiece, CurrentWindows
from oriel.app.push.events import EventId, event, frame, heartbeat
from oriel.app.reads import (
    Changes,
    ResetNeeded,
    Rows,
    StoreCatalog,
    StoreView,
    excluded_columns,
    position_of,
)
from oriel.storage import Place, StoreNotReady, UnknownStore
from oriel.storage.index import IndexState, WindowSnapshot

#: Seconds between two heartbeats of a stream without changes.
HEARTBEAT_SECONDS = 15.0
#: Seconds between two checks of the token of a stream without changes. In addition, the token is
#: checked before each event.
_ACCESS_SECONDS = 5.0
#: Bytes of rows in one event, unless one row is longer.
_EVENT_BYTES = 64 * 1024
#: Versions whose changed keys become one event of current windows. After each event a stream that
#: has many versions to read can send a heartbeat.
_VERSIONS_MAX = 100
#: Changed keys at which an event of current windows includes no more versions. A stream keeps the
#: keys in memory while it waits for its client.
_KEYS_MAX = 10_000
#: The number of cached versions without a row for the stream that one step can skip.
_VERSIONS_PER_STEP = 16

_WATCH = OPERATIONS["watch"]

_HEADERS = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache"),
    # nginx would keep events until it has some kilobytes.
    (b"x-accel-buffering", b"no"),
]


def watched_store(raw_path: bytes) -> bytes | None:
    """Return the raw name of the store whose changes a path requests, None for other paths."""
    parts = raw_path.split(b"/")
    if len(parts) != 5 or parts[1:3] != [b"v1", b"stores"] or parts[4] != b"watch":
        return None
    return parts[3]


class _Watched(NamedTuple):
    """The request of one stream.

    Attributes:
        scope: The ASGI scope of the request.
        view: The store.
        keys: The keys whose changes are sent. If it is empty, the changes of all keys.
        until: The end of the stream in seconds of ``time.monotonic()``.
        columns: The aggregates of the sent windows, None for all.
        is_current: True if the stream sends only the current windows.
    """

    scope: Scope
    view: StoreView
    keys: Mapping[str, None]
    until: float
    columns: Sequence[str] | None
    is_current: bool

    def left_out(self, state: IndexState) -> frozenset[str]:
        """Return the aggregates that are removed from the windows."""
        if self.columns is None:
            return frozenset()
        known = {aggregate.name for aggregate in state.definition.aggregates}
        return frozenset(known.difference(self.columns))


class _Denied(Exception):
    """The token of a stream no longer grants access to it. ``problem`` is the problem document."""

    def __init__(self, problem: bytes) -> None:
        super().__init__()
        self.problem = problem


#: Steps of all streams in one turn of the event loop. Each step wakes a stream, and the stream
#: sends its event in the next turn.
_STEPS_PER_TURN = 64


class EventStreams:
    """The event streams of a worker."""

    def __init__(self, catalog: StoreCatalog, gate: Gate, access: AccessGuard | None) -> None:
        """Start without streams. Each stream uses a slot of the gate, and ends with its token."""
        self._catalog = catalog
        self._gate = gate
        self._access = access
        self.reader = catalog.changes
        self.current = CurrentWindows()
        self.turns = Turns(_STEPS_PER_TURN)

    def close(self) -> None:
        """End the thread that reads changes, after all streams have ended."""
        self.reader.close()

    async def serve(self, store: bytes, scope: Scope, send: Send) -> None:
        """Send changes until the client disconnects, its time is up, or the worker ends.

        Raises:
            ApiError: The request is invalid or exceeds a limit. Nothing was sent.
            StorageError: The store cannot be read now. Nothing was sent.
        """
        if scope["method"] not in {"GET", "HEAD"}:
            message = f"{scope['method']} is not allowed for this operation. Use GET."
            raise MethodNotAllowed(message)
        view = self._catalog.view(decode_path(store))
        query = _WATCH.query.read(scope["query_string"])
        after = _last_event_id(scope, query["after"])
        with view.snapshot() as snapshot:
            state = snapshot.state
        keys = dict.fromkeys(query["key"])
        for key in keys:
            # Reject a string that cannot be a key of the store.
            state.definition.keys.escaped(key)
        excluded_columns(view.name, state.definition, query["columns"])
        if query["current"] and not state.definition.window.is_windowed:
            message = f"store {view.name!r}: it has no windows. Send the request without current."
            raise InvalidParameter(message)
        for_ms = query["for_ms"]
        until = float("inf") if for_ms is None else time.monotonic() + for_ms / 1000
        watched = _Watched(scope, view, keys, until, query["columns"], query["current"])
        with self._gate.stream(len(keys)):
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            if scope["method"] == "GET":
                try:
                    at = await self._begin(watched, state, after, send)
                    await self._continue(watched, at, send)
                except _Denied as denied:
                    # Without an id, so that a client with a new token resumes after its last event.
                    await _send(send, b"event: denied\ndata: %b\n\n" % denied.problem)
            await send({"type": "http.response.body", "body": b""})

    async def _begin(
        self, watched: _Watched, state: IndexState, after: EventId | None, send: Send
    ) -> EventId:
        """Send the start of a stream, and return the point that the client has reached."""
        if after is None:
            at = EventId.of(state.version, state.table_id, state.digest)
            await _send(send, event("position", at, _event_position(watched.view, state)))
            return at
        await _send(send, b": resumed\n\n")
        return await _with_history(watched.view, state, after)

    async def _continue(self, watched: _Watched, at: EventId, send: Send) -> None:
        """Send each new version of the index, from the row after ``at`` on."""
        view = watched.view
        heartbeat_at = time.monotonic() + HEARTBEAT_SECONDS
        while True:
            self._check_access(watched)
            newest = _newest(view)
            seen = newest and newest.place
            if newest and watched.is_current and not await view.history.has(newest):
                # The index is not rebuilt yet, so its windows are from a lost history.
                newest = None
            reason = None if newest is None else await _lost_reason(view, newest, at)
            if newest is not None and reason is not None:
                at = await _reset(view, newest, reason, send)
            has_unsent_rows = newest is not None and _has_unsent_rows(at, newest.version)
            if newest is not None and has_unsent_rows:
                try:
                    send_next = self._send_current if watched.is_current else self._send_next
                    at = await send_next(watched, newest, at, send)
                except ResetNeeded as error:
                    at = await _reset(view, newest, str(error), send)
            now = time.monotonic()
            if now >= heartbeat_at:
                # Also if the store changes all the time, but the watched keys do not.
                await _send(send, heartbeat(at))
                heartbeat_at = now + HEARTBEAT_SECONDS
            if has_unsent_rows and not self._gate.is_closing:
                continue
            if self._gate.is_closing or now >= watched.until:
                # Another worker sends the next changes after the id of the last event.
                return
            check_seconds = HEARTBEAT_SECONDS if self._access is None else _ACCESS_SECONDS
            await view.watcher.wait(
                lambda state: state.place != seen,  # noqa: B023
                min(check_seconds, heartbeat_at - now, watched.until - now),
            )

    def _check_access(self, watched: _Watched) -> None:
        """Raise ``_Denied`` if the token has expired, was removed, or grants less access."""
        if self._access is None:
            return
        try:
            self._access.check_again(watched.scope)
        except (ApiError, UnknownStore) as error:
            path = watched.scope["raw_path"].decode("latin-1")
            raise _Denied(problem_response(error, path).body) from error

    async def _send_next(
        self, watched: _Watched, state: IndexState, at: EventId, send: Send
    ) -> EventId:
        """Send the rest of a version, or the next version, and return the point after it.

        The log is read with the definition of the index. An entry that changes the definition
        resets the stream.
        """
        version, from_row = (at.version + 1, 0) if at.row is None else (at.version, at.row)
        left_out = watched.left_out(state)
        changes = await self.reader.changes(
            watched.view.log, state.table_id, state.definition, version, left_out
        )
        _require_same_history(at, changes)
        changes, rows = await self.turns.run(
            partial(self._next_rows, watched, state, changes, from_row, left_out)
        )
        at = EventId.of(changes.version, state.table_id, changes.digest)
        event_position = _event_position(watched.view, state, changes)
        begin = 0
        while begin < len(rows):
            piece, data = await self.turns.run(
                partial(_next_data, event_position, changes, rows, begin)
            )
            begin += len(piece)
            row = None if begin == len(rows) else int(piece[-1]) + 1
            self._check_access(watched)
            content = frame("change", at._replace(row=row), data)
            # While a slow client reads, only the reader keeps the rows of the version, and its
            # cache is bounded.
            version, digest = changes.version, changes.digest
            del changes, data
            await _send(send, content)
            kept = self.reader.kept(state.table_id, version, left_out)
            if kept is None or kept.digest != digest:
                return at._replace(row=row)
            changes = kept
        return at

    def _next_rows(
        self,
        watched: _Watched,
        state: IndexState,
        changes: Changes,
        from_row: int,
        left_out: frozenset[str],
    ) -> tuple[Changes, Rows]:
        """Return the rows of a version to send. Skip cached versions without such rows."""
        rows = changes.rows_of(watched.keys, from_row)
        for version in range(changes.version + 1, changes.version + _VERSIONS_PER_STEP):
            following = self.reader.kept(state.table_id, version, left_out)
            if len(rows) or version > state.version or following is None:
                break
            if following.before != changes.digest:
                # It belongs to another history, which the next step detects.
                break
            changes, rows = following, following.rows_of(watched.keys, 0)
        return changes, rows

    async def _send_current(
        self, watched: _Watched, state: IndexState, at: EventId, send: Send
    ) -> EventId:
        """Send the current windows of changed keys, and return the point that the client reached.

        The versions between ``at`` and the version of the index only determine the changed keys.
        Each event has windows from the version of the index at that moment. So several quick
        versions become one event.
        """
        view, first = watched.view, at.version + (at.row is None)
        last = min(state.version, first + _VERSIONS_MAX - 1)
        changed: dict[str, None] = {}
        starts: list[int] = []
        reached = at
        for version in range(first, last + 1):
            if len(changed) >= _KEYS_MAX:
                last = version - 1
                break
            changes = await self.reader.changes(view.log, state.table_id, state.definition, version)
            _require_same_history(reached, changes)
            await self.turns.run(partial(_add_changed, changes, watched.keys, changed, starts))
            reached = EventId.of(version, state.table_id, changes.digest)
            del changes
        shard = self._catalog.layout.shard
        # The index of a shard does not have the keys of other shards, which are not removed keys.
        keys = [key for key in changed if shard.is_all or shard.owner(key) == shard.number]
        left_out = watched.left_out(state)
        while keys:
            piece = await self.turns.run(partial(self._current_piece, view, keys, left_out))
            if piece is None:
                return at
            if piece.state.table_id != state.table_id or piece.state.version < last:
                # The index was replaced meanwhile.
                return at
            if not await view.history.has(piece.state):
                # The log was replaced meanwhile, so the windows are from a lost history.
                return at
            keys = keys[len(piece.windows) + len(piece.removed) :]
            self._check_access(watched)
            # Only the id of the last event includes all keys. If the connection is lost before, the
            # client gets the keys again.
            data = _changed(
                {**_event_position(view, piece.state), "changed_from_ms": min(starts)}, "windows",
                piece.windows, [{"key": key} for key in piece.removed],
            )  # fmt: skip
            await _send(send, frame("change", at if keys else reached, data))
        return reached

    def _current_piece(
        self, view: StoreView, keys: Sequence[str], left_out: frozenset[str]
    ) -> CurrentPiece | None:
        """Return the current windows of the first keys, or None while the index is not ready."""
        try:
            with view.snapshot() as snapshot:
                # A store that was re-created without windows has another history, which the next
                # step of the stream notices.
                if not isinstance(snapshot, WindowSnapshot):
                    return None
                return self.current.piece(snapshot, keys, left_out, _EVENT_BYTES)
        except StoreNotReady:
            return None


def _last_event_id(scope: Scope, after: str | None) -> EventId | None:
    """Return the point that the client has reached, from its header or otherwise its query.

    A browser sends the header at each reconnect.
    """
    for name, value in scope["headers"]:
        if name == b"last-event-id" and value:
            return EventId.read(value.decode("latin-1"))
    return None if after is None else EventId.read(after)


def _has_unsent_rows(at: EventId, version: int) -> bool:
    """Return whether the stream has not sent all rows up to a version."""
    return at.version < version or (at.version == version and at.row is not None)


def _newest(view: StoreView) -> IndexState | None:
    """Return the state of the index, None while it is not ready."""
    try:
        with view.snapshot() as snapshot:
            return snapshot.state
    except StoreNotReady:
        return None


async def _with_history(view: StoreView, state: IndexState, after: EventId) -> EventId:
    """Add the current history of the store to the id of a client that knows only a version."""
    if after.table or after.digest:
        return after
    digest = state.digest
    if after.version != state.version:
        digest = await view.history.digest(after.version)
    return EventId.of(after.version, state.table_id, digest, after.row)


async def _lost_reason(view: StoreView, newest: IndexState, at: EventId) -> str | None:
    """Return why a stream cannot continue after an event, None if it can.

    If the index has a newer version, the history is checked when the next version is read.
    """
    if newest.version > at.version and at.table == newest.place.table:
        return None
    return await view.history.lost_reason(at.place, newest)


def _require_same_history(at: EventId, changes: Changes) -> None:
    """Raise ``ResetNeeded`` if the changes do not follow the last event of the client."""
    ours = changes.before if at.row is None else changes.digest
    if EventId.of(at.version, "", ours).digest != at.digest:
        message = f"version {at.version} was replaced by another"
        raise ResetNeeded(message)


async def _reset(view: StoreView, state: IndexState, reason: str, send: Send) -> EventId:
    """Send ``reset``, so that the client reads the store again, and return the index's version."""
    at = EventId.of(state.version, state.table_id, state.digest)
    await _send(send, event("reset", at, {**_event_position(view, state), "reason": reason}))
    return at


def _event_position(
    view: StoreView,
    state: IndexState,
    changes: Changes | None = None,
) -> dict[str, Any]:
    """Return store and position: the version of ``changes``, or by default the index's version."""
    if changes is None:
        return {"store": view.name, "position": position_of(state)}
    offsets = {} if changes.record is None else changes.record.offsets
    history = Place.of(changes.version, state.table_id, changes.digest).history
    position = {"version": changes.version, "offsets": offsets, "history": history}
    return {"store": view.name, "position": position}


def _next_data(
    event_position: Mapping[str, Any], changes: Changes, rows: Rows, begin: int
) -> tuple[Rows, bytes]:
    """Return the rows of the next event, whose size is bounded, and the data of the event."""
    piece = changes.next_piece(rows, begin, _EVENT_BYTES)
    return piece, _data(event_position, changes, piece)


def _add_changed(
    changes: Changes, keys: Mapping[str, None], changed: dict[str, None], starts: list[int]
) -> None:
    """Add the watched keys that a version changed to ``changed`` and ``starts``."""
    if changed_keys := changes.keys_of(keys):
        changed |= dict.fromkeys(changed_keys)
        starts.append(changes.least_start(keys))


def _data(event_position: Mapping[str, Any], changes: Changes, piece: Rows) -> bytes:
    """Return the data of one event: store, position, changed and removed windows or rows."""
    first = orjson.loads(changes.windows[piece[0]])
    name = "windows" if "window_start_ms" in first else "rows"
    is_deleted = changes.deleted
    changed = [changes.windows[row] for row in piece if not is_deleted[row]]
    removed = [_identity(changes.windows[row]) for row in piece if is_deleted[row]]
    return _changed(event_position, name, changed, removed)


def _changed(
    event_position: Mapping[str, Any],
    name: str,
    items: Sequence[bytes],
    removed: list[dict[str, Any]],
) -> bytes:
    return b'%b,"%b":[%b],"removed":%b}' % (
        orjson.dumps(event_position)[:-1],
        name.encode(),
        b",".join(items),
        orjson.dumps(removed),
    )


def _identity(window: bytes) -> dict[str, Any]:
    """Return the fields that identify a removed window or row."""
    fields = orjson.loads(window)
    names = ("key", "window_start_ms", "window_end_ms")
    return {name: fields[name] for name in names if name in fields}


async def _send(send: Send, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})
