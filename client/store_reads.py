"""Reads that a store of any kind has, and the list of stores.

All modules of reads have one function each read, and nothing is sent by them. The stores of both
clients take parameters and words of these functions over (``oriel.client.stores``). ``address`` is
the store that is asked, with the position that its answers must have.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack

from oriel.client.paging import Paging, column_names, paged
from oriel.client.protocol import EVENT_STREAM, Address, PagedRead, Read, Request, Stream
from oriel.client.records import (
    Position,
    Row,
    StoreSummary,
    Window,
    position_of,
    row_of,
    summary_of,
    window_of,
)


def stores() -> Read[list[StoreSummary]]:
    """List the stores, with what they are and how far they reach."""
    return Read(
        Request("/v1/stores"), lambda answer: [summary_of(one) for one in answer.json["stores"]]
    )


def status() -> Read[dict[str, Any]]:
    """Return the status of pipelines and stores, as the API has it."""
    return Read(Request("/v1/status"), lambda answer: dict(answer.json))


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
    """List the keys that begin with ``prefix``, in their order."""
    request = address.request("keys").asking(prefix=prefix or None)
    return paged(address, request, "keys", str, paging)


def watch_windows(
    address: Address,
    *keys: str,
    after: int | str | Position | None = None,
    columns: Sequence[str] | None = None,
    current: bool = False,
) -> Stream[Window]:
    """Follow the changes of these keys, or of all, as they happen; never ends by itself.

    The first ``Change`` has no windows: from its position on changes are told, none is lost and
    none comes twice, over broken connections too. ``after`` goes on behind the ``id`` of a change,
    or behind the position of an answer. A version alone does not notice a restore since then.
    Without a connection it is tried as often as any read, then
    the error is raised; so it is when the token ends.

    ``columns`` are the names of the aggregates that the windows have. Default: all. With
    ``current``, a change has only the current window of each changed key, as ``current`` returns
    it, and ``removed`` has the keys that have no window any more.
    """
    return Stream(_watch(address, keys, after, columns, "true" if current else None), window_of)


def watch_rows(
    address: Address,
    *keys: str,
    after: int | str | Position | None = None,
    columns: Sequence[str] | None = None,
) -> Stream[Row]:
    """Follow the changes of these keys, or of all, as they happen; as a store of windows does."""
    return Stream(_watch(address, keys, after, columns), row_of)


def _watch(
    address: Address,
    keys: tuple[str, ...],
    after: int | str | Position | None,
    columns: Sequence[str] | None,
    current: str | None = None,
) -> Request:
    # A stream has no demand for a position: it says where it begins.
    request = replace(Address(address.store).request("watch"), accept=EVENT_STREAM)
    query = tuple(("key", key) for key in keys)
    if isinstance(after, Position):
        after = f"{after.version}-{after.history}" if after.history else after.version
    return replace(request, query=query).asking(
        after=after, columns=column_names(columns), current=current
    )
