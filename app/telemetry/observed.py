"""Time all requests in one layer, and write an access log line for each if enabled."""

from time import perf_counter
from typing import Any

from oriel.app.guards import WHOLE_RESPONSE, App, Receive, Scope, Send
from oriel.app.telemetry.measures import Metrics
from oriel.storage import log_line, one_line, say

#: The messages that start a response.
_START_MESSAGES = frozenset({"http.response.start", WHOLE_RESPONSE})


class Observed:
    """A layer that counts the responses of an application. ``access_log`` also logs each one."""

    def __init__(self, app: App, measures: Metrics, *, access_log: bool) -> None:
        self._app = app
        self._measures = measures
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request and measure the time until its response starts."""
        begun = perf_counter()

        async def observed(message: Any) -> None:
            if message["type"] in _START_MESSAGES:
                seconds = perf_counter() - begun
                self._measures.observe(scope["raw_path"], message["status"], seconds)
                if self._access_log:
                    _log_request(scope, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, observed)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
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
