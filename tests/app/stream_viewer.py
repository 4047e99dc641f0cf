"""A client that updates a view of a store from its stream of changes, as a dashboard does."""

import asyncio
import contextlib
from typing import Any

import orjson

from tests.app.api_client import ApiClient

ROOT = "/v1/stores/store"

#: Key and start of a window -> its count.
View = dict[tuple[str, int], int]


async def read_view(client: ApiClient, read: str = "fetchAll") -> View:
    """Read all windows of the store."""
    response = await client.call(f"{ROOT}/{read}?limit=10000")
    return _windows(response.json["windows"])


class StreamViewer:
    """One client with an open stream. ``view`` is its copy of the store's windows."""

    def __init__(self, client: ApiClient, *, is_current: bool = False) -> None:
        """Create a client without an open stream. ``is_current``: view only the current windows."""
        self._client = client
        self.is_current = is_current
        self._read = "currentAll" if is_current else "fetchAll"
        self._id = b""
        self._task: asyncio.Task[None] | None = None
        self.view: View = {}
        self.resets = 0

    def open(self) -> None:
        """Open the stream, after the last event that arrived."""
        self._task = asyncio.ensure_future(self._follow())

    async def close(self) -> None:
        """Cancel the stream at any position."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _follow(self) -> None:
        query = b"current=true" if self.is_current else b""
        path = f"{ROOT}/watch"
        scope: dict[str, Any] = {
            "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
            "query_string": query, "headers": [(b"last-event-id", self._id)], "root_path": "",
            "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }  # fmt: skip
        await self._client.service(scope, asyncio.Event().wait, self._take)

    async def _take(self, message: Any) -> None:
        for block in message.get("body", b"").split(b"\n\n"):
            fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            if b"data" in fields:
                data = orjson.loads(fields[b"data"])
                if fields[b"event"] == b"change":
                    self._apply(data)
                else:
                    self.resets += fields[b"event"] == b"reset"
                    self.view = await read_view(self._client, self._read)
            # This is the last step. A client that is cut off earlier has not applied the event.
            self._id = fields.get(b"id", self._id)

    def _apply(self, data: Any) -> None:
        changed = _windows(data["windows"])
        removed_keys = {one["key"] for one in data["removed"]}
        if self.is_current:
            removed_keys |= {key for key, _ in changed}
        self.view = {at: n for at, n in self.view.items() if at[0] not in removed_keys} | changed


def _windows(windows: Any) -> View:
    return {(one["key"], one["window_start_ms"]): one["n"] for one in windows}
