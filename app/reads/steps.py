"""Reads of a whole page, in steps between which other requests are answered."""

import asyncio

from oriel.app.contract import Operation, WrongStoreKind, reads_of_kind
from oriel.app.reads.catalog import StoreView
from oriel.app.reads.pages import ReadPage, ReadRequest
from oriel.storage.index import IndexState


def refuse_wrong_kind(store: str, state: IndexState, operation: Operation) -> None:
    """Refuse a read that does not fit the store's kind.

    Raises:
        WrongStoreKind: its message names those that fit.
    """
    kind = state.definition.window.kind
    if operation.store_kinds and kind not in operation.store_kinds:
        windows = f"{kind} windows" if kind.is_windowed else "no windows"
        fitting = ", ".join(reads_of_kind(kind))
        message = f"store {store!r} has {windows}; {operation.name} does not fit it, use {fitting}"
        raise WrongStoreKind(message)


async def read_page(
    view: StoreView, request: ReadRequest, turns: asyncio.Lock
) -> tuple[IndexState, ReadPage]:
    """Read a page of the version that a request demands; returns the version's state, too."""
    with await view.snapshot_at(request.query) as snapshot:
        state = snapshot.state
        refuse_wrong_kind(view.name, state, request.read.operation)
        page = request.read.function(snapshot, request)
    return state, await rest_of_page(page, view, state, turns)


async def rest_of_page(
    page: ReadPage, view: StoreView, state: IndexState, turns: asyncio.Lock
) -> ReadPage:
    """Read the rest of a page of which a step is there.

    Each step has a snapshot of its own: a long one would hinder the writer and whoever closes the
    index. A page is of one version, so it ends early where the store moves on. ``turns`` lets one
    long read take one step in each round of the loop, however many are under way.
    """
    items = page.items
    while page.rest is not None:
        async with turns:
            await asyncio.sleep(0)
            with view.snapshot() as snapshot:
                if snapshot.state != state:
                    break
                page = page.rest.read.function(snapshot, page.rest)
        items.extend(page.items)
    return page._replace(items=items)
