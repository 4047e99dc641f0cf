"""Compress the responses of FastAPI."""

from typing import Any

from oriel.app.contract import CODINGS
from oriel.app.formats import Compressor
from oriel.app.guards import Scope, Send

_VARY = b"Accept-Encoding"


def coded(compressor: Compressor, scope: Scope, send: Send) -> Send:
    """Return a ``send`` that compresses whole bodies. Files that are sent in pieces stay plain."""
    codings = scope.get(CODINGS)
    start: Any = None

    async def send_coded(message: Any) -> None:
        nonlocal start
        if message["type"] == "http.response.start":
            start = message
            return
        if start is not None:
            begin, start = start, None
            if not message.get("more_body", False):
                begin = {**begin, "headers": _varied(begin["headers"])}
                if codings is not None and begin["status"] == 200:
                    headers, body = await compressor.compressed(
                        begin["headers"], message.get("body", b""), codings
                    )
                    begin, message = {**begin, "headers": headers}, {**message, "body": body}
            await send(begin)
        await send(message)

    return send_coded


def _varied(headers: Any) -> list[tuple[bytes, bytes]]:
    """Add ``Accept-Encoding`` to ``Vary``."""
    names = [value for name, value in headers if name == b"vary"]
    others = [field for field in headers if field[0] != b"vary"]
    return [*others, (b"vary", b", ".join([*names, _VARY]))]
