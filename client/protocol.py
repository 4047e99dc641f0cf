"""Define reads: a request and the meaning of its response. This module sends nothing."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from oriel.client.records import Page, Position, position_of

T = TypeVar("T")

#: A key in a call: its text, an integer, or the components of a composite key.
Key = str | int | tuple[str | int, ...]

_ANY_POSITION = Position()

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
EVENT_STREAM = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"

#: Limit of the items of one page.
PAGE_SIZE_MAX = 10_000
PAGE_SIZE = 1_000


class RawResponse(NamedTuple):
    """A complete response, with the names of header fields in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(self.content)


class Body(NamedTuple):
    """A page in another format than JSON. The last page has no ``next_cursor``."""

    content: bytes
    items: int
    next_cursor: str | None


@dataclass(frozen=True)
class Request:
    """A request: ``path`` is percent-encoded, ``query`` is not.

    With ``keys`` or ``sql`` it is a POST with these keys or this query, otherwise a GET.
    ``last_event_id`` is the event after which a stream resumes.
    """

    path: str
    query: tuple[tuple[str, str], ...] = ()
    accept: str = JSON
    etag: str | None = None
    keys: tuple[str, ...] | None = None
    last_event_id: str | None = None
    sql: str | None = None

    @property
    def body(self) -> Any:
        """Return the JSON of the body, None for a GET."""
        if self.sql is not None:
            return {"query": self.sql}
        return None if self.keys is None else list(self.keys)

    def asking(self, **parameters: object) -> "Request":
        """Return the request with more parameters, without those of the value None."""
        more = [
            (name, key_text(value) if isinstance(value, tuple) else str(value))
            for name, value in parameters.items()
            if value is not None
        ]
        return replace(self, query=(*self.query, *more))


@dataclass(frozen=True)
class Address:
    """A store, the position that its responses must include, and how long to wait for it."""

    store: str
    position: Position = _ANY_POSITION
    wait_s: float = 0.0

    def listing(self, name: str, keys: Sequence[Key]) -> Request:
        """Return a request that lists keys."""
        return replace(self.request(name), keys=tuple(map(key_text, keys)))

    def request(self, *parts: Key) -> Request:
        """Return a request below the path of the store, with the position."""
        position = self.position
        query = [("min_version", str(position.version))] if position.version >= 0 else []
        if query and position.history:
            query.append(("history", position.history))
        query += [
            ("min_offset", f"{topic}:{partition}:{offset}")
            for topic, partitions in position.offsets.items()
            for partition, offset in partitions.items()
        ]
        path = "/".join(_quoted(key_text(part)) for part in (self.store, *parts))
        return Request(f"/v1/stores/{path}", tuple(query))


@dataclass(frozen=True)
class Read(Generic[T]):
    """One request and the meaning of its response.

    If the store has not reached the requested position, the request is sent again for ``wait_s``
    seconds. A response with one of ``absent_codes`` has the value None. ``work_s`` is added to the
    usual time limit of a request.
    """

    request: Request
    parse: Callable[[RawResponse], T]
    wait_s: float = 0.0
    absent_codes: frozenset[str] = frozenset()
    work_s: float = 0.0


@dataclass(frozen=True)
class PagedRead(Generic[T]):
    """A read of pages of items, with at most ``limit`` items in total (None: all items).

    ``field`` is the field of the response with the items. ``item`` converts the JSON of an item. If
    a read is not ``sized``, the service decides how many items a page has.
    """

    request: Request
    field: str
    item: Callable[[Any], T]
    limit: int | None = None
    page_size: int = PAGE_SIZE
    wait_s: float = 0.0
    sized: bool = True

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            ValueError: the service would reject a size.
        """
        if not 1 <= self.page_size <= PAGE_SIZE_MAX:
            message = f"page_size is {self.page_size}. It must be from 1 to {PAGE_SIZE_MAX:,}"
            raise ValueError(message)
        if self.limit is not None and self.limit < 1:
            message = f"limit is {self.limit}. It must be at least 1"
            raise ValueError(message)

    def page(self, cursor: str | None = None, done: int = 0) -> Read[Page[T]]:
        """Return the read of the page after ``cursor``, after ``done`` items."""
        return Read(self._request(cursor, done), self._page_of, self.wait_s)

    def page_unless(self, etag: str | None) -> Read[Page[T] | None]:
        """Return the read of the first page, with the value None if it is unchanged."""
        request = replace(self._request(None, 0), etag=etag)

        def parse(response: RawResponse) -> Page[T] | None:
            return None if response.status == 304 else self._page_of(response)

        return Read(request, parse, self.wait_s)

    def body(self, accept: str, cursor: str | None = None, done: int = 0) -> "Read[Body]":
        """Return the read of the page after ``cursor`` in another format than JSON."""

        def parse(response: RawResponse) -> Body:
            headers = response.headers
            return Body(
                response.content, int(headers["oriel-items"]), headers.get("oriel-next-cursor")
            )

        request = replace(self._request(cursor, done), accept=accept)
        return Read(request, parse, self.wait_s)

    def _page_of(self, response: RawResponse) -> Page[T]:
        content = response.json
        items = [self.item(item) for item in content[self.field]]
        position = position_of(content["position"])
        return Page(items, position, content["next_cursor"], response.headers.get("etag"))

    def _request(self, cursor: str | None, done: int) -> Request:
        if not self.sized:
            return self.request.asking(cursor=cursor)
        left = self.page_size if self.limit is None else min(self.page_size, self.limit - done)
        return self.request.asking(limit=left, cursor=cursor)


@dataclass(frozen=True)
class Stream(Generic[T]):
    """A request of a stream of changes. ``item`` converts the JSON of an item."""

    request: Request
    item: Callable[[Any], T]


class Walk(Generic[T]):
    """Reads page after page, until the last page or the limit of the read."""

    def __init__(self, read: PagedRead[T]) -> None:
        self._read = read
        self._cursor: str | None = None
        self._done = 0
        self.goes_on = True

    def page(self) -> Read[Page[T]]:
        """Return the read of the next page."""
        return self._read.page(self._cursor, self._done)

    def body(self, accept: str) -> Read[Body]:
        """Return the read of the next page, in another format than JSON."""
        return self._read.body(accept, self._cursor, self._done)

    def took(self, items: int, next_cursor: str | None) -> None:
        """Continue after a page with this number of items."""
        self._cursor = next_cursor
        self._done += items
        limit = self._read.limit
        self.goes_on = next_cursor is not None and (limit is None or self._done < limit)


def key_text(key: Key) -> str:
    """Return the text of a key: integers in decimal, components as a JSON array without spaces."""
    if isinstance(key, str):
        return key
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _quoted(part: str) -> str:
    # A proxy that normalizes paths would read a part of dots as a parent directory.
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")
