"""The two clients: one that blocks, and one for asyncio."""

from types import TracebackType
from typing import Any, Self

import httpx

from oriel.client import store_reads
from oriel.client.protocol import Address
from oriel.client.records import StoreSummary
from oriel.client.stores import (
    AsyncReadOnlyKeyValueStore,
    AsyncReadOnlySessionStore,
    AsyncReadOnlyWindowStore,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
)
from oriel.client.transport import AsyncConnection, Connection, Retries, Service, Token

TIMEOUT_S = 10.0


class Client:
    """Asks one service.

    An example::

        with Client("http://127.0.0.1:8080") as client:
            store = client.window_store("departures_by_origin")
            for window in store.backward_fetch("EWR", limit=20):
                print(window.start, window["departures"])

    It may be used by several threads, as ``httpx.Client``.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: Token | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        """Connect to nothing yet.

        ``token`` is a bearer token, or a function that gives the one that is good now.
        ``timeout_s`` is how long the service may be silent; what it is asked to wait for a position
        comes on top. ``options`` are those of ``httpx.Client``, like ``verify`` or ``proxy``.
        """
        service = Service(url, token, timeout_s, retries)
        self._connection = Connection(service, httpx.Client(**options))

    def __enter__(self) -> Self:
        """Give the client itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def stores(self) -> list[StoreSummary]:
        """List the stores."""
        return self._connection.run(store_reads.stores())

    def status(self) -> dict[str, Any]:
        """Return the status of pipelines and stores, as the API has it."""
        return self._connection.run(store_reads.status())

    def store(
        self, name: str
    ) -> ReadOnlyWindowStore | ReadOnlySessionStore | ReadOnlyKeyValueStore:
        """The store of that name, of the class that fits its kind; asks the service for it.

        Raises:
            UnknownStore: there is none; the message lists those that there are.
        """
        address = Address(name)
        kind = self._connection.run(store_reads.kind(address))
        match kind:
            case "none":
                return ReadOnlyKeyValueStore(self._connection, address)
            case "session":
                return ReadOnlySessionStore(self._connection, address)
            case _:
                return ReadOnlyWindowStore(self._connection, address)

    def window_store(self, name: str) -> ReadOnlyWindowStore:
        """A store of windows; asks nothing."""
        return ReadOnlyWindowStore(self._connection, Address(name))

    def session_store(self, name: str) -> ReadOnlySessionStore:
        """A store of sessions; asks nothing."""
        return ReadOnlySessionStore(self._connection, Address(name))

    def key_value_store(self, name: str) -> ReadOnlyKeyValueStore:
        """A store without windows; asks nothing."""
        return ReadOnlyKeyValueStore(self._connection, Address(name))


class AsyncClient:
    """``Client`` for asyncio.

    An example::

        async with AsyncClient("http://127.0.0.1:8080") as client:
            store = client.window_store("departures_by_origin")
            async for window in store.backward_fetch("EWR", limit=20):
                print(window.start, window["departures"])

    It belongs to one event loop.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: Token | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        **options: Any,
    ) -> None:
        """Connect to nothing yet; all as in ``Client``, ``options`` of ``httpx.AsyncClient``."""
        service = Service(url, token, timeout_s, retries)
        self._connection = AsyncConnection(service, httpx.AsyncClient(**options))

    async def __aenter__(self) -> Self:
        """Give the client itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def stores(self) -> list[StoreSummary]:
        """List the stores."""
        return await self._connection.run(store_reads.stores())

    async def status(self) -> dict[str, Any]:
        """Return the status of pipelines and stores, as the API has it."""
        return await self._connection.run(store_reads.status())

    async def store(
        self, name: str
    ) -> AsyncReadOnlyWindowStore | AsyncReadOnlySessionStore | AsyncReadOnlyKeyValueStore:
        """The store of that name, of the class that fits its kind, as ``Client.store``."""
        address = Address(name)
        kind = await self._connection.run(store_reads.kind(address))
        match kind:
            case "none":
                return AsyncReadOnlyKeyValueStore(self._connection, address)
            case "session":
                return AsyncReadOnlySessionStore(self._connection, address)
            case _:
                return AsyncReadOnlyWindowStore(self._connection, address)

    def window_store(self, name: str) -> AsyncReadOnlyWindowStore:
        """A store of windows; asks nothing."""
        return AsyncReadOnlyWindowStore(self._connection, Address(name))

    def session_store(self, name: str) -> AsyncReadOnlySessionStore:
        """A store of sessions; asks nothing."""
        return AsyncReadOnlySessionStore(self._connection, Address(name))

    def key_value_store(self, name: str) -> AsyncReadOnlyKeyValueStore:
        """A store without windows; asks nothing."""
        return AsyncReadOnlyKeyValueStore(self._connection, Address(name))
