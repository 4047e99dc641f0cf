"""Time all requests in one layer, and write an access log line for each if enabled."""

from time import perf_counter
from typing import Any

from oriel.app.guards import WHOLE_ANSWER, App, Receive, Scope, Send
from oriel.app.telemetry.measures import Measures
from oriel.storage import log_line, one_line, say

#: The messages that start a response.
_BEGINS = frozenset({"http.response.start", WHOLE_ANSWER})


class Observed:
    """A layer that counts the responses of an application. ``access_log`` also logs each one."""

    def __init__(self, app: App, measures: Measures, *, access_log: bool) -> None:
        self._app = app
        self._measures = measures
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and measure the time until its response starts."""
        begun = perf_counter()

        async def observed(message: Any) -> None:
            if message["type"] in _BEGINS:
                seconds = perf_counter() - begun
                self._measures.observe(scope["raw_path"], message["status"], seconds)
                if self._access_log:
                    _say(scope, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, observed)


def _say(scope: Scope, status: int, seconds: float) -> None:
    client = scope.get("client")
    address = client[0] if client else "unknown"
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    text = one_line(target.decode("latin-1"))
    say(
        "request",
        log_line(
            "request",
            client=address,
            method=scope["method"],
            target=text,
            status=status,
            ms=f"{1000 * seconds:.1f}",
        ),
        client=address,
        method=scope["method"],
        target=text,
        status=status,
        ms=round(1000 * seconds, 3),
    )
