"""Reads of windows and sessions. Bounds of times and keys are inclusive, and None is no bound."""

from collections.abc import Sequence
from typing import Unpack

from oriel.client.paging import (
    RowPaging,
    WindowPaging,
    items_of_keys,
    one_window,
    reaching,
    starting,
    windows,
    with_columns,
)
from oriel.client.protocol import Address, Key, PagedRead, Read
from oriel.client.records import Time, Window, time_text, window_of


def latest(
    address: Address, key: Key, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key with the greatest start; None when it has none."""
    return one_window(address, columns, "latest", key)


def current(
    address: Address, key: Key, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key that ends at its newest record, or holds it; None when it has none."""
    return one_window(address, columns, "current", key)


def window(
    address: Address, key: Key, start: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The window of a key that starts exactly then (Kafka's ``fetch(key, time)``), or None."""
    return one_window(address, columns, "window", time_text(start), key)


def fetch_session(
    address: Address, key: Key, start: Time, end: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """The session of a key that has exactly this start and end, or None."""
    return one_window(address, columns, "session", time_text(start), time_text(end), key)


def fetch(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of a key that start from ``time_from`` to ``time_to``, oldest first."""
    request = starting(address.request("fetch", key), time_from, time_to)
    return windows(address, request, paging)


def backward_fetch(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch``, newest first (KIP-617)."""
    request = starting(address.request("backwardFetch", key), time_from, time_to)
    return windows(address, request, paging)


def covering(
    address: Address, key: Key, instant: Time, **paging: Unpack[WindowPaging]
) -> PagedRead[Window]:
    """Windows of a key that a record of this time would be in, oldest first."""
    return windows(address, address.request("covering", time_text(instant), key), paging)


def fetch_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of a range of keys that start within bounds, by key, then start, then end."""
    request = address.request("fetchRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, starting(request, time_from, time_to), paging)


def backward_fetch_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch_range`` in exactly the reverse order."""
    request = address.request("backwardFetchRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, starting(request, time_from, time_to), paging)


def fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of all keys that start within bounds, by key, then start, then end."""
    return windows(address, starting(address.request("fetchAll"), time_from, time_to), paging)


def backward_fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Windows of ``fetch_all`` in exactly the reverse order."""
    request = address.request("backwardFetchAll")
    return windows(address, starting(request, time_from, time_to), paging)


def latest_of_keys(
    address: Address, keys: Sequence[Key], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """``latest`` of each of these keys, in their order; a key without windows has none."""
    return items_of_keys(address, "latestOfKeys", keys, "windows", window_of, columns)


def current_of_keys(
    address: Address, keys: Sequence[Key], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """``current`` of each of these keys, in their order; a key without windows has none."""
    return items_of_keys(address, "currentOfKeys", keys, "windows", window_of, columns)


def fetch_of_keys(
    address: Address,
    keys: Sequence[Key],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``fetch`` of each of these keys, one key after the other in their order."""
    request = starting(address.listing("fetchOfKeys", keys), time_from, time_to)
    return with_columns(address, request, "windows", window_of, paging)


def backward_fetch_of_keys(
    address: Address,
    keys: Sequence[Key],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``backward_fetch`` of each of these keys, one key after the other in their order."""
    request = starting(address.listing("backwardFetchOfKeys", keys), time_from, time_to)
    return with_columns(address, request, "windows", window_of, paging)


def all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """All windows, by key, then start, then end."""
    return windows(address, address.request("all"), paging)


def backward_all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """All windows in exactly the reverse order of ``all``."""
    return windows(address, address.request("backwardAll"), paging)


def latest_all(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``latest`` of every key of a range or with a prefix, by key."""
    request = address.request("latestAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return with_columns(address, request, "windows", window_of, paging)


def current_all(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """``current`` of every key of a range or with a prefix, by key."""
    request = address.request("currentAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return with_columns(address, request, "windows", window_of, paging)


def find_sessions(
    address: Address,
    key: Key,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of a key that end at or after and start at or before, oldest start first."""
    request = reaching(address.request("findSessions", key), earliest_end, latest_start)
    return windows(address, request, paging)


def backward_find_sessions(
    address: Address,
    key: Key,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of ``find_sessions``, newest start first (KIP-617)."""
    request = reaching(address.request("backwardFindSessions", key), earliest_end, latest_start)
    return windows(address, request, paging)


def find_sessions_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of a range of keys as in ``find_sessions``, by key, then start, then end."""
    request = address.request("findSessionsRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, reaching(request, earliest_end, latest_start), paging)


def backward_find_sessions_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """Sessions of ``find_sessions_range`` in exactly the reverse order."""
    request = address.request("backwardFindSessionsRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, reaching(request, earliest_end, latest_start), paging)
