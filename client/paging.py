"""Define the common parts of reads: pages, columns, bounds and items."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, TypeVar

from oriel.client.protocol import PAGE_SIZE, Address, Key, PagedRead, Read, Request
from oriel.client.records import Row, Time, Window, row_of, time_text, window_of

T = TypeVar("T")


class Paging(TypedDict, total=False):
    """The number of items of a read.

    Attributes:
        limit: maximum number of items in total. Default: all items.
        page_size: maximum number of items per request, at most 10,000. Default: 1,000.
    """

    limit: int | None
    page_size: int


class Selection(TypedDict, total=False):
    """The items of a read, their order and their aggregates.

    Attributes:
        columns: names of the aggregates to read. Default: all.
        where: a condition that the items must meet, as an expression of Spark SQL over the fields
            of an item, for example ``"flights > 10 AND key LIKE 'E%'"``.
        order_by: names of the fields that order the items, in descending order with a minus
            before the name, for example ``["-flights"]``. Default: the order of the read.
        top: maximum number of items of a read with ``order_by``, in one request. At most 10,000.
    """

    columns: Sequence[str] | None
    where: str | None
    order_by: Sequence[str] | None
    top: int | None


class VersionPaging(Paging, total=False):
    """The number of versions of a read, as in `Paging`, and their columns.

    Attributes:
        columns: names of the columns to read. Default: all.
    """

    columns: Sequence[str] | None


class RowPaging(Paging, Selection, total=False):
    """The number of items of a read, as in `Paging`, and which, as in `Selection`."""


class WindowPaging(RowPaging, total=False):
    """The number of windows of a read and which, as in `RowPaging`, and their state.

    Attributes:
        final: True to read only final windows, False to read only windows that a record can
            still change. Default: both.
    """

    final: bool | None


class MergedPaging(WindowPaging, total=False):
    """The length of merged ranges, and which ranges, as in `WindowPaging`.

    Attributes:
        step_ms: length of a range in ms, a multiple of the window size. Default: the window size.
    """

    step_ms: int | None


def in_form(read: Read[Any], accept: str) -> Read[bytes | None]:
    """Return the same read, for the body of its response in another format."""
    request = replace(read.request, accept=accept)
    return Read(request, lambda response: response.content, read.wait_s, read.absent_codes)


def one_item(
    address: Address,
    item: Callable[[Any], T],
    field: str,
    columns: Sequence[str] | None,
    *parts: Key,
) -> Read[T | None]:
    """Return the read of one item, with the value None if the item does not exist."""
    absent = frozenset({"window-not-found", "row-not-found", "version-not-valid"})
    request = address.request(*parts).asking(columns=column_names(columns))
    return Read(request, lambda response: item(response.json[field][0]), address.wait_s, absent)


def one_window(address: Address, columns: Sequence[str] | None, *parts: Key) -> Read[Window | None]:
    """Return the read of one window, with the value None if the window does not exist."""
    return one_item(address, window_of, "windows", columns, *parts)


def items_of_keys(
    address: Address,
    name: str,
    keys: Sequence[Key],
    field: str,
    item: Callable[[Any], T],
    selection: Selection,
) -> PagedRead[T]:
    """Return the read of the items of listed keys, in their order."""
    request = selected(address.listing(name, keys), selection)
    return PagedRead(request, field, item, wait_s=address.wait_s, sized=False)


def windows(address: Address, request: Request, paging: WindowPaging) -> PagedRead[Window]:
    """Return the read of windows, page by page."""
    final = paging.get("final")
    request = request.asking(final=None if final is None else str(final).lower())
    return with_columns(address, request, "windows", window_of, paging)


def ranges(address: Address, request: Request, paging: MergedPaging) -> PagedRead[Window]:
    """Return the read of merged ranges, page by page."""
    return windows(address, request.asking(step_ms=paging.get("step_ms")), paging)


def rows(address: Address, request: Request, paging: RowPaging) -> PagedRead[Row]:
    """Return the read of rows, page by page."""
    return with_columns(address, request, "rows", row_of, paging)


def with_columns(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: RowPaging
) -> PagedRead[T]:
    """Return the read of selected items, page by page."""
    return paged(address, selected(request, paging), field, item, paging)


def selected(request: Request, selection: Selection) -> Request:
    """Add a selection to a request."""
    return request.asking(
        columns=column_names(selection.get("columns")),
        where=selection.get("where"),
        order_by=column_names(selection.get("order_by")),
        top=selection.get("top"),
    )


def paged(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: Paging
) -> PagedRead[T]:
    """Return the read of items, page by page."""
    page_size = paging.get("page_size", PAGE_SIZE)
    return PagedRead(request, field, item, paging.get("limit"), page_size, address.wait_s)


def starting(request: Request, time_from: Time | None, time_to: Time | None) -> Request:
    """Add the bounds of the window start to a request."""
    return request.asking(from_ms=_time(time_from), to_ms=_time(time_to))


def reaching(request: Request, earliest_end: Time | None, latest_start: Time | None) -> Request:
    """Add the bounds of the overlap of sessions to a request."""
    return request.asking(earliest_end_ms=_time(earliest_end), latest_start_ms=_time(latest_start))


def column_names(columns: Sequence[str] | None) -> str | None:
    """Return names of aggregates as the service reads them."""
    return None if columns is None else ",".join(columns)


def _time(time: Time | None) -> str | None:
    return None if time is None else time_text(time)
