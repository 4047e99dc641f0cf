"""Define the reads of windows and sessions.

A time is ms since the epoch, a datetime with a time zone, or ISO 8601 text. The bounds of times and
keys are inclusive, and None means an open bound.
"""

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


def fetch_session(
    address: Address, key: Key, start: Time, end: Time, *, columns: Sequence[str] | None = None
) -> Read[Window | None]:
    """Return the session of a key with exactly this start and end.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        start: the start of the session.
        end: the end of the session, which is the time of its last record.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The session, None if the key does not have it or it has expired.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> bursts.fetch_session("EWR", 1357034400000, 1357036140000)["departures"]
        12
    """
    return one_window(address, columns, "session", time_text(start), time_text(end), key)


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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The windows that a record with this time belongs to.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w["departures"] for w in departures.covering("EWR", "2013-01-01T10:20Z")]
        [12]
    """
    return windows(address, address.request("covering", time_text(instant), key), paging)


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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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


def latest_of_keys(
    address: Address, keys: Sequence[Key], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """Return the ``latest`` window of each listed key.

    Args:
        keys: the keys, in the order of the result.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The windows. A key without windows is left out.

    Example:
        >>> [w["departures"] for w in departures.latest_of_keys(["JFK", "EWR"])]
        [9, 7]
    """
    return items_of_keys(address, "latestOfKeys", keys, "windows", window_of, columns)


def current_of_keys(
    address: Address, keys: Sequence[Key], *, columns: Sequence[str] | None = None
) -> PagedRead[Window]:
    """Return the ``current`` window of each listed key.

    Args:
        keys: the keys, in the order of the result.
        columns: names of the aggregates to read. Default: all.

    Returns:
        The windows. A key without windows is left out.

    Example:
        >>> [w["departures"] for w in departures.current_of_keys(["JFK", "XYZ"])]
        [9]
    """
    return items_of_keys(address, "currentOfKeys", keys, "windows", window_of, columns)


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
        **paging: ``limit``, ``page_size`` and ``columns``, as in `RowPaging`.

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
        **paging: ``limit``, ``page_size`` and ``columns``, as in `RowPaging`.

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


def all_windows(address: Address, **paging: Unpack[WindowPaging]) -> PagedRead[Window]:
    """List all windows.

    Args:
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

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
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The windows, in exactly the reverse order of ``all``.

    Example:
        >>> [window["departures"] for window in departures.backward_all()]
        [9, 7, 12]
    """
    return windows(address, address.request("backwardAll"), paging)


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
        **paging: ``limit``, ``page_size`` and ``columns``, as in `RowPaging`.

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
        **paging: ``limit``, ``page_size`` and ``columns``, as in `RowPaging`.

    Returns:
        One window per key, by key.

    Example:
        >>> {w.key: w["departures"] for w in departures.current_all(prefix="E")}
        {'EWR': 7}
    """
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
    """List the sessions of a key that overlap a time range, oldest first.

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        earliest_end: least end of a session, inclusive. Default: no bound.
        latest_start: greatest start of a session, inclusive. Default: no bound.
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The sessions that end at or after ``earliest_end`` and start at or before ``latest_start``.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [w["departures"] for w in bursts.find_sessions("EWR", "2013-01-01T10:40Z")]
        [1]
    """
    request = reaching(address.request("findSessions", key), earliest_end, latest_start)
    return windows(address, request, paging)


def backward_find_sessions(
    address: Address,
    key: Key,
    earliest_end: Time | None = None,
    latest_start: Time | None = None,
    **paging: Unpack[WindowPaging],
) -> PagedRead[Window]:
    """List the sessions of ``find_sessions``, newest first (KIP-617).

    Args:
        key: the key, for example ``"EWR"``, or a value of the store's key type.
        earliest_end: least end of a session, inclusive. Default: no bound.
        latest_start: greatest start of a session, inclusive. Default: no bound.
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The sessions.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window["departures"] for window in bursts.backward_find_sessions("EWR")]
        [1, 12]
    """
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
    """List the sessions of a key range that overlap a time range.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        earliest_end: least end of a session, inclusive. Default: no bound.
        latest_start: greatest start of a session, inclusive. Default: no bound.
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The sessions, by key, then start, then end.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window["departures"] for window in bursts.find_sessions_range("E", "F")]
        [12, 1]
    """
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
    """List the sessions of ``find_sessions_range`` in reverse order.

    Args:
        key_from: least key, inclusive. Default: no bound.
        key_to: greatest key, inclusive. Default: no bound.
        earliest_end: least end of a session, inclusive. Default: no bound.
        latest_start: greatest start of a session, inclusive. Default: no bound.
        **paging: ``limit``, ``page_size``, ``columns`` and ``final``, as in `WindowPaging`.

    Returns:
        The sessions, in exactly the reverse order.

    Raises:
        ValueError: a datetime has no time zone.

    Example:
        >>> [window["departures"] for window in bursts.backward_find_sessions_range()]
        [1, 12]
    """
    request = address.request("backwardFindSessionsRange").asking(key_from=key_from, key_to=key_to)
    return windows(address, reaching(request, earliest_end, latest_start), paging)
