"""A schema registry over real HTTP that returns prepared responses."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

#: A response that ends before it is complete.
CUT = b'{"schema": '


class Registry(ThreadingHTTPServer):
    """A registry with prepared responses.

    Attributes:
        answers: The response by path: an object, bytes or an HTTP status.
        asked: The path and the credentials of each request.
    """

    def __init__(self) -> None:
        """Listen on a free port of the loopback interface."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.responses: dict[str, Any] = {}
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        """Return the address of the registry."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Authorization")))
        response = self.server.responses.get(self.path, 404)
        self.send_response(response if isinstance(response, int) else 200)
        text = response if isinstance(response, bytes) else json.dumps(response).encode()
        if response == CUT:
            self.send_header("Content-Length", str(len(text) + 1))
        self.end_headers()
        if not isinstance(response, int):
            self.wfile.write(text)

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def running_registry() -> Iterator[Registry]:
    """Run a registry without responses until the block ends."""
    with Registry() as registry:
        thread = Thread(target=registry.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()


def with_id(schema_id: int, body: bytes) -> bytes:
    """Return a value with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4, "big") + body
