"""A service of one shard answers for its own keys, and names the shard of any other."""

from collections.abc import Awaitable, Callable
from typing import Any

from oriel.app.contract import InvalidKey, KeyOfAnotherShard, decode_path, problem_answer
from oriel.app.reads import route
from oriel.storage import Shard

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: In each answer of a shard: which it is.
SHARD_HEADER = b"oriel-shard"
#: With 421: the number of the shard that has the key, for routers (docs/routing.md).
OWNER_HEADER = b"oriel-owner"


class Sharding:
    """Refuses reads of other shards' keys with 421, which no cache or client takes for an answer.

    An unknown key and one of another shard would look alike otherwise: an index of a shard has the
    rows of its own keys only. Reads over many keys answer for those of the shard.
    """

    def __init__(self, app: App, shard: Shard) -> None:
        """Stand in front of ``app``, whose indexes are those of ``shard``."""
        self._app = app
        self._shard = shard
        self._mark = (SHARD_HEADER, str(shard).encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        owner = self._owner(scope["raw_path"])
        if owner != self._shard.number:
            error = KeyOfAnotherShard(
                f"this service is shard {self._shard}, and shard {owner}/{self._shard.count} has "
                "the key: ask that one, or the router in front of them"
            )
            status, headers, body = problem_answer(error, scope["raw_path"].decode("latin-1"))
            headers = [*headers, self._mark, (OWNER_HEADER, b"%d" % owner)]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
            return

        async def marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], self._mark]}
            await send(message)

        await self._app(scope, receive, marked)

    def _owner(self, raw_path: bytes) -> int:
        """The shard of the request's key; this one if it has none, or none that can be read."""
        target = route(raw_path)
        if target is None or not target.read.path_parameters:
            return self._shard.number
        # The key is the last parameter and takes all the rest.
        raw_key = target.rest.split(b"/", len(target.read.path_parameters) - 1)[-1]
        try:
            return self._shard.owner(decode_path(raw_key))
        except InvalidKey:
            return self._shard.number
