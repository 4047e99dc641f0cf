"""Read-only stores in the shape of Kafka Streams', for both clients.

Each read is one line a client: its parameters and words are those of the function that it names.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from oriel.client import row_reads, store_reads, window_reads
from oriel.client.protocol import Address, PagedRead, Read, Stream
from oriel.client.records import Change, Position
from oriel.client.results import AsyncResults, AsyncRunner, Results, Runner

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


class _Store(Generic[R]):
    """What all stores have; ``runner`` is the connection, ``address`` names the store."""

    def __init__(self, runner: R, address: Address) -> None:
        """Read the store at this address; nothing is asked yet."""
        self.runner = runner
        self.address = address

    @property
    def name(self) -> str:
        """The store's name."""
        return self.address.store

    def at_least(self, position: Position, wait_s: float = 10.0) -> Self:
        """The same store, whose answers have at least this position (read your writes).

        Each read waits up to ``wait_s`` seconds for it, then raises ``PositionNotReached``.
        """
        return type(self)(self.runner, replace(self.address, position=position, wait_s=wait_s))


class _One(Generic[P, T]):
    """A method that runs a read and gives its value."""

    def __init__(self, read: Callable[Concatenate[Address, P], Read[T]]) -> None:
        self._read = read

    def __get__(self, store: _Store[Runner], owner: type | None = None) -> Callable[P, T]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return store.runner.run(self._read(store.address, *args, **kwargs))

        return call


class _Many(Generic[P, T]):
    """A method that gives the items of a read, which are asked for as they are needed."""

    def __init__(self, read: Callable[Concatenate[Address, P], PagedRead[T]]) -> None:
        self._read = read

    def __get__(self, store: _Store[Runner], owner: type | None = None) -> Callable[P, Results[T]]:
        @wraps(self._read)
        def call(*args: P.args, **kwargs: P.kwargs) -> Results[T]:
            return Results(store.runner, self._read(store.address, *args, **kwargs))

        return call


class _AsyncOne(Generic[P, T]):
    """A coroutine method that runs a read and gives its value."""

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
    """A method that gives the items of a read to an ``async for``."""

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
    """A method that gives the changes of a stream."""

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
    """A method that gives the changes of a stream to an ``async for``."""

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
    """What can be asked of a store of any kind."""

    describe = _One(store_reads.describe)
    position = _One(store_reads.reached)
    wait_for = _One(store_reads.wait_for)
    keys = _Many(store_reads.keys)


class ReadOnlyWindowStore(Store):
    """A store of tumbling, hopping or sliding windows."""

    watch = _Followed(store_reads.watch_windows)
    fetch = _Many(window_reads.fetch)
    latest = _One(window_reads.latest)
    current = _One(window_reads.current)
    window = _One(window_reads.window)
    backward_fetch = _Many(window_reads.backward_fetch)
    covering = _Many(window_reads.covering)
    fetch_range = _Many(window_reads.fetch_range)
    backward_fetch_range = _Many(window_reads.backward_fetch_range)
    fetch_all = _Many(window_reads.fetch_all)
    backward_fetch_all = _Many(window_reads.backward_fetch_all)
    all = _Many(window_reads.all_windows)
    backward_all = _Many(window_reads.backward_all_windows)
    latest_all = _Many(window_reads.latest_all)
    current_all = _Many(window_reads.current_all)
    latest_of_keys = _Many(window_reads.latest_of_keys)
    current_of_keys = _Many(window_reads.current_of_keys)
    fetch_of_keys = _Many(window_reads.fetch_of_keys)
    backward_fetch_of_keys = _Many(window_reads.backward_fetch_of_keys)


class ReadOnlySessionStore(ReadOnlyWindowStore):
    """A store of sessions: all reads of windows, by start, and those by overlap."""

    find_sessions = _Many(window_reads.find_sessions)
    backward_find_sessions = _Many(window_reads.backward_find_sessions)
    find_sessions_range = _Many(window_reads.find_sessions_range)
    backward_find_sessions_range = _Many(window_reads.backward_find_sessions_range)
    fetch_session = _One(window_reads.fetch_session)


