"""Every read as a value: what to ask, and how to understand the answer. Nothing is sent here.

A read is one function; the stores of both clients take its parameters and its words over
(``oriel.client.stores``, ``oriel.client.async_stores``). ``address`` is the store that is asked,
with the position that its answers must have.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from oriel.client.records import (
    Page,
    Position,
    Row,
    StoreSummary,
    Time,
    Window,
    position_of,
    row_of,
    summary_of,
    time_text,
    window_of,
)

T = TypeVar("T")

_ANY_POSITION = Position()

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
ARROW = "application/vnd.apache.arrow.stream"

#: Most items of one page that the service gives.
PAGE_SIZE_MAX = 10_000
_PAGE_SIZE = 1_000


class Answer(NamedTuple):
    """A finished answer; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


@dataclass(frozen=True)
class Request:
    """A GET request: ``path`` is percent-encoded, ``query`` is not."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    accept: str = JSON
    etag: str | None = None

    def asking(self, **parameters: object) -> "Request":
        """The request with more parameters; those that are None are left out."""
        more = [(name, str(value)) for name, value in parameters.items() if value is not None]
        return replace(self, query=(*self.query, *more))


@dataclass(frozen=True)
class Address:
    """A store, the least position of its answers, and for how long to wait for that position."""

    store: str
    position: Position = _ANY_POSITION
    wait_s: float = 0.0

    def request(self, *parts: str) -> Request:
        """A request below the store's path, with the demand for the position."""
        position = self.position
        query = [("min_version", str(position.version))] if position.version >= 0 else []
        query += [
            ("min_offset", f"{topic}:{partition}:{offset}")
            for topic, partitions in position.offsets.items()
            for partition, offset in partitions.items()
        ]
        return Request("/".join(["/v1/stores", *map(_quoted, (self.store, *parts))]), tuple(query))


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

    ``field`` is where the answer has its items, ``item`` makes one out of its JSON.
    """

    request: Request
    field: str
    item: Callable[[Any], T]
    limit: int | None = None
    page_size: int = _PAGE_SIZE
    wait_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse sizes that the service would refuse: a ``ValueError`` names the range."""
        if not 1 <= self.page_size <= PAGE_SIZE_MAX:
            message = f"page_size must be from 1 to {PAGE_SIZE_MAX:,}, not {self.page_size}"
            raise ValueError(message)
        if self.limit is not None and self.limit < 1:
            message = f"limit must be at least 1, not {self.limit}"
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

    def body(
        self, accept: str, cursor: str | None = None, done: int = 0
    ) -> Read[tuple[bytes, str | None]]:
        """The page behind ``cursor`` in another form than JSON, and the cursor of the next one."""

        def parse(answer: Answer) -> tuple[bytes, str | None]:
            return answer.content, answer.headers.get("oriel-next-cursor")

        request = replace(self._request(cursor, done), accept=accept)
        return Read(request, parse, self.wait_s)

    def _page_of(self, answer: Answer) -> Page[T]:
        content = answer.json
        items = [self.item(item) for item in content[self.field]]
        position = position_of(content["position"])
        return Page(items, position, content["next_cursor"], answer.headers.get("etag"))

    def _request(self, cursor: str | None, done: int) -> Request:
        left = self.page_size if self.limit is None else min(self.page_size, self.limit - done)
        return self.request.asking(limit=left, cursor=cursor)


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

    def arrow_page(self) -> Read[tuple[bytes, str | None]]:
        """The page that comes next, as an Arrow IPC stream, and the cursor behind it."""
        return self._read.body(ARROW, self._cursor, self._done)

    def took(self, items: int, next_cursor: str | None) -> None:
        """Go behind a page of so many items."""
        self._cursor = next_cursor
        self._done += items
        limit = self._read.limit
        self.goes_on = next_cursor is not None and (limit is None or self._done < limit)


def _quoted(part: str) -> str:
    # A part of dots alone would be taken for a step up by whoever normalises paths on the way.
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")


def _time(time: Time | None) -> str | None:
    return None if time is None else time_text(time)


def _one(address: Address, item: Callable[[Any], T], field: str, *parts: str) -> Read[T | None]:
    """The only item of an answer; None where there is none."""
    absent = frozenset({"window-not-found", "row-not-found"})
    request = address.request(*parts)
    return Read(request, lambda answer: item(answer.json[field][0]), address.wait_s, absent)


def _windows(
    address: Address, limit: int | None, page_size: int, *parts: str, **bounds: str | None
) -> PagedRead[Window]:
    request = address.request(*parts).asking(**bounds)
    return PagedRead(request, "windows", window_of, limit, page_size, address.wait_s)


