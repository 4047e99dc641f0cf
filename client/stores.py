"""Define the read-only stores of both clients, with the methods of Kafka Streams.

Each read has one line per client. The function in this line defines its parameters and docstring.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from oriel.client import (
    row_reads,
    session_reads,
    store_reads,
    version_reads,
    window_reads,
    window_scans,
)
from oriel.client.protocol import Address, PagedRead, Read, Stream
from oriel.client.records import Change, Position
from oriel.client.results import AsyncResults, AsyncRunner, Results, Runner

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class _Store(Generic[R]):
    """Common parts of all stores."""

    def __init__(self, runner: R, address: Address) -> None:
        """Set the connection and the address of the store. It sends nothing."""
        self.runner = runner
        self.address = address

    @property
    def name(self) -> str:
        """Return the name of the store."""
        return self.address.store

    def at_least(self, position: Position, wait_s: float = 10.0) -> Self:
        """Return the same store, whose responses include at least a position (read your writes).

        Args:
            position: the position that each response must include.
            wait_s: the longest time that each read waits for the position, in seconds. After it,
                the read raises ``PositionNotReached``.

        Returns:
            The store.

        Example:
            >>> departures.at_least(Position(version=1)).latest("EWR")["departures"]
            7
        """
        return type(self)(self.runner, replace(self.address, position=position, wait_s=wait_s))


class _One(Generic[P, T]):
    """A method that runs a read and returns its value."""

    def __init__(self, read: Callable[Concatenate[Address, P], Read[T]]) -> None:
        self._read = read

    def __get__(self, store: _Store[Runner], owner: type | None = None) -> Callable[P, T]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return store.runner.run(self._read(store.address, *args, **kwargs))

        return call


class _Many(Generic[P, T]):
    """A method that returns the items of a read, page by page."""

    def __init__(self, read: Callable[Concatenate[Address, P], PagedRead[T]]) -> None:
        self._read = read

    def __get__(self, store: _Store[Runner], owner: type | None = None) -> Callable[P, Results[T]]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> Results[T]:
            return Results(store.runner, self._read(store.address, *args, **kwargs))

        return call


class _AsyncOne(Generic[P, T]):
    """A coroutine method that runs a read and returns its value."""

    def __init__(self, read: Callable[Concatenate[Address, P], Read[T]]) -> None:
        self._read = read

    def __get__(
        self, store: _Store[AsyncRunner], owner: type | None = None
    ) -> Callable[P, Awaitable[T]]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
            return store.runner.run(self._read(store.address, *args, **kwargs))

        return call


class _AsyncMany(Generic[P, T]):
    """A method that returns the items of a read to an ``async for``."""

    def __init__(self, read: Callable[Concatenate[Address, P], PagedRead[T]]) -> None:
        self._read = read

    def __get__(
        self, store: _Store[AsyncRunner], owner: type | None = None
    ) -> Callable[P, AsyncResults[T]]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncResults[T]:
            return AsyncResults(store.runner, self._read(store.address, *args, **kwargs))

        return call


class _Followed(Generic[P, T]):
    """A method that returns the changes of a stream."""

    def __init__(self, stream: Callable[Concatenate[Address, P], Stream[T]]) -> None:
        self._stream = stream

    def __get__(
        self, store: _Store[Runner], owner: type | None = None
    ) -> Callable[P, Iterator[Change[T]]]:
        @wraps(self._stream)
        def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[Change[T]]:
            return store.runner.follow(self._stream(store.address, *args, **kwargs))

        return call


class _AsyncFollowed(Generic[P, T]):
    """A method that returns the changes of a stream to an ``async for``."""

    def __init__(self, stream: Callable[Concatenate[Address, P], Stream[T]]) -> None:
        self._stream = stream

    def __get__(
        self, store: _Store[AsyncRunner], owner: type | None = None
    ) -> Callable[P, AsyncIterator[Change[T]]]:
        @wraps(self._stream)
        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Change[T]]:
            return store.runner.follow(self._stream(store.address, *args, **kwargs))

        return call


class Store(_Store[Runner]):
    """The reads of stores of every kind."""

    describe = _One(store_reads.describe)
    position = _One(store_reads.reached)
    wait_for = _One(store_reads.wait_for)
    keys = _Many(store_reads.keys)


class WindowStoreClient(Store):
    """A store of tumbling, hopping or sliding windows.

    A method that returns one window returns None if the window does not exist. A method that
    returns several windows returns ``Results``. Each read can raise an ``OrielError``.

    Example:
        >>> departures = client.window_store("departures")
        >>> departures.latest("EWR")["departures"]
        7
    """

    watch = _Followed(store_reads.watch_windows)
    fetch = _Many(window_reads.fetch)
    latest = _One(window_reads.latest)
    current = _One(window_reads.current)
    window = _One(window_reads.window)
    backward_fetch = _Many(window_reads.backward_fetch)
    covering = _Many(window_reads.covering)
    merged = _Many(window_reads.merged)
    fetch_range = _Many(window_scans.fetch_range)
    backward_fetch_range = _Many(window_scans.backward_fetch_range)
    fetch_all = _Many(window_scans.fetch_all)
    backward_fetch_all = _Many(window_scans.backward_fetch_all)
    all = _Many(window_scans.all_windows)
    backward_all = _Many(window_scans.backward_all_windows)
    latest_all = _Many(window_scans.latest_all)
    current_all = _Many(window_scans.current_all)
    merged_all = _Many(window_scans.merged_all)
    latest_of_keys = _Many(window_reads.latest_of_keys)
    current_of_keys = _Many(window_reads.current_of_keys)
    fetch_of_keys = _Many(window_reads.fetch_of_keys)
    backward_fetch_of_keys = _Many(window_reads.backward_fetch_of_keys)
    merged_of_keys = _Many(window_reads.merged_of_keys)


class SessionStoreClient(WindowStoreClient):
    """A store of sessions: all reads of windows by start, and reads of sessions by overlap.

    Example:
        >>> bursts = client.session_store("bursts")
        >>> [session["departures"] for session in bursts.find_sessions("EWR")]
        [12, 1]
    """

    find_sessions = _Many(session_reads.find_sessions)
    backward_find_sessions = _Many(session_reads.backward_find_sessions)
    find_sessions_range = _Many(session_reads.find_sessions_range)
    backward_find_sessions_range = _Many(session_reads.backward_find_sessions_range)
    fetch_session = _One(session_reads.fetch_session)


class KeyValueStoreClient(Store):
    """A store without windows, with one row per key.

    Example:
        >>> totals = client.key_value_store("totals")
        >>> totals.get("EWR")["departures"]
        1201
    """

    watch = _Followed(store_reads.watch_rows)
    get = _One(row_reads.get)
    get_of_keys = _Many(row_reads.get_of_keys)
    approximate_num_entries = _One(row_reads.approximate_num_entries)
    range = _Many(row_reads.range_of_keys)
    reverse_range = _Many(row_reads.reverse_range)
    prefix_scan = _Many(row_reads.prefix_scan)
    all = _Many(row_reads.all_rows)
    reverse_all = _Many(row_reads.reverse_all_rows)


class VersionedStoreClient(KeyValueStoreClient):
    """A store with the versions of rows. The other reads return the newest versions.

    Example:
        >>> prices = client.versioned_store("prices")
        >>> [version["price"] for version in prices.versions("tea")]
        [3, 4]
    """

    get_as_of = _One(version_reads.get_as_of)
    versions = _Many(version_reads.versions)
    backward_versions = _Many(version_reads.backward_versions)


class AsyncStore(_Store[AsyncRunner]):
    """The reads of stores of every kind, for ``await`` and ``async for``."""

    describe = _AsyncOne(store_reads.describe)
    position = _AsyncOne(store_reads.reached)
    wait_for = _AsyncOne(store_reads.wait_for)
    keys = _AsyncMany(store_reads.keys)


class AsyncWindowStoreClient(AsyncStore):
    """A store of windows with the methods of ``WindowStoreClient``, for asyncio.

    Use ``await`` for methods that return one item, and ``async for`` for the others.

    Example:
        >>> async def newest(url: str) -> int:
        ...     async with AsyncClient(url) as client:
        ...         window = await client.window_store("departures").latest("EWR")
        ...         return window["departures"]
        >>> asyncio.run(newest(url))
        7
    """

    watch = _AsyncFollowed(store_reads.watch_windows)
    fetch = _AsyncMany(window_reads.fetch)
    latest = _AsyncOne(window_reads.latest)
    current = _AsyncOne(window_reads.current)
    window = _AsyncOne(window_reads.window)
    backward_fetch = _AsyncMany(window_reads.backward_fetch)
    covering = _AsyncMany(window_reads.covering)
    merged = _AsyncMany(window_reads.merged)
    fetch_range = _AsyncMany(window_scans.fetch_range)
    backward_fetch_range = _AsyncMany(window_scans.backward_fetch_range)
    fetch_all = _AsyncMany(window_scans.fetch_all)
    backward_fetch_all = _AsyncMany(window_scans.backward_fetch_all)
    all = _AsyncMany(window_scans.all_windows)
    backward_all = _AsyncMany(window_scans.backward_all_windows)
    latest_all = _AsyncMany(window_scans.latest_all)
    current_all = _AsyncMany(window_scans.current_all)
    merged_all = _AsyncMany(window_scans.merged_all)
    latest_of_keys = _AsyncMany(window_reads.latest_of_keys)
    current_of_keys = _AsyncMany(window_reads.current_of_keys)
    fetch_of_keys = _AsyncMany(window_reads.fetch_of_keys)
    backward_fetch_of_keys = _AsyncMany(window_reads.backward_fetch_of_keys)
    merged_of_keys = _AsyncMany(window_reads.merged_of_keys)


class AsyncSessionStoreClient(AsyncWindowStoreClient):
    """A store of sessions with the methods of ``SessionStoreClient``, for asyncio.

    Example:
        >>> async def sessions(url: str) -> list[int]:
        ...     async with AsyncClient(url) as client:
        ...         store = client.session_store("bursts")
        ...         return [session["departures"] async for session in store.fetch("EWR")]
        >>> asyncio.run(sessions(url))
        [12, 1]
    """

    find_sessions = _AsyncMany(session_reads.find_sessions)
    backward_find_sessions = _AsyncMany(session_reads.backward_find_sessions)
    find_sessions_range = _AsyncMany(session_reads.find_sessions_range)
    backward_find_sessions_range = _AsyncMany(session_reads.backward_find_sessions_range)
    fetch_session = _AsyncOne(session_reads.fetch_session)


class AsyncKeyValueStoreClient(AsyncStore):
    """A store without windows with the methods of ``KeyValueStoreClient``, for asyncio.

    Example:
        >>> async def total(url: str) -> int:
        ...     async with AsyncClient(url) as client:
        ...         return (await client.key_value_store("totals").get("EWR"))["departures"]
        >>> asyncio.run(total(url))
        1201
    """

    watch = _AsyncFollowed(store_reads.watch_rows)
    get = _AsyncOne(row_reads.get)
    get_of_keys = _AsyncMany(row_reads.get_of_keys)
    approximate_num_entries = _AsyncOne(row_reads.approximate_num_entries)
    range = _AsyncMany(row_reads.range_of_keys)
    reverse_range = _AsyncMany(row_reads.reverse_range)
    prefix_scan = _AsyncMany(row_reads.prefix_scan)
    all = _AsyncMany(row_reads.all_rows)
    reverse_all = _AsyncMany(row_reads.reverse_all_rows)


class AsyncVersionedStoreClient(AsyncKeyValueStoreClient):
    """A store with versions with the methods of ``VersionedStoreClient``, for asyncio.

    Example:
        >>> async def prices_of(url: str) -> list[int]:
        ...     async with AsyncClient(url) as client:
        ...         versions = client.versioned_store("prices").versions("tea")
        ...         return [version["price"] async for version in versions]
        >>> asyncio.run(prices_of(url))
        [3, 4]
    """

    get_as_of = _AsyncOne(version_reads.get_as_of)
    versions = _AsyncMany(version_reads.versions)
    backward_versions = _AsyncMany(version_reads.backward_versions)
