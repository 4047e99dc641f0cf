"""Define the two clients: a blocking client, and a client for asyncio."""

from types import TracebackType
from typing import Any, Self

import httpx

from oriel.client import store_reads
from oriel.client.protocol import Address
from oriel.client.records import SqlRows, StoreSummary
from oriel.client.stores import (
    AsyncKeyValueStoreClient,
    AsyncSessionStoreClient,
    AsyncVersionedStoreClient,
    AsyncWindowStoreClient,
    KeyValueStoreClient,
    SessionStoreClient,
    VersionedStoreClient,
    WindowStoreClient,
)
from oriel.client.transport import AsyncConnection, Connection, Retries, Service, Token

TIMEOUT_S = 10.0


class Client:
    """A client of one service. Several threads can use it, like ``httpx.Client``.

    Args:
        url: address of the service.
        token: a bearer token, or a function that returns the current token.
        timeout_s: seconds for which the service can send nothing before a request fails. The time
            to wait for a position is added.
        retries: how often and after which pauses a request is sent again. Default: ``Retries()``.
        **options: options of ``httpx.Client``, for example ``verify`` or ``proxy``.

    Raises:
        ValueError: the address is not an HTTP address.

    Example:
        >>> with Client(url) as client:
        ...     store = client.window_store("departures")
        ...     for window in store.backward_fetch("EWR", limit=20):
        ...         print(window.start.time(), window["departures"])
        10:30:00 7
        10:00:00 12
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
        """Prepare the client. It opens no connection."""
        service = Service(url, token, timeout_s, retries)
        self._connection = Connection(service, httpx.Client(**options))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def stores(self) -> list[StoreSummary]:
        """List the stores of the service.

        Returns:
            The stores, by name.
        """
        return self._connection.run(store_reads.stores())

    def status(self) -> dict[str, Any]:
        """Return the status of pipelines and stores, as the JSON object of the API."""
        return self._connection.run(store_reads.status())

    def topology(self) -> dict[str, Any]:
        """Return the topologies of the pipelines, with Mermaid flowcharts.

        Returns:
            The JSON object of the API.

        Raises:
            Problem: no pipeline has written its topology (``topology-not-found``).

        Example:
            >>> [one["pipeline"] for one in client.topology()["pipelines"]]
            ['flights']
        """
        return self._connection.run(store_reads.topology())

    def sql(self, query: str, *, wait_s: float = 60.0) -> SqlRows:
        """Run a SELECT statement of DuckDB over the stores.

        The service needs the option ``--sql``. Each store is a table with its current rows, and
        ``STORE_final`` has only final rows.

        Args:
            query: one ``SELECT`` statement.
            wait_s: seconds to wait for the rows, in addition to ``timeout_s`` of the client.

        Returns:
            The rows. If the service cut them, ``truncated`` is True.

        Raises:
            InvalidRequest: the statement is not valid (``invalid-sql``), or exceeds a limit of
                time or memory (``sql-limit``).
            UnknownStore: a table of the statement is not a store.
            NotFound: the service runs without ``--sql`` (``sql-disabled``).
            NotReady: the service runs other queries (``sql-busy``), and all attempts failed.

        Example:
            >>> client.sql("SELECT sum(departures) AS n FROM totals").rows
            [{'n': 2829}]
        """
        return self._connection.run(store_reads.sql(query, wait_s))

    def store(
        self, name: str
    ) -> WindowStoreClient | SessionStoreClient | KeyValueStoreClient | VersionedStoreClient:
        """Return a store, as the class for its window kind. It sends one request.

        Args:
            name: name of the store.

        Returns:
            The store.

        Raises:
            UnknownStore: the store does not exist. The message lists the stores.

        Example:
            >>> [w["departures"] for w in client.store("bursts").fetch("EWR")]
            [12, 1]
        """
        address = Address(name)
        kind = self._connection.run(store_reads.kind(address))
        match kind:
            case "none":
                return KeyValueStoreClient(self._connection, address)
            case "versioned":
                return VersionedStoreClient(self._connection, address)
            case "session":
                return SessionStoreClient(self._connection, address)
            case _:
                return WindowStoreClient(self._connection, address)

    def window_store(self, name: str) -> WindowStoreClient:
        """Return a store of tumbling, hopping or sliding windows. It sends nothing.

        Args:
            name: name of the store.
        """
        return WindowStoreClient(self._connection, Address(name))

    def session_store(self, name: str) -> SessionStoreClient:
        """Return a store of sessions. It sends nothing.

        Args:
            name: name of the store.
        """
        return SessionStoreClient(self._connection, Address(name))

    def key_value_store(self, name: str) -> KeyValueStoreClient:
        """Return a store without windows. It sends nothing.

        Args:
            name: name of the store.
        """
        return KeyValueStoreClient(self._connection, Address(name))

    def versioned_store(self, name: str) -> VersionedStoreClient:
        """Return a store with versions of rows. It sends nothing.

        Args:
            name: name of the store.
        """
        return VersionedStoreClient(self._connection, Address(name))


class AsyncClient:
    """A client of one service for asyncio. Use it in one event loop.

    Args:
        url: address of the service.
        token: a bearer token, or a function that returns the current token.
        timeout_s: seconds for which the service can send nothing before a request fails. The time
            to wait for a position is added.
        retries: how often and after which pauses a request is sent again. Default: ``Retries()``.
        **options: options of ``httpx.AsyncClient``, for example ``verify`` or ``proxy``.

    Raises:
        ValueError: the address is not an HTTP address.

    Example:
        >>> async def newest(url: str) -> list[int]:
        ...     async with AsyncClient(url) as client:
        ...         store = client.window_store("departures")
        ...         return [w["departures"] async for w in store.backward_fetch("EWR")]
        >>> asyncio.run(newest(url))
        [7, 12]
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
        """Prepare the client. It opens no connection."""
        service = Service(url, token, timeout_s, retries)
        self._connection = AsyncConnection(service, httpx.AsyncClient(**options))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._connection.close()

    async def stores(self) -> list[StoreSummary]:
        """List the stores of the service.

        Returns:
            The stores, by name.
        """
        return await self._connection.run(store_reads.stores())

    async def status(self) -> dict[str, Any]:
        """Return the status of pipelines and stores, as the JSON object of the API."""
        return await self._connection.run(store_reads.status())

    async def topology(self) -> dict[str, Any]:
        """Return the topologies of the pipelines, with Mermaid flowcharts.

        Returns:
            The JSON object of the API.

        Raises:
            Problem: no pipeline has written its topology (``topology-not-found``).
        """
        return await self._connection.run(store_reads.topology())

    async def sql(self, query: str, *, wait_s: float = 60.0) -> SqlRows:
        """Run a SELECT statement of DuckDB over the stores.

        The service needs the option ``--sql``. Each store is a table with its current rows, and
        ``STORE_final`` has only final rows.

        Args:
            query: one ``SELECT`` statement.
            wait_s: seconds to wait for the rows, in addition to ``timeout_s`` of the client.

        Returns:
            The rows. If the service cut them, ``truncated`` is True.

        Raises:
            InvalidRequest: the statement is not valid (``invalid-sql``), or exceeds a limit of
                time or memory (``sql-limit``).
            UnknownStore: a table of the statement is not a store.
            NotFound: the service runs without ``--sql`` (``sql-disabled``).
            NotReady: the service runs other queries (``sql-busy``), and all attempts failed.
        """
        return await self._connection.run(store_reads.sql(query, wait_s))

    async def store(
        self, name: str
    ) -> (
        AsyncWindowStoreClient
        | AsyncSessionStoreClient
        | AsyncKeyValueStoreClient
        | AsyncVersionedStoreClient
    ):
        """Return a store, as the class for its window kind. It sends one request.

        Args:
            name: name of the store.

        Returns:
            The store.

        Raises:
            UnknownStore: the store does not exist. The message lists the stores.
        """
        address = Address(name)
        kind = await self._connection.run(store_reads.kind(address))
        match kind:
            case "none":
                return AsyncKeyValueStoreClient(self._connection, address)
            case "versioned":
                return AsyncVersionedStoreClient(self._connection, address)
            case "session":
                return AsyncSessionStoreClient(self._connection, address)
            case _:
                return AsyncWindowStoreClient(self._connection, address)

    def window_store(self, name: str) -> AsyncWindowStoreClient:
        """Return a store of tumbling, hopping or sliding windows. It sends nothing.

        Args:
            name: name of the store.
        """
        return AsyncWindowStoreClient(self._connection, Address(name))

    def session_store(self, name: str) -> AsyncSessionStoreClient:
        """Return a store of sessions. It sends nothing.

        Args:
            name: name of the store.
        """
        return AsyncSessionStoreClient(self._connection, Address(name))

    def key_value_store(self, name: str) -> AsyncKeyValueStoreClient:
        """Return a store without windows. It sends nothing.

        Args:
            name: name of the store.
        """
        return AsyncKeyValueStoreClient(self._connection, Address(name))

    def versioned_store(self, name: str) -> AsyncVersionedStoreClient:
        """Return a store with versions of rows. It sends nothing.

        Args:
            name: name of the store.
        """
        return AsyncVersionedStoreClient(self._connection, Address(name))
