"""What a read is: a request, and how its answer is understood. Nothing is sent here."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from oriel.client.records import Page, Position, position_of

T = TypeVar("T")

#: A key in a call: its text, or the number or components that it is a text of.
Key = str | int | tuple[str | int, ...]

_ANY_POSITION = Position()

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
EVENT_STREAM = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"

#: Most items of one page that the service gives.
PAGE_SIZE_MAX = 10_000
PAGE_SIZE = 1_000


class Answer(NamedTuple):
    """A finished answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


class Body(NamedTuple):
    """A page in another form than JSON; ``next_cursor`` None: there are no more."""

    content: bytes
    items: int
    next_cursor: str | None


@dataclass(frozen=True)
class Request:
    """A request: ``path`` is percent-encoded, ``query`` is not.

    With ``keys`` it is a POST of them, which changes nothing either, else a GET. ``last_event_id``
    is where a stream goes on.
    """

    path: str
    query: tuple[tuple[str, str], ...] = ()
    accept: str = JSON
    etag: str | None = None
    keys: tuple[str, ...] | None = None
    last_event_id: str | None = None

    def asking(self, **parameters: object) -> "Request":
        """The request with more parameters; those that are None are left out."""
        more = [
            (name, key_text(value) if isinstance(value, tuple) else str(value))
            for name, value in parameters.items()
            if value is not None
        ]
        return replace(self, query=(*self.query, *more))


@dataclass(frozen=True)
class Address:
    """A store, the least position of its answers, and for how long to wait for that position."""

    store: str
    position: Position = _ANY_POSITION
    wait_s: float = 0.0

    def listing(self, name: str, keys: Sequence[Key]) -> Request:
        """A request that lists keys."""
        return replace(self.request(name), keys=tuple(map(key_text, keys)))

    def request(self, *parts: Key) -> Request:
        """A request below the store's path, with the demand for the position."""
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
    """One request and what its answer means.

    ``wait_s`` is for how long a store that is behind the demanded position is asked again.
    An answer of one of ``absent_codes`` means None.
    """

    request: Request
    parse: Callable[[Answer], T]
    wait_s: float = 0.0
    absent_codes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PagedRead(Generic[T]):
    """A read whose items come in pages: at most ``limit`` in all (None: every one).

    ``field`` is where the answer has its items, ``item`` makes one out of its JSON. A read that is
    not ``sized`` leaves to the service how many items a page has.
    """

    request: Request
    field: str
    item: Callable[[Any], T]
    limit: int | None = None
    page_size: int = PAGE_SIZE
    wait_s: float = 0.0
    sized: bool = True

    def __post_init__(self) -> None:
        """Refuse sizes that the service would refuse: a ``ValueError`` names the range."""
        if not 1 <= self.page_size <= PAGE_SIZE_MAX:
            message = f"page_size is {self.page_size}. It must be from 1 to {PAGE_SIZE_MAX:,}"
            raise ValueError(message)
        if self.limit is not None and self.limit < 1:
            message = f"limit is {self.limit}. It must be at least 1"
            raise ValueError(message)

    def page(self, cursor: str | None = None, done: int = 0) -> Read[Page[T]]:
        """The page behind ``cursor``, after ``done`` items."""
        return Read(self._request(cursor, done), self._page_of, self.wait_s)

    def page_unless(self, etag: str | None) -> Read[Page[T] | None]:
        """The first page; None where it is still the one of that tag."""
        request = replace(self._request(None, 0), etag=etag)

        def parse(answer: Answer) -> Page[T] | None:
            return None if answer.status == 304 else self._page_of(answer)

        return Read(request, parse, self.wait_s)

    def body(self, accept: str, cursor: str | None = None, done: int = 0) -> "Read[Body]":
        """The page behind ``cursor`` in another form than JSON."""

        def parse(answer: Answer) -> Body:
            headers = answer.headers
            return Body(
                answer.content, int(headers["oriel-items"]), headers.get("oriel-next-cursor")
            )

        request = replace(self._request(cursor, done), accept=accept)
        return Read(request, parse, self.wait_s)

    def _page_of(self, answer: Answer) -> Page[T]:
        content = answer.json
        items = [self.item(item) for item in content[self.field]]
        position = position_of(content["position"])
        return Page(items, position, content["next_cursor"], answer.headers.get("etag"))

    def _request(self, cursor: str | None, done: int) -> Request:
        if not self.sized:
            return self.request.asking(cursor=cursor)
        left = self.page_size if self.limit is None else min(self.page_size, self.limit - done)
        return self.request.asking(limit=left, cursor=cursor)


@dataclass(frozen=True)
class Stream(Generic[T]):
    """A request that is answered by a stream of changes; ``item`` makes one out of its JSON."""

    request: Request
    item: Callable[[Any], T]


class Walk(Generic[T]):
    """From page to page of a read, until there are no more or its limit is reached."""

    def __init__(self, read: PagedRead[T]) -> None:
        """Stand before the first page."""
        self._read = read
        self._cursor: str | None = None
        self._done = 0
        self.goes_on = True

    def page(self) -> Read[Page[T]]:
        """The page that comes next."""
        return self._read.page(self._cursor, self._done)

    def body(self, accept: str) -> Read[Body]:
        """The page that comes next, in another form than JSON."""
        return self._read.body(accept, self._cursor, self._done)

    def took(self, items: int, next_cursor: str | None) -> None:
        """Go behind a page of so many items."""
        self._cursor = next_cursor
        self._done += items
        limit = self._read.limit
        self.goes_on = next_cursor is not None and (limit is None or self._done < limit)


def key_text(key: Key) -> str:
    """The text of a key: a number in decimal, components as a JSON array without blanks."""
    if isinstance(key, str):
        return key
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def _quoted(part: str) -> str:
    # A part of dots alone would be taken for a step up by whoever normalises paths on the way.
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")
