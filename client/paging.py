"""What reads have in common: pages, columns, bounds, and how items are made of answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, TypeVar

from oriel.client.protocol import PAGE_SIZE, Address, Key, PagedRead, Read, Request
from oriel.client.records import Row, Time, Window, row_of, time_text, window_of

T = TypeVar("T")


class Paging(TypedDict, total=False):
    """How many items: ``limit`` in all (every one), ``page_size`` at a time (1,000)."""

    limit: int | None
    page_size: int


class RowPaging(Paging, total=False):
    """As ``Paging``; of the aggregates only those that ``columns`` names (all)."""

    columns: Sequence[str] | None


class WindowPaging(RowPaging, total=False):
    """As ``RowPaging``; ``final``: only windows that nothing can change any more, or the others."""

    final: bool | None


def in_form(read: Read[Any], accept: str) -> Read[bytes | None]:
    """The same read, for the body of its answer in another form."""
    request = replace(read.request, accept=accept)
    return Read(request, lambda answer: answer.content, read.wait_s, read.absent_codes)


def one_item(
    address: Address,
    item: Callable[[Any], T],
    field: str,
    columns: Sequence[str] | None,
    *parts: Key,
) -> Read[T | None]:
    """The only item of an answer; None where there is none."""
    absent = frozenset({"window-not-found", "row-not-found"})
    request = address.request(*parts).asking(columns=column_names(columns))
    return Read(request, lambda answer: item(answer.json[field][0]), address.wait_s, absent)


def one_window(address: Address, columns: Sequence[str] | None, *parts: Key) -> Read[Window | None]:
    """The only window of an answer; None where there is none."""
    return one_item(address, window_of, "windows", columns, *parts)


def items_of_keys(
    address: Address,
    name: str,
    keys: Sequence[Key],
    field: str,
    item: Callable[[Any], T],
    columns: Sequence[str] | None,
) -> PagedRead[T]:
    """Items of the keys that a request lists, in their order."""
    request = address.listing(name, keys).asking(columns=column_names(columns))
    return PagedRead(request, field, item, wait_s=address.wait_s, sized=False)


def windows(address: Address, request: Request, paging: WindowPaging) -> PagedRead[Window]:
    """Windows, page by page."""
    final = paging.get("final")
    request = request.asking(final=None if final is None else str(final).lower())
    return with_columns(address, request, "windows", window_of, paging)


def rows(address: Address, request: Request, paging: RowPaging) -> PagedRead[Row]:
    """Rows, page by page."""
    return with_columns(address, request, "rows", row_of, paging)


def with_columns(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: RowPaging
) -> PagedRead[T]:
    """Items with chosen aggregates, page by page."""
    request = request.asking(columns=column_names(paging.get("columns")))
    return paged(address, request, field, item, paging)


def paged(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: Paging
) -> PagedRead[T]:
    """Items, page by page."""
    page_size = paging.get("page_size", PAGE_SIZE)
    return PagedRead(request, field, item, paging.get("limit"), page_size, address.wait_s)


def starting(request: Request, time_from: Time | None, time_to: Time | None) -> Request:
    """Bound when windows start."""
    return request.asking(from_ms=_time(time_from), to_ms=_time(time_to))


def reaching(request: Request, earliest_end: Time | None, latest_start: Time | None) -> Request:
    """Bound the time that sessions reach into."""
    return request.asking(earliest_end_ms=_time(earliest_end), latest_start_ms=_time(latest_start))


def column_names(columns: Sequence[str] | None) -> str | None:
    """Write names of columns as the service reads them."""
    return None if columns is None else ",".join(columns)


def _time(time: Time | None) -> str | None:
    return None if time is None else time_text(time)
