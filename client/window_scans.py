"""Define the reads of windows of key ranges and of all keys.

A time is ms since the epoch, a datetime with a time zone, or ISO 8601 text. The bounds of times and
keys are inclusive, and None means an open bound.
"""

from typing import Unpack

from oriel.client.paging import (
    MergedPaging,
    RowPaging,
    WindowPaging,
    ranges,
    starting,
    windows,
    with_columns,
)
from oriel.client.protocol import Address, Key, PagedRead
from oriel.client.records import Time, Window, window_of


def fetch_range(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the windows of a key range whose start is within bounds.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, by key, then start, then end.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window.key for window in departures.fetch_range("E", "J")]
        ['EWR', 'EWR']
    """
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
    """List the windows of ``fetch_range`` in reverse order.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, in exactly the reverse order.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window.key for window in departures.backward_fetch_range("E", limit=1)]
        ['JFK']
    """
    request = address.request("backwardFetchRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, starting(request, time_from, time_to), paging)


def fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the windows of all keys whose start is within bounds.

    Args:
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, by key, then start, then end.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w.key for w in departures.fetch_all(time_to="2013-01-01T10:00Z")]
        ['EWR', 'JFK']
    """
    return windows(address, starting(address.request("fetchAll"), time_from, time_to), paging)


def backward_fetch_all(
    address: Address,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the windows of ``fetch_all`` in reverse order.

    Args:
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, in exactly the reverse order.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w.key for w in departures.backward_fetch_all(time_to="2013-01-01T10:00Z")]
        ['JFK', 'EWR']
    """
    request = address.request("backwardFetchAll")
    return windows(address, starting(request, time_from, time_to), paging)


def all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """List all windows.

    Args:
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, by key, then start, then end.

    Example:
        >>> [window["departures"] for window in departures.all()]
        [12, 7, 9]
    """
    return windows(address, address.request("all"), paging)


def backward_all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """List all windows in reverse order.

    Args:
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows, in exactly the reverse order of ``all``.

    Example:
        >>> [window["departures"] for window in departures.backward_all()]
        [9, 7, 12]
    """
    return windows(address, address.request("backwardAll"), paging)


def merged_all(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    time_from: Time | None = None,
    time_to: Time | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[MergedPaging],
) -> PagedRead[Window]:
    """List the ranges that ``merged`` returns for every key in a key range, in key order.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        time_from: least start of a range, inclusive. Default: no bound.
        time_to: greatest start of a range, inclusive. Default: no bound.
        prefix: read only keys with this prefix. Default: all keys.
        **paging: the length of the ranges and which, as in `MergedPaging`. The aggregates in
            ``columns`` must be counts, sums, minima or maxima, or the store must be mergeable.

    Returns:
        The ranges of the first key, then of the next key.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> hours = departures.merged_all(step_ms=3_600_000, order_by=["-departures"], top=1)
        >>> [(hour.key, hour["departures"]) for hour in hours]
        [('EWR', 19)]
    """
    request = address.request("mergedAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return ranges(address, starting(request, time_from, time_to), paging)


def latest_all(
    address: Address,
    key_from: Key | None = None,
    key_to: Key | None = None,
    *,
    prefix: str | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """List the ``latest`` window of each key.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        prefix: read only keys with this prefix. Default: all keys.
        **paging: the number of windows and which, as in `RowPaging`.

    Returns:
        One window per key, by key.

    Example:
        >>> {window.key: window["departures"] for window in departures.latest_all()}
        {'EWR': 7, 'JFK': 9}
    """
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
    """List the ``current`` window of each key.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        prefix: read only keys with this prefix. Default: all keys.
        **paging: the number of windows and which, as in `RowPaging`.

    Returns:
        One window per key, by key.

    Example:
        >>> {w.key: w["departures"] for w in departures.current_all(prefix="E")}
        {'EWR': 7}
    """
    request = address.request("currentAll")
    request = request.asking(key_from=key_from, key_to=key_to, prefix=prefix)
    return with_columns(address, request, "windows", window_of, paging)