class ReadOnlyKeyValueStore(Store):
    """A store without windows: one row a key."""

    watch = _Followed(store_reads.watch_rows)
    get = _One(row_reads.get)
    get_of_keys = _Many(row_reads.get_of_keys)
    approximate_num_entries = _One(row_reads.approximate_num_entries)
    range = _Many(row_reads.range_of_keys)
    reverse_range = _Many(row_reads.reverse_range)
    prefix_scan = _Many(row_reads.prefix_scan)
    all = _Many(row_reads.all_rows)
    reverse_all = _Many(row_reads.reverse_all_rows)


class AsyncStore(_Store[AsyncRunner]):
    """``Store`` for ``await`` and ``async for``."""

    describe = _AsyncOne(store_reads.describe)
    position = _AsyncOne(store_reads.reached)
    wait_for = _AsyncOne(store_reads.wait_for)
    keys = _AsyncMany(store_reads.keys)


class AsyncReadOnlyWindowStore(AsyncStore):
    """``ReadOnlyWindowStore`` for ``await`` and ``async for``."""

    watch = _AsyncFollowed(store_reads.watch_windows)
    fetch = _AsyncMany(window_reads.fetch)
    latest = _AsyncOne(window_reads.latest)
    current = _AsyncOne(window_reads.current)
    window = _AsyncOne(window_reads.window)
    backward_fetch = _AsyncMany(window_reads.backward_fetch)
    covering = _AsyncMany(window_reads.covering)
    fetch_range = _AsyncMany(window_reads.fetch_range)
    backward_fetch_range = _AsyncMany(window_reads.backward_fetch_range)
    fetch_all = _AsyncMany(window_reads.fetch_all)
    backward_fetch_all = _AsyncMany(window_reads.backward_fetch_all)
    all = _AsyncMany(window_reads.all_windows)
    backward_all = _AsyncMany(window_reads.backward_all_windows)
    latest_all = _AsyncMany(window_reads.latest_all)
    current_all = _AsyncMany(window_reads.current_all)
    latest_of_keys = _AsyncMany(window_reads.latest_of_keys)
    current_of_keys = _AsyncMany(window_reads.current_of_keys)
    fetch_of_keys = _AsyncMany(window_reads.fetch_of_keys)
    backward_fetch_of_keys = _AsyncMany(window_reads.backward_fetch_of_keys)


class AsyncReadOnlySessionStore(AsyncReadOnlyWindowStore):
    """``ReadOnlySessionStore`` for ``await`` and ``async for``."""

    find_sessions = _AsyncMany(window_reads.find_sessions)
    backward_find_sessions = _AsyncMany(window_reads.backward_find_sessions)
    find_sessions_range = _AsyncMany(window_reads.find_sessions_range)
    backward_find_sessions_range = _AsyncMany(window_reads.backward_find_sessions_range)
    fetch_session = _AsyncOne(window_reads.fetch_session)


class AsyncReadOnlyKeyValueStore(AsyncStore):
    """``ReadOnlyKeyValueStore`` for ``await`` and ``async for``."""

    watch = _AsyncFollowed(store_reads.watch_rows)
    get = _AsyncOne(row_reads.get)
    get_of_keys = _AsyncMany(row_reads.get_of_keys)
    approximate_num_entries = _AsyncOne(row_reads.approximate_num_entries)
    range = _AsyncMany(row_reads.range_of_keys)
    reverse_range = _AsyncMany(row_reads.reverse_range)
    prefix_scan = _AsyncMany(row_reads.prefix_scan)
    all = _AsyncMany(row_reads.all_rows)
    reverse_all = _AsyncMany(row_reads.reverse_all_rows)