def in_form(read: Read[Any], accept: str) -> Read[bytes | None]:
    """The same read, for the body of its answer in another form."""
    request = replace(read.request, accept=accept)
    return Read(request, lambda answer: answer.content, read.wait_s, read.absent_codes)


def stores() -> Read[list[StoreSummary]]:
    """List the stores, with what they are and how far they reach."""
    return Read(
        Request("/v1/stores"), lambda answer: [summary_of(one) for one in answer.json["stores"]]
    )


def describe(address: Address) -> Read[dict[str, Any]]:
    """Definition, position, stream time, counters and retention of the store, as the API has it."""
    # The description has no demand for a position.
    request = Address(address.store).request()
    return Read(request, lambda answer: dict(answer.json))


def kind(address: Address) -> Read[str]:
    """The kind of the store's windows; ``none`` for a store of one row a key."""
    request = Address(address.store).request()
    return Read(request, lambda answer: str(answer.json["definition"]["window"]["kind"]))


def reached(address: Address) -> Read[Position]:
    """The position that the store has reached."""
    request = address.request("keys").asking(limit=1)
    return Read(request, lambda answer: position_of(answer.json["position"]), address.wait_s)


def wait_for(address: Address, position: Position, wait_s: float = 30.0) -> Read[Position]:
    """Wait until the store has at least this position; gives the one that it has then.

    ``PositionNotReached`` is raised when it has not after ``wait_s`` seconds.
    """
    return reached(replace(address, position=position, wait_s=wait_s))


def keys(
    address: Address, prefix: str = "", *, limit: int | None = None, page_size: int = _PAGE_SIZE
) -> PagedRead[str]:
    """List the keys that begin with ``prefix``, in order of their UTF-8 bytes."""
    request = address.request("keys").asking(prefix=prefix or None)
    return PagedRead(request, "keys", str, limit, page_size, address.wait_s)


def fetch(
    address: Address,
    key: str,
    time_from: Time | None = None,
    time_to: Time | None = None,
    *,
    limit: int | None = None,
    page_size: int = _PAGE_SIZE,
) -> PagedRead[Window]:
    """Windows of a key whose start lies from ``time_from`` to ``time_to``, oldest first.

    Both bounds are inclusive; None is no bound. ``limit`` is the most windows in all.
    """
    bounds = {"from_ms": _time(time_from), "to_ms": _time(time_to)}
    return _windows(address, limit, page_size, "fetch", key, **bounds)


def backward_fetch(
    address: Address,
    key: str,
    time_from: Time | None = None,
    time_to: Time | None = None,
    *,
    limit: int | None = None,
    page_size: int = _PAGE_SIZE,
) -> PagedRead[Window]:
    """Windows of ``fetch``, newest first (KIP-617)."""
    bounds = {"from_ms": _time(time_from), "to_ms": _time(time_to)}
    return _windows(address, limit, page_size, "backwardFetch", key, **bounds)


def latest(address: Address, key: str) -> Read[Window | None]:
    """The window of a key with the greatest start; None when it has none."""
    return _one(address, window_of, "windows", "latest", key)


def window(address: Address, key: str, start: Time) -> Read[Window | None]:
    """The window of a key that starts exactly then (Kafka's ``fetch(key, time)``), or None."""
    return _one(address, window_of, "windows", "window", time_text(start), key)


def find_sessions(
    address: Address,
    key: str,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    *,
    limit: int | None = None,
    page_size: int = _PAGE_SIZE,
) -> PagedRead[Window]:
    """Sessions that end at or after ``earliest_end`` and start at or before ``latest_start``.

    Oldest start first. None is no bound; ``limit`` is the most sessions in all.
    """
    bounds = {"earliest_end_ms": _time(earliest_end), "latest_start_ms": _time(latest_start)}
    return _windows(address, limit, page_size, "findSessions", key, **bounds)


def backward_find_sessions(
    address: Address,
    key: str,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    *,
    limit: int | None = None,
    page_size: int = _PAGE_SIZE,
) -> PagedRead[Window]:
    """Sessions of ``find_sessions``, newest start first (KIP-617)."""
    bounds = {"earliest_end_ms": _time(earliest_end), "latest_start_ms": _time(latest_start)}
    return _windows(address, limit, page_size, "backwardFindSessions", key, **bounds)


def fetch_session(address: Address, key: str, start: Time, end: Time) -> Read[Window | None]:
    """The session of a key that has exactly this start and end, or None."""
    return _one(address, window_of, "windows", "session", time_text(start), time_text(end), key)


def get(address: Address, key: str) -> Read[Row | None]:
    """The row of a key, or None."""
    return _one(address, row_of, "rows", "get", key)
