"""Reads of a whole page in steps. The worker serves other requests between the steps."""

import asyncio
from contextlib import ExitStack
from functools import partial

import pyarrow as pa

from oriel.app.guards import Turns
from oriel.app.reads.catalog import StoreCatalog, StoreView
from oriel.app.reads.pages import ReadPage, ReadRequest
from oriel.app.reads.ranked import RankedRead, is_ranked
from oriel.app.reads.table_reads import is_as_of
from oriel.storage import BehindPositionBound, errors
from oriel.storage.index import IndexState
from oriel.storage.table_store import TableStore

#: What ``next`` returns after the last step.
_DONE = object()


async def read_page_at(
    catalog: StoreCatalog, view: StoreView, request: ReadRequest
) -> tuple[IndexState, ReadPage]:
    """Read a page of the version that a request requires. Return the state and the page."""
    try:
        state, page = await _read_page_at(catalog, view, request)
    except (BehindPositionBound, errors.VersionNotFound):
        await view.refuse_lost(request.query)
        raise
    await view.refuse_lost(request.query, state)
    return state, page


async def _read_page_at(
    catalog: StoreCatalog, view: StoreView, request: ReadRequest
) -> tuple[IndexState, ReadPage]:
    ranked = is_ranked(request)
    if is_as_of(request.query):
        read_page = partial(_ranked_whole if ranked else _read_whole, request=request)
        return await catalog.table_reads.as_of(view.name, request.query, read_page)
    if ranked:
        return await _ranked_page(catalog, view, request)
    with await view.snapshot_at(request.query) as snapshot:
        state = snapshot.state
        page = request.read.function(snapshot, request)
    if page.rest is not None:
        with catalog.gate.long_read():
            page = await _rest_of_page(page, view, state, catalog.gate.steps)
    return state, page


async def _ranked_page(
    catalog: StoreCatalog, view: StoreView, request: ReadRequest
) -> tuple[IndexState, ReadPage]:
    """Return the first items in the order of a request, from one snapshot."""
    with await view.snapshot_at(request.query) as snapshot:
        newest = RankedRead(snapshot, request).newest()
    columns = None if newest is None else catalog.newest.of(view.name, view.log, newest)
    with catalog.gate.long_read(), ExitStack() as stack:
        if columns is None or not columns.fits:
            snapshot = stack.enter_context(view.snapshot())
            return snapshot.state, await _ranked_by_steps(RankedRead(snapshot, request), catalog)
        async with columns.lock:
            # The columns move forward only, so the snapshot is opened while nobody moves them.
            snapshot = stack.enter_context(view.snapshot())
            read = RankedRead(snapshot, request)
            await columns.follow(snapshot, catalog.gate.steps)
            catalog.newest.drop_unused()
            quick, select = columns.select_quickly(read), columns.select(read)
        if not columns.fits:
            return snapshot.state, await _ranked_by_steps(read, catalog)
        rows: pa.Table = await asyncio.to_thread(select) if quick is None else quick
        items: list[bytes] = []
        steps = columns.items(snapshot, [str(key) for key in rows["key"].to_pylist()])
        while (step := await catalog.gate.steps.run(partial(next, steps, None))) is not None:
            items += step
        read.add_rows(rows, items)
        return snapshot.state, read.page()


async def _ranked_by_steps(read: RankedRead, catalog: StoreCatalog) -> ReadPage:
    """Read all items, and return the first ones in the order."""
    steps = read.steps()
    while await catalog.gate.steps.run(partial(next, steps, _DONE)) is not _DONE:
        pass
    return read.page()


def _ranked_whole(store: TableStore, request: ReadRequest) -> ReadPage:
    """Read all items of a table, and return the first ones. This runs in a thread."""
    read = RankedRead(store, request)
    for _ in read.steps():
        pass
    return read.page()


def _read_whole(store: TableStore, request: ReadRequest) -> ReadPage:
    """Read all steps of a page from a table. This runs in a thread."""
    page = request.read.function(store, request)
    items = page.items
    while page.rest is not None:
        page = page.rest.read.function(store, page.rest)
        items.extend(page.items)
    return page._replace(items=items)


async def _rest_of_page(
    page: ReadPage, view: StoreView, state: IndexState, turns: Turns
) -> ReadPage:
    """Read the rest of a page after its first step.

    Each step has its own snapshot, because a long one would block the writer and the close of the
    index. All items are from one version, so the page ends early if the store has a newer version.
    In each iteration of the event loop, ``turns`` runs one step of all long reads.
    """
    items = page.items
    while page.rest is not None:
        following = await turns.run(partial(_read_step, view, state, page.rest))
        if following is None:
            break
        page = following
        items.extend(page.items)
    return page._replace(items=items)


def _read_step(view: StoreView, state: IndexState, rest: ReadRequest) -> ReadPage | None:
    """Read the next step of a page. Return None if the store has another version now."""
    with view.snapshot() as snapshot:
        return rest.read.function(snapshot, rest) if snapshot.state == state else None
