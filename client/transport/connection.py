"""Send the requests of an exchange over httpx, blocking or not."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from random import Random
from typing import Any, TypeVar

import httpx

from oriel.client.errors import OrielError, ServiceUnreachable
from oriel.client.protocol import RawResponse, Read, Request, Stream
from oriel.client.records import Change
from oriel.client.transport.exchange import Exchange, Pause, Retries, Send, error_of, exchange
from oriel.client.transport.streaming import SILENCE_S, Following

T = TypeVar("T")

#: A bearer token, or a function that returns the current token.
Token = str | Callable[[], str]


class Service:
    """The settings of both connections: the address, the token, the time limit of a request."""

    def __init__(
        self, url: str, token: Token | None, timeout_s: float, retries: Retries | None
    ) -> None:
        """Check the settings. It sends nothing.

        Raises:
            ValueError: the address is not an HTTP address.
        """
        if not url.startswith(("http://", "https://")):
            message = (
                f"{url!r} is not the address of a service. Use an address like "
                "http://127.0.0.1:8080"
            )
            raise ValueError(message)
        try:
            httpx.URL(url)
        except httpx.InvalidURL as error:
            message = f"{url!r} is not an address: {error}"
            raise ValueError(message) from error
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._retries = retries or Retries()
        # Clients that were rejected at the same time must not retry at the same time.
        self._random = Random(time.time_ns())  # noqa: S311

    def exchange(self, read: Read[T]) -> Exchange[T]:
        """Start the exchange of a read."""
        return exchange(read, self._retries, self._random)

    def following(self, stream: Stream[T]) -> Following[T]:
        """Start to follow a stream."""
        return Following(stream, self._retries, self._random)

    def request(self, send: Send) -> Mapping[str, Any]:
        """Return the arguments of httpx's ``request``."""
        return {**self._request(send.request), "timeout": self._timeout_s + send.wait_s}

    def stream_request(self, request: Request) -> Mapping[str, Any]:
        """Return the arguments of httpx's ``stream``."""
        timeout = httpx.Timeout(self._timeout_s, read=max(self._timeout_s, SILENCE_S))
        return {**self._request(request), "timeout": timeout}

    def _request(self, request: Request) -> dict[str, Any]:
        headers = {"Accept": request.accept}
        if request.etag is not None:
            headers["If-None-Match"] = request.etag
        if request.last_event_id is not None:
            headers["Last-Event-ID"] = request.last_event_id
        if self._token is not None:
            token = self._token if isinstance(self._token, str) else self._token()
            if not (token.isascii() and token.isprintable()):
                # httpx would show it in its message.
                message = "the token has characters that a header cannot contain"
                raise ValueError(message)
            headers["Authorization"] = f"Bearer {token}"
        body = request.body
        return {
            "method": "GET" if body is None else "POST",
            "json": body,
            "url": self.url + request.path,
            "params": list(request.query),
            "headers": headers,
        }

    def failure(self, error: httpx.RequestError) -> ServiceUnreachable:
        """Return the error of a request without a response."""
        reason = str(error) or type(error).__name__
        return ServiceUnreachable(f"no response from {self.url}: {reason}")


class Connection:
    """Sends and waits. Several threads can use it, like ``httpx.Client``."""

    def __init__(self, service: Service, http: httpx.Client) -> None:
        """Set the service and the client of httpx. It opens no connection."""
        self._service = service
        self._http = http

    def run(self, read: Read[T]) -> T:
        """Return the value of a read.

        Raises:
            OrielError: the service returned an error, or did not respond.
        """
        steps = self._service.exchange(read)
        outcome: RawResponse | ServiceUnreachable | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
                continue
            try:
                outcome = _raw_response(self._http.request(**self._service.request(step)))
            except httpx.RequestError as error:
                outcome = self._service.failure(error)

    def follow(self, stream: Stream[T]) -> Iterator[Change[T]]:
        """Yield the changes of a stream, over any number of connections, until an error.

        Raises:
            OrielError: the service returned an error, or did not respond to any attempt.
        """
        following = self._service.following(stream)
        while True:
            error: OrielError = following.ended()
            try:
                with self._http.stream(
                    **self._service.stream_request(following.request)
                ) as response:
                    if response.status_code == 200:
                        for chunk in response.iter_bytes():
                            yield from following.took(chunk)
                    else:
                        response.read()
                        error = error_of(_raw_response(response))
            except httpx.RequestError as failure:
                error = self._service.failure(failure)
            time.sleep(following.pause_s(error))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


class AsyncConnection:
    """Sends and waits without blocking, in one event loop."""

    def __init__(self, service: Service, http: httpx.AsyncClient) -> None:
        """Set the service and the client of httpx. It opens no connection."""
        self._service = service
        self._http = http

    async def run(self, read: Read[T]) -> T:
        """Return the value of a read, as ``Connection.run``."""
        steps = self._service.exchange(read)
        outcome: RawResponse | ServiceUnreachable | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                outcome = None
                continue
            try:
                outcome = _raw_response(await self._http.request(**self._service.request(step)))
            except httpx.RequestError as error:
                outcome = self._service.failure(error)

    async def follow(self, stream: Stream[T]) -> AsyncIterator[Change[T]]:
        """Yield the changes of a stream, as ``Connection.follow``."""
        following = self._service.following(stream)
        while True:
            error: OrielError = following.ended()
            request = self._service.stream_request(following.request)
            try:
                async with self._http.stream(**request) as response:
                    if response.status_code == 200:
                        async for chunk in response.aiter_bytes():
                            for change in following.took(chunk):
                                yield change
                    else:
                        await response.aread()
                        error = error_of(_raw_response(response))
            except httpx.RequestError as failure:
                error = self._service.failure(failure)
            await asyncio.sleep(following.pause_s(error))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _raw_response(response: httpx.Response) -> RawResponse:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return RawResponse(response.status_code, headers, response.content)
