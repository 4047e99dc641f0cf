"""Define the result of a read of many items, which reads pages as you need them."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from oriel.client.frames import arrow_table, joined, pandas_frame, polars_frame
from oriel.client.protocol import ARROW, PagedRead, Read, Stream, Walk
from oriel.client.records import Change, Page

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")
V = TypeVar("V")


class Runner(Protocol):
    """Sends requests and waits."""

    def run(self, read: Read[V]) -> V:
        """Return the value of a read."""

    def follow(self, stream: Stream[V]) -> Iterator[Change[V]]:
        """Yield the changes of a stream."""


class AsyncRunner(Protocol):
    """Sends requests and waits, without blocking."""

    async def run(self, read: Read[V]) -> V:
        """Return the value of a read."""

    def follow(self, stream: Stream[V]) -> AsyncIterator[Change[V]]:
        """Yield the changes of a stream."""


class Results(Generic[T]):
    """The items of a read, for a ``for`` loop. Each loop sends the requests again.

    A page is from one version of the store. The next page is from the same or a newer version.
    ``pages`` returns the position of each page.

    Example:
        >>> windows = departures.fetch("EWR")
        >>> [window["departures"] for window in windows]
        [12, 7]
    """

    def __init__(self, runner: Runner, read: PagedRead[T]) -> None:
        self._runner = runner
        self._read = read

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[T]]:
        """Yield whole pages, with their positions."""
        walk = Walk(self._read)
        while walk.goes_on:
            page = self._runner.run(walk.page())
            walk.took(len(page.items), page.next_cursor)
            yield page

    def list(self) -> list[T]:
        """Return all items as a list."""
        return [*self]

    def bodies(self, media_type: str) -> Iterator[bytes]:
        """Yield the body of each page in another response format.

        Args:
            media_type: a format of the service, for example ``text/csv``.
        """
        walk = Walk(self._read)
        while walk.goes_on:
            body = self._runner.run(walk.body(media_type))
            walk.took(body.items, body.next_cursor)
            yield body.content

    def page_unless(self, etag: str | None) -> Page[T] | None:
        """Return the first page, None if it is unchanged.

        Args:
            etag: the ``etag`` of an earlier page, None to read the page in any case.
        """
        return self._runner.run(self._read.page_unless(etag))

    def watch(self, every_s: float = 1.0) -> Iterator[Page[T]]:
        """Yield the first page now and after each change. The iterator does not end by itself.

        It polls the service. If the page is unchanged, the service returns a response without a
        body.

        Args:
            every_s: seconds between two requests.
        """
        etag = None
        while True:
            page = self.page_unless(etag)
            if page is not None:
                etag = page.etag
                yield page
            time.sleep(every_s)

    def to_arrow(self) -> "pa.Table":
        """Return all items as a ``pyarrow.Table``, with the types of the store's table."""
        return joined([arrow_table(body) for body in self.bodies(ARROW)])

    def to_pandas(self) -> "pd.DataFrame":
        """Return all items as a ``pandas.DataFrame``."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> "pl.DataFrame":
        """Return all items as a ``polars.DataFrame``."""
        return polars_frame(self.to_arrow())


class AsyncResults(Generic[T]):
    """The items of a read, for an ``async for`` loop, like ``Results``.

    Example:
        >>> async def newest(url: str) -> list[int]:
        ...     async with AsyncClient(url) as client:
        ...         windows = client.window_store("departures").fetch("EWR")
        ...         return [window["departures"] async for window in windows]
        >>> asyncio.run(newest(url))
        [12, 7]
    """

    def __init__(self, runner: AsyncRunner, read: PagedRead[T]) -> None:
        self._runner = runner
        self._read = read

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Yield whole pages, with their positions."""
        walk = Walk(self._read)
        while walk.goes_on:
            page = await self._runner.run(walk.page())
            walk.took(len(page.items), page.next_cursor)
            yield page

    async def list(self) -> list[T]:
        """Return all items as a list."""
        return [item async for item in self]

    async def bodies(self, media_type: str) -> AsyncIterator[bytes]:
        """Yield the body of each page in another response format.

        Args:
            media_type: a format of the service, for example ``text/csv``.
        """
        walk = Walk(self._read)
        while walk.goes_on:
            body = await self._runner.run(walk.body(media_type))
            walk.took(body.items, body.next_cursor)
            yield body.content

    async def page_unless(self, etag: str | None) -> Page[T] | None:
        """Return the first page, None if it is unchanged.

        Args:
            etag: the ``etag`` of an earlier page, None to read the page in any case.
        """
        return await self._runner.run(self._read.page_unless(etag))

    async def watch(self, every_s: float = 1.0) -> AsyncIterator[Page[T]]:
        """Yield the first page now and after each change, as ``Results.watch``.

        Args:
            every_s: seconds between two requests.
        """
        etag = None
        while True:
            page = await self.page_unless(etag)
            if page is not None:
                etag = page.etag
                yield page
            await asyncio.sleep(every_s)

    async def to_arrow(self) -> "pa.Table":
        """Return all items as a ``pyarrow.Table``, with the types of the store's table."""
        return joined([arrow_table(body) async for body in self.bodies(ARROW)])

    async def to_pandas(self) -> "pd.DataFrame":
        """Return all items as a ``pandas.DataFrame``."""
        return pandas_frame(await self.to_arrow())

    async def to_polars(self) -> "pl.DataFrame":
        """Return all items as a ``polars.DataFrame``."""
        return polars_frame(await self.to_arrow())
