"""Reads that a store of any kind has, and the list of stores.

All modules of reads have one function each read, and nothing is sent by them. The stores of both
clients take parameters and words of these functions over (``oriel.client.stores``). ``address`` is
the store that is asked, with the position that its answers must have.
"""

from dataclasses import replace
from typing import Any, Unpack

from oriel.client.paging import Paging, paged
from oriel.client.protocol import Address, PagedRead, Read, Request
from oriel.client.records import Position, StoreSummary, position_of, summary_of


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
    """List the keys that begin with ``prefix``, in their order."""
    request = address.request("keys").asking(prefix=prefix or None)
    return paged(address, request, "keys", str, paging)
