"""What a read of many items gives: pages that are asked for as they are needed."""

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
    """Who sends requests and waits."""

    def run(self, read: Read[V]) -> V:
        """Take a read to its value."""

    def follow(self, stream: Stream[V]) -> Iterator[Change[V]]:
        """Give the changes of a stream."""


class AsyncRunner(Protocol):
    """Who sends requests and waits, without blocking."""

    async def run(self, read: Read[V]) -> V:
        """Take a read to its value."""

    def follow(self, stream: Stream[V]) -> AsyncIterator[Change[V]]:
        """Give the changes of a stream."""


class Results(Generic[T]):
    """The items of a read: ``for window in results``; each loop asks anew.

    A page comes from one version of the store; the next one may come from a newer, never from an
    older one. ``pages`` tells the position of each.
    """

    def __init__(self, runner: Runner, read: PagedRead[T]) -> None:
        """Ask for nothing yet."""
        self._runner = runner
        self._read = read

    def __iter__(self) -> Iterator[T]:
        """Give the items, a page at a time."""
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[T]]:
        """Give whole pages, with their positions."""
        walk = Walk(self._read)
        while walk.goes_on:
            page = self._runner.run(walk.page())
            walk.took(len(page.items), page.next_cursor)
            yield page

    def list(self) -> list[T]:
        """All items."""
        return [*self]

    def bodies(self, media_type: str) -> Iterator[bytes]:
        """Give the body of each page in a form that the service has, like ``text/csv``."""
        walk = Walk(self._read)
        while walk.goes_on:
            body = self._runner.run(walk.body(media_type))
            walk.took(body.items, body.next_cursor)
            yield body.content

    def page_unless(self, etag: str | None) -> Page[T] | None:
        """The first page; None where it is still the one of this tag."""
        return self._runner.run(self._read.page_unless(etag))

    def watch(self, every_s: float = 1.0) -> Iterator[Page[T]]:
        """Give the first page, and again each time that it has changed; never ends.

        It asks each ``every_s`` seconds whether the page is still the same, which costs the
        service little.
        """
        etag = None
        while True:
            page = self.page_unless(etag)
            if page is not None:
                etag = page.etag
                yield page
            time.sleep(every_s)

    def to_arrow(self) -> "pa.Table":
        """All items as a ``pyarrow.Table``, with the types of the store's table."""
        return joined([arrow_table(body) for body in self.bodies(ARROW)])

    def to_pandas(self) -> "pd.DataFrame":
        """All items as a ``pandas.DataFrame``."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> "pl.DataFrame":
        """All items as a ``polars.DataFrame``."""
        return polars_frame(self.to_arrow())


class AsyncResults(Generic[T]):
    """``Results`` for ``async for``."""

    def __init__(self, runner: AsyncRunner, read: PagedRead[T]) -> None:
        """Ask for nothing yet."""
        self._runner = runner
        self._read = read

    async def __aiter__(self) -> AsyncIterator[T]:
        """Give the items, a page at a time."""
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Give whole pages, with their positions."""
        walk = Walk(self._read)
        while walk.goes_on:
            page = await self._runner.run(walk.page())
            walk.took(len(page.items), page.next_cursor)
            yield page

    async def list(self) -> list[T]:
        """All items."""
        return [item async for item in self]

    async def bodies(self, media_type: str) -> AsyncIterator[bytes]:
        """Give the body of each page in a form that the service has, like ``text/csv``."""
        walk = Walk(self._read)
        while walk.goes_on:
            body = await self._runner.run(walk.body(media_type))
            walk.took(body.items, body.next_cursor)
            yield body.content

    async def page_unless(self, etag: str | None) -> Page[T] | None:
        """The first page; None where it is still the one of this tag."""
        return await self._runner.run(self._read.page_unless(etag))

    async def watch(self, every_s: float = 1.0) -> AsyncIterator[Page[T]]:
        """Give the first page, and again each time that it has changed, as ``Results.watch``."""
        etag = None
        while True:
            page = await self.page_unless(etag)
            if page is not None:
                etag = page.etag
                yield page
            await asyncio.sleep(every_s)

    async def to_arrow(self) -> "pa.Table":
        """All items as a ``pyarrow.Table``, with the types of the store's table."""
        return joined([arrow_table(body) async for body in self.bodies(ARROW)])

    async def to_pandas(self) -> "pd.DataFrame":
        """All items as a ``pandas.DataFrame``."""
        return pandas_frame(await self.to_arrow())

    async def to_polars(self) -> "pl.DataFrame":
        """All items as a ``polars.DataFrame``."""
        return polars_frame(await self.to_arrow())
