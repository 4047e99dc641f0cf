"""Every read of the service, one function each. Nothing is sent here.

The stores of both clients take parameters and words of these functions over
(``oriel.client.stores``). ``address`` is the store that is asked, with the position that its
answers must have. Bounds of times and keys are inclusive, and None is no bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypedDict, TypeVar, Unpack

from oriel.client.protocol import PAGE_SIZE, Address, PagedRead, Read, Request
from oriel.client.records import (
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


def keys(address: Address, prefix: str = "", **paging: Unpack[Paging]) -> PagedRead[str]:
    """List the keys that begin with ``prefix``, in order of their UTF-8 bytes."""
    request = address.request("keys").asking(prefix=prefix or None)
    return _paged(address, request, "keys", str, paging)


def latest(
    address: Address, key: str, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key with the greatest start; None when it has none."""
    return _one_window(address, columns, "latest", key)


def current(
    address: Address, key: str, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key that ends at its newest record, or holds it; None when it has none."""
    return _one_window(address, columns, "current", key)


def window(
    address: Address, key: str, start: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key that starts exactly then (Kafka's ``fetch(key, time)``), or None."""
    return _one_window(address, columns, "window", time_text(start), key)


def fetch_session(
    address: Address, key: str, start: Time, end: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The session of a key that has exactly this start and end, or None."""
    return _one_window(address, columns, "session", time_text(start), time_text(end), key)


def fetch(
    address: Address,
    key: str,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of a key that start from ``time_from`` to ``time_to``, oldest first."""
    request = _starting(address.request("fetch", key), time_from, time_to)
    return _windows(address, request, paging)


def backward_fetch(
    address: Address,
    key: str,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch``, newest first (KIP-617)."""
    request = _starting(address.request("backwardFetch", key), time_from, time_to)
    return _windows(address, request, paging)


def covering(
    address: Address, key: str, instant: Time, **paging: Unpack[WindowPaging]
) -> PagedRead[Window]:
    """Windows of a key that a record of this time would be in, oldest first."""
    return _windows(address, address.request("covering", time_text(instant), key), paging)


def fetch_range(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of a range of keys that start within bounds, by key, then start, then end."""
    request = address.request("fetchRange").asking(key_from=key_from, key_to=key_to)
    return _windows(address, _starting(request, time_from, time_to), paging)


def backward_fetch_range(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch_range`` in exactly the reverse order."""
    request = address.request("backwardFetchRange").asking(key_from=key_from, key_to=key_to)
    return _windows(address, _starting(request, time_from, time_to), paging)


def fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of all keys that start within bounds, by key, then start, then end."""
    return _windows(address, _starting(address.request("fetchAll"), time_from, time_to), paging)


def backward_fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch_all`` in exactly the reverse order."""
    request = address.request("backwardFetchAll")
    return _windows(address, _starting(request, time_from, time_to), paging)


def latest_of_keys(
    address: Address, keys: Sequence[str], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """``latest`` of each of these keys, in their order; a key without windows has none."""
    return _of_keys(address, "latestOfKeys", keys, "windows", window_of, columns)


def current_of_keys(
    address: Address, keys: Sequence[str], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """``current`` of each of these keys, in their order; a key without windows has none."""
    return _of_keys(address, "currentOfKeys", keys, "windows", window_of, columns)


def fetch_of_keys(
    address: Address,
    keys: Sequence[str],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``fetch`` of each of these keys, one key after the other in their order."""
    request = replace(address.request("fetchOfKeys"), keys=tuple(keys))
    request = _starting(request, time_from, time_to)
    return _with_columns(address, request, "windows", window_of, paging)


def backward_fetch_of_keys(
    address: Address,
    keys: Sequence[str],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``backward_fetch`` of each of these keys, one key after the other in their order."""
    request = replace(address.request("backwardFetchOfKeys"), keys=tuple(keys))
    request = _starting(request, time_from, time_to)
    return _with_columns(address, request, "windows", window_of, paging)


def all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """All windows, by key, then start, then end."""
    return _windows(address, address.request("all"), paging)


def backward_all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """All windows in exactly the reverse order of ``all``."""
    return _windows(address, address.request("backwardAll"), paging)


def latest_all(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``latest`` of every key of a range or with a prefix, by key."""
    request = address.request("latestAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return _with_columns(address, request, "windows", window_of, paging)


def current_all(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``current`` of every key of a range or with a prefix, by key."""
    request = address.request("currentAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return _with_columns(address, request, "windows", window_of, paging)


def find_sessions(
    address: Address,
    key: str,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of a key that end at or after and start at or before, oldest start first."""
    request = _reaching(address.request("findSessions", key), earliest_end, latest_start)
    return _windows(address, request, paging)


def backward_find_sessions(
    address: Address,
    key: str,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of ``find_sessions``, newest start first (KIP-617)."""
    request = _reaching(address.request("backwardFindSessions", key), earliest_end, latest_start)
    return _windows(address, request, paging)


def find_sessions_range(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of a range of keys as in ``find_sessions``, by key, then start, then end."""
    request = address.request("findSessionsRange").asking(key_from=key_from, key_to=key_to)
    return _windows(address, _reaching(request, earliest_end, latest_start), paging)


def backward_find_sessions_range(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of ``find_sessions_range`` in exactly the reverse order."""
    request = address.request("backwardFindSessionsRange").asking(key_from=key_from, key_to=key_to)
    return _windows(address, _reaching(request, earliest_end, latest_start), paging)


def get(address: Address, key: str, *, columns: Sequence[str] | None = None) -> Read[Row | None]:
    """The row of a key, or None."""
    return _one(address, row_of, "rows", columns, "get", key)


def get_of_keys(
    address: Address, keys: Sequence[str], *, columns: Sequence[str] | None = None
) -> PagedRead[Row]:
    """``get`` of each of these keys, in their order; a key without a row has none."""
    return _of_keys(address, "getOfKeys", keys, "rows", row_of, columns)


def approximate_num_entries(address: Address) -> Read[int]:
    """The number of rows; Kafka's name, here it is exact."""
    request = address.request("approximateNumEntries")
    return Read(request, lambda answer: int(answer.json["count"]), address.wait_s)


def range_of_keys(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """Rows of a range of keys, by key."""
    request = address.request("range").asking(key_from=key_from, key_to=key_to)
    return _rows(address, request, paging)


def reverse_range(
    address: Address,
    key_from: str | None = None,
    key_to: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Row]:
    """Rows of ``range`` in exactly the reverse order."""
    request = address.request("reverseRange").asking(key_from=key_from, key_to=key_to)
    return _rows(address, request, paging)


def prefix_scan(address: Address, prefix: str, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """Rows of the keys that begin with ``prefix``, by key."""
    return _rows(address, address.request("prefixScan").asking(prefix=prefix), paging)


def all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """All rows, by key."""
    return _rows(address, address.request("all"), paging)


def reverse_all_rows(address: Address, **paging: Unpack[RowPaging]) -> PagedRead[Row]:
    """All rows in exactly the reverse order of ``all``."""
    return _rows(address, address.request("reverseAll"), paging)


def _one_window(
    address: Address, columns: Sequence[str] | None, *parts: str
) -> Read[Window | None]:
    return _one(address, window_of, "windows", columns, *parts)


def _one(
    address: Address,
    item: Callable[[Any], T],
    field: str,
    columns: Sequence[str] | None,
    *parts: str,
) -> Read[T | None]:
    """The only item of an answer; None where there is none."""
    absent = frozenset({"window-not-found", "row-not-found"})
    request = address.request(*parts).asking(columns=_names(columns))
    return Read(request, lambda answer: item(answer.json[field][0]), address.wait_s, absent)


def _of_keys(
    address: Address,
    name: str,
    keys: Sequence[str],
    field: str,
    item: Callable[[Any], T],
    columns: Sequence[str] | None,
) -> PagedRead[T]:
    request = replace(address.request(name), keys=tuple(keys)).asking(columns=_names(columns))
    return PagedRead(request, field, item, wait_s=address.wait_s, sized=False)


def _windows(address: Address, request: Request, paging: WindowPaging) -> PagedRead[Window]:
    final = paging.get("final")
    request = request.asking(final=None if final is None else str(final).lower())
    return _with_columns(address, request, "windows", window_of, paging)


def _rows(address: Address, request: Request, paging: RowPaging) -> PagedRead[Row]:
    return _with_columns(address, request, "rows", row_of, paging)


def _with_columns(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: RowPaging
) -> PagedRead[T]:
    request = request.asking(columns=_names(paging.get("columns")))
    return _paged(address, request, field, item, paging)


def _paged(
    address: Address, request: Request, field: str, item: Callable[[Any], T], paging: Paging
) -> PagedRead[T]:
    page_size = paging.get("page_size", PAGE_SIZE)
    return PagedRead(request, field, item, paging.get("limit"), page_size, address.wait_s)


def _names(columns: Sequence[str] | None) -> str | None:
    return None if columns is None else ",".join(columns)


def _starting(request: Request, time_from: Time | None, time_to: Time | None) -> Request:
    return request.asking(from_ms=_time(time_from), to_ms=_time(time_to))


def _reaching(request: Request, earliest_end: Time | None, latest_start: Time | None) -> Request:
    return request.asking(earliest_end_ms=_time(earliest_end), latest_start_ms=_time(latest_start))


def _time(time: Time | None) -> str | None:
    return None if time is None else time_text(time)
