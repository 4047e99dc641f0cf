"""Define the reads of windows of one key or of listed keys.

A time is ms since the epoch, a datetime with a time zone, or ISO 8601 text. The bounds of times and
keys are inclusive, and None means an open bound.
"""

from collections.abc import Sequence
from typing import Unpack

from oriel.client.paging import (
    MergedPaging,
    RowPaging,
    Selection,
    WindowPaging,
    items_of_keys,
    one_window,
    ranges,
    starting,
    windows,
    with_columns,
)
from oriel.client.protocol import Address, Key, PagedRead, Read
from oriel.client.records import Time, Window, time_text, window_of


def latest(
    address: Address, key: Key, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """Return the window of a key with the greatest start.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The window, None if the key has no window.

    Example:
        >>> departures.latest("EWR")["departures"]
        7
    """
    return one_window(address, columns, "latest", key)


def current(
    address: Address, key: Key, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """Return the window of a key that ends at or contains its newest record.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The window, None if the key has no window.

    Example:
        >>> departures.current("EWR").final
        False
    """
    return one_window(address, columns, "current", key)


def window(
    address: Address, key: Key, start: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """Return the window of a key with exactly this start.

    It is Kafka's ``fetch(key, time)``.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        start: the start of the window.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The window, None if the key does not have it or it has expired.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> departures.window("EWR", "2013-01-01T10:00Z")["departures"]
        12
    """
    return one_window(address, columns, "window", time_text(start), key)


def fetch(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the windows of a key whose start is within bounds, oldest first.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window["departures"] for window in departures.fetch("EWR")]
        [12, 7]
    """
    request = starting(address.request("fetch", key), time_from, time_to)
    return windows(address, request, paging)


def backward_fetch(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the windows of ``fetch``, newest first (KIP-617).

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window["departures"] for window in departures.backward_fetch("EWR", limit=1)]
        [7]
    """
    request = starting(address.request("backwardFetch", key), time_from, time_to)
    return windows(address, request, paging)


def covering(
    address: Address, key: Key, instant: Time, **paging: Unpack[WindowPaging]
) -> PagedRead[Window]:
    """List the windows of a key that contain an instant, oldest first.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        instant: a time.
        **paging: the number of windows and which, as in `WindowPaging`.

    Returns:
        The windows that a record with this time belongs to.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w["departures"] for w in departures.covering("EWR", "2013-01-01T10:20Z")]
        [12]
    """
    return windows(address, address.request("covering", time_text(instant), key), paging)


def merged(
    address: Address,
    key: Key,
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[MergedPaging],
) -> PagedRead[Window]:
    """List ranges of a key, into which the service merges tumbling windows, oldest first.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        time_from: least start of a range, inclusive. Default: no bound.
        time_to: greatest start of a range, inclusive. Default: no bound.
        **paging: the length of the ranges and which, as in `MergedPaging`. The aggregates in
            ``columns`` must be counts, sums, minima or maxima, or the store must be mergeable.

    Returns:
        The ranges as windows. A range without windows is left out.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> hours = departures.merged("EWR", step_ms=3_600_000, columns=["departures"])
        >>> [hour["departures"] for hour in hours]
        [19]
    """
    request = starting(address.request("merged", key), time_from, time_to)
    return ranges(address, request, paging)


def latest_of_keys(
    address: Address, keys: Sequence[Key], **selection: Unpack[Selection]
) -> PagedRead[Window]:
    """Return the ``latest`` window of each listed key.

    Args:
        keys: the keys, in the order of the result.
        **selection: which items and fields, as in `Selection`.

    Returns:
        The windows. A key without windows is left out.

    Example:
        >>> [w["departures"] for w in departures.latest_of_keys(["JFK", "EWR"])]
        [9, 7]
    """
    return items_of_keys(address, "latestOfKeys", keys, "windows", window_of, selection)


def current_of_keys(
    address: Address, keys: Sequence[Key], **selection: Unpack[Selection]
) -> PagedRead[Window]:
    """Return the ``current`` window of each listed key.

    Args:
        keys: the keys, in the order of the result.
        **selection: which items and fields, as in `Selection`.

    Returns:
        The windows. A key without windows is left out.

    Example:
        >>> [w["departures"] for w in departures.current_of_keys(["JFK", "XYZ"])]
        [9]
    """
    return items_of_keys(address, "currentOfKeys", keys, "windows", window_of, selection)


def fetch_of_keys(
    address: Address,
    keys: Sequence[Key],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """List the windows that ``fetch`` returns for each listed key.

    Args:
        keys: the keys, in the order of the result.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `RowPaging`.

    Returns:
        The windows of the first key, then of the next key.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w["departures"] for w in departures.fetch_of_keys(["JFK", "EWR"])]
        [9, 12, 7]
    """
    request = starting(address.listing("fetchOfKeys", keys), time_from, time_to)
    return with_columns(address, request, "windows", window_of, paging)


def backward_fetch_of_keys(
    address: Address,
    keys: Sequence[Key],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[RowPaging],
) -> PagedRead[Window]:
    """List the windows that ``backward_fetch`` returns for each listed key.

    Args:
        keys: the keys, in the order of the result.
        time_from: least window start, inclusive. Default: no bound.
        time_to: greatest window start, inclusive. Default: no bound.
        **paging: the number of windows and which, as in `RowPaging`.

    Returns:
        The windows of the first key, then of the next key.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w["departures"] for w in departures.backward_fetch_of_keys(["EWR"])]
        [7, 12]
    """
    request = starting(address.listing("backwardFetchOfKeys", keys), time_from, time_to)
    return with_columns(address, request, "windows", window_of, paging)


def merged_of_keys(
    address: Address,
    keys: Sequence[Key],
    time_from: Time | None = None,
    time_to: Time | None = None,
    **paging: Unpack[MergedPaging],
) -> PagedRead[Window]:
    """List the ranges that ``merged`` returns for each listed key.

    Args:
        keys: the keys, in the order of the result.
        time_from: least start of a range, inclusive. Default: no bound.
        time_to: greatest start of a range, inclusive. Default: no bound.
        **paging: the length of the ranges and which, as in `MergedPaging`. The aggregates in
            ``columns`` must be counts, sums, minima or maxima, or the store must be mergeable.

    Returns:
        The ranges of the first key, then of the next key.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> hours = departures.merged_of_keys(["JFK"], step_ms=3_600_000, columns=["departures"])
        >>> [hour["departures"] for hour in hours]
        [9]
    """
    request = starting(address.listing("mergedOfKeys", keys), time_from, time_to)
    return ranges(address, request, paging)
