"""Define the reads of stores of every kind, and the list of stores.

Each module of reads has one function per read, and sends nothing. The stores of both clients use
the parameters and docstrings of the functions (``oriel.client.stores``). ``address`` is the store,
with the position that its responses must include.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from oriel.client.paging import Paging, column_names, paged
from oriel.client.protocol import EVENT_STREAM, Address, PagedRead, Read, Request, Stream
from oriel.client.records import (
    Position,
    Row,
    SqlRows,
    StoreSummary,
    Window,
    position_of,
    row_of,
    sql_rows_of,
    summary_of,
    window_of,
)


def stores() -> Read[list[StoreSummary]]:
    """List the stores with their kinds and positions."""
    return Read(
        Request("/v1/stores"), lambda response: [summary_of(one) for one in response.json["stores"]]
    )


def status() -> Read[dict[str, Any]]:
    """Return the status of pipelines and stores, as the JSON object of the API."""
    return Read(Request("/v1/status"), lambda response: dict(response.json))


def topology() -> Read[dict[str, Any]]:
    """Return the topologies of the pipelines, as the JSON object of the API."""
    return Read(Request("/v1/topology"), lambda response: dict(response.json))


def sql(query: str, work_s: float) -> Read[SqlRows]:
    """Run a SELECT statement of DuckDB over the stores."""
    request = Request("/v1/sql", sql=query)
    return Read(request, lambda response: sql_rows_of(response.json), work_s=work_s)


def describe(address: Address) -> Read[dict[str, Any]]:
    """Return definition, position, stream time, counters and retention of the store.

    Returns:
        The JSON object of the API.

    Example:
        >>> departures.describe()["store"]
        'departures'
    """
    # The description accepts no position.
    request = Address(address.store).request()
    return Read(request, lambda response: dict(response.json))


def kind(address: Address) -> Read[str]:
    """Return the window kind of the store, ``none`` for a store with one row per key."""
    request = Address(address.store).request()
    return Read(request, lambda response: str(response.json["definition"]["window"]["kind"]))


def reached(address: Address) -> Read[Position]:
    """Return the position of the store.

    Returns:
        The table version and the source offsets that responses include now.

    Example:
        >>> departures.position().version
        1
    """
    request = address.request("keys").asking(limit=1)
    return Read(request, lambda response: position_of(response.json["position"]), address.wait_s)


def wait_for(address: Address, position: Position, wait_s: float = 30.0) -> Read[Position]:
    """Wait until the store has reached a position.

    Args:
        position: the position that the store must reach.
        wait_s: the longest time to wait, in seconds.

    Returns:
        The position of the store, which includes the requested position.

    Raises:
        PositionNotReached: the store did not reach the position within ``wait_s`` seconds.

    Example:
        >>> departures.wait_for(Position(version=1), wait_s=30).version
        1
    """
    return reached(replace(address, position=position, wait_s=wait_s))


def keys(address: Address, prefix: str = "", **paging: Unpack[Paging]) -> PagedRead[str]:
    """List the keys that have a window or a row, in key order.

    Args:
        prefix: list only keys with this prefix. Default: all keys.
        **paging: ``limit`` and ``page_size``, as in `Paging`.

    Returns:
        The keys as text.

    Example:
        >>> departures.keys().list()
        ['EWR', 'JFK']
    """
    request = address.request("keys").asking(prefix=prefix or None)
    return paged(address, request, "keys", str, paging)


def watch_windows(
    address: Address,
    *keys: str,
    after: int | str | Position | None = None,
    columns: Sequence[str] | None = None,
    current: bool = False,
) -> Stream[Window]:
    """Follow the changes of keys. The stream does not end by itself.

    The first ``Change`` has no windows. It has the position at which the stream begins. The stream
    has each later change once, also after a lost connection.

    Args:
        *keys: the keys to follow. Default: all keys.
        after: start after this point: the ``id`` of a change, the position of a response, or a
            version. With a version alone, the service does not notice a restore since then.
            Default: now.
        columns: names of the aggregates to read. Default: all.
        current: True to receive only the current window of each changed key, as ``current``
            returns it. ``removed`` then has the keys without a window.

    Returns:
        An iterator of changes.

    Raises:
        NotAllowed: the token has expired, or does not grant access.
        ServiceUnreachable: the connection was lost, and all attempts to connect failed.

    Example:
        >>> for change in departures.watch("EWR", after=0):
        ...     print(change.position.version, [w["departures"] for w in change.items])
        ...     break
        1 [12, 7]
    """
    return Stream(_watch(address, keys, after, columns, "true" if current else None), window_of)


def watch_rows(
    address: Address,
    *keys: str,
    after: int | str | Position | None = None,
    columns: Sequence[str] | None = None,
) -> Stream[Row]:
    """Follow the changes of keys, as a store of windows does. The stream does not end by itself.

    Args:
        *keys: the keys to follow. Default: all keys.
        after: start after this point: the ``id`` of a change, the position of a response, or a
            version. Default: now.
        columns: names of the aggregates to read. Default: all.

    Returns:
        An iterator of changes.

    Raises:
        NotAllowed: the token has expired, or does not grant access.
        ServiceUnreachable: the connection was lost, and all attempts to connect failed.

    Example:
        >>> for change in totals.watch("EWR", after=0):
        ...     print([row["departures"] for row in change.items])
        ...     break
        [1201]
    """
    return Stream(_watch(address, keys, after, columns), row_of)


def _watch(
    address: Address,
    keys: tuple[str, ...],
    after: int | str | Position | None,
    columns: Sequence[str] | None,
    current: str | None = None,
) -> Request:
    # A stream accepts no position, because it reports the one at which it begins.
    request = replace(Address(address.store).request("watch"), accept=EVENT_STREAM)
    query = tuple(("key", key) for key in keys)
    if isinstance(after, Position):
        after = f"{after.version}-{after.history}" if after.history else after.version
    return replace(request, query=query).asking(
        after=after, columns=column_names(columns), current=current
    )
