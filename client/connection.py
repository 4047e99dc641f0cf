"""Sending what an exchange asks for: over httpx, blocking or not. The only module that sends."""

import asyncio
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

import httpx

from oriel.client.errors import ServiceUnreachable
from oriel.client.exchange import Pause, Retries, Send, exchange
from oriel.client.protocol import Answer, Read

T = TypeVar("T")

#: A bearer token, or what gives the one that is good now.
Token = str | Callable[[], str]


class _Sender:
    """What both connections know: the address, the token, the time that a request may take."""

    def __init__(
        self, url: str, token: Token | None, timeout_s: float, retries: Retries | None
    ) -> None:
        """Send nothing yet.

        Raises:
            ValueError: the address is none of HTTP.
        """
        if not url.startswith(("http://", "https://")):
            message = f"the address of a service is like http://127.0.0.1:8080, not {url!r}"
            raise ValueError(message)
        try:
            httpx.URL(url)
        except httpx.InvalidURL as error:
            message = f"{url!r} is no address: {error}"
            raise ValueError(message) from error
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._retries = retries or Retries()
        # Clients that were turned away together must not come back together.
        self._random = Random(time.time_ns())  # noqa: S311

    def _request(self, send: Send) -> Mapping[str, Any]:
        """The arguments of httpx's ``request``."""
        headers = {"Accept": send.request.accept}
        if send.request.etag is not None:
            headers["If-None-Match"] = send.request.etag
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            if not (token.isascii() and token.isprintable()):
                # httpx would show it in its message.
                message = "the token has characters that no header can have"
                raise ValueError(message)
            headers["Authorization"] = f"Bearer {token}"
        keys = send.request.keys
        return {
            "method": "GET" if keys is None else "POST",
            "json": None if keys is None else list(keys),
            "url": self.url + send.request.path,
            "params": list(send.request.query),
            "headers": headers,
            "timeout": self._timeout_s + send.wait_s,
        }

    def _failure(self, error: httpx.RequestError) -> ServiceUnreachable:
        reason = str(error) or type(error).__name__
        return ServiceUnreachable(f"no answer from {self.url}: {reason}")


class Connection(_Sender):
    """Sends and waits; for one thread at a time or several, as ``httpx.Client``."""

    def __init__(
        self,
        url: str,
        token: Token | None,
        timeout_s: float,
        retries: Retries | None,
        **options: Any,
    ) -> None:
        """Open nothing yet; ``options`` are those of ``httpx.Client``."""
        super().__init__(url, token, timeout_s, retries)
        self._http = httpx.Client(**options)

    def run(self, read: Read[T]) -> T:
        """Take a read to its value.

        Raises:
            OrielError: the service says no, or gave no answer.
        """
        steps = exchange(read, self._retries, self._random)
        came: Answer | ServiceUnreachable | None = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                came = None
                continue
            try:
                came = _answer(self._http.request(**self._request(step)))
            except httpx.RequestError as error:
                came = self._failure(error)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncConnection(_Sender):
    """Sends and waits without blocking; for one event loop."""

    def __init__(
        self,
        url: str,
        token: Token | None,
        timeout_s: float,
        retries: Retries | None,
        **options: Any,
    ) -> None:
        """Open nothing yet; ``options`` are those of ``httpx.AsyncClient``."""
        super().__init__(url, token, timeout_s, retries)
        self._http = httpx.AsyncClient(**options)

    async def run(self, read: Read[T]) -> T:
        """Take a read to its value, as ``Connection.run``."""
        steps = exchange(read, self._retries, self._random)
        came: Answer | ServiceUnreachable | None = None
        while True:
            try:
                step = steps.send(came)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                came = None
                continue
            try:
                came = _answer(await self._http.request(**self._request(step)))
            except httpx.RequestError as error:
                came = self._failure(error)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _answer(response: httpx.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)
