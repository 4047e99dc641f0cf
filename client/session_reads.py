"""Define the reads of sessions.

A time is ms since the epoch, a datetime with a time zone, or ISO 8601 text. The bounds of times and
keys are inclusive, and None means an open bound.
"""

from collections.abc import Sequence
from typing import Unpack

from oriel.client.paging import (
    WindowPaging,
    one_window,
    reaching,
    windows,
)
from oriel.client.protocol import Address, Key, PagedRead, Read
from oriel.client.records import Time, Window, time_text


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
        **paging: the number of windows and which, as in `WindowPaging`.

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
        **paging: the number of windows and which, as in `WindowPaging`.

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
        **paging: the number of windows and which, as in `WindowPaging`.

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
        **paging: the number of windows and which, as in `WindowPaging`.

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
