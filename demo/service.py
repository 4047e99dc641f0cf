"""A client of the service: wait for it and read its pages."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from oriel.demo.errors import DemoError

_POLL_SECONDS = 0.1
_PAGE = 1000


class Service:
    """The HTTP service at one address."""

    def __init__(self, url: str, require_running: Callable[[], None]) -> None:
        """Send requests to ``url``. ``require_running`` raises if the service has ended."""
        self._client = httpx.Client(base_url=url, timeout=10, trust_env=False)
        self.url = url
        self.require_running = require_running

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def has_windows(self, store: str, key: str) -> bool:
        """Return True if the service has windows of ``key``."""
        content = self._get(f"/v1/stores/{store}/fetch/{key}", limit=1)
        return content is not None and bool(content["windows"])

    def wait_ready(self, seconds: float) -> None:
        """Wait until the service is ready.

        Raises:
            DemoError: the service is not ready after ``seconds``.
        """
        self._wait(self._is_ready, seconds, "the service did not become ready")

    def wait_included(
        self, store: str, topic: str, offsets: dict[str, int], seconds: float
    ) -> None:
        """Wait until responses of ``store`` include all records before ``offsets``.

        Raises:
            DemoError: the responses do not include them after ``seconds``.
        """

        def is_included() -> bool:
            content = self._get(f"/v1/stores/{store}/fetch/any", limit=1)
            if content is None:
                return False
            reached = content["position"]["offsets"].get(topic, {})
            return all(reached.get(p, 0) >= offset for p, offset in offsets.items())

        self._wait(is_included, seconds, f"store {store} did not reach the end of the log")

    def all_windows(self, store: str, key: str) -> Iterator[dict[str, Any]]:
        """Yield every window of ``key``, oldest first, page by page."""
        cursor: dict[str, str] = {}
        while True:
            response = self._client.get(
                f"/v1/stores/{store}/fetch/{key}", params={"limit": _PAGE, **cursor}
            )
            if response.status_code != httpx.codes.OK:
                message = f"{response.url} returned {response.status_code}: {response.text}"
                raise DemoError(message)
            content = response.json()
            yield from content["windows"]
            if content["next_cursor"] is None:
                return
            cursor = {"cursor": content["next_cursor"]}

    def _is_ready(self) -> bool:
        try:
            return self._client.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def _get(self, path: str, **parameters: int) -> dict[str, Any] | None:
        try:
            response = self._client.get(path, params=parameters)
        except httpx.TransportError:
            return None
        if response.status_code != httpx.codes.OK:
            return None
        content: dict[str, Any] = response.json()
        return content

    def _wait(self, is_done: Callable[[], bool], seconds: float, complaint: str) -> None:
        until = time.monotonic() + seconds
        while not is_done():
            self.require_running()
            if time.monotonic() > until:
                message = f"{complaint} within {seconds:g} seconds"
                raise DemoError(message)
            time.sleep(_POLL_SECONDS)
