"""The common parts of hot reads: requests, the steps of a page, and the limits of a page.

A function of ``oriel.app.reads.snapshot_reads`` defines the data of a read. This module limits each
step, selects the columns, and determines where the read continues.
"""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from oriel.app.contract import (
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    SCAN_RECORDS_MAX,
    Operation,
    PageCursors,
    PathParameter,
    PathValues,
    ReadQuery,
    ReadValues,
    WrongStoreKind,
    reads_of_kind,
)
from oriel.app.reads.columns import excluded_columns, without_columns
from oriel.app.selection import item_schema, matching_items, parse_condition
from oriel.storage import (
    LATEST_MS,
    ScanPage,
    ScanRange,
    SessionRange,
    StoreDefinition,
    StoreKind,
    WindowId,
    WindowPage,
    WindowRange,
)
from oriel.storage.expressions import Expression
from oriel.storage.index import IndexSnapshot, IndexState
from oriel.storage.table_store import TableStore

Store = TypeVar("Store")
KeyRange = TypeVar("KeyRange", WindowRange, SessionRange)
Range = TypeVar("Range", WindowRange, SessionRange, ScanRange)
Page = TypeVar("Page", WindowPage, ScanPage)

#: The records that one step of a read examines: the first step, which is enough for most reads, and
#: each further step. During a step, the worker serves no other request. A scan costs 0.3
#: microseconds per record, or up to 4 per key if it skips from key to key (docs/decisions/0042).
_FIRST_STEP, _STEP = 256, 512


class Budget(NamedTuple):
    """The remaining limits of a page.

    Attributes:
        rows: The number of items.
        bytes: The bytes of the items.
        records: The number of records to examine.
        step: The number of records to examine in the next step.
    """

    rows: int
    bytes: int
    records: int
    step: int


class ReadRequest(NamedTuple):
    """A request to one store, or the rest of a request after a step.

    Attributes:
        store: The name of the store.
        read: The read.
        path: The value of each path parameter after the read's name.
        query: The value of each query parameter, or its default. The cursor of a further step is
            the ``next_cursor`` of the previous step.
        budget: The remaining limits of the page, None before the first step.
    """

    store: str
    read: "HotRead"
    path: PathValues
    query: ReadValues
    budget: Budget | None = None


class ReadPage(NamedTuple):
    """A page, or a step of a page.

    Attributes:
        items: Windows or rows as finished JSON.
        next_cursor: The cursor of the next page, None on the last page.
        rest: The request for more items of this page, None if the page is complete.
    """

    items: list[bytes]
    next_cursor: str | None = None
    rest: ReadRequest | None = None


#: One version of a store: the index or the table.
StoreVersion = IndexSnapshot | TableStore

#: Reads a step of a page from a store of one kind. ``Store`` is the contract of this kind.
ReadFunction = Callable[[Store, IndexState, ReadRequest], ReadPage]

#: Reads a step of a page. It raises ``WrongStoreKind`` if the read does not fit the store's kind.
StepFunction = Callable[[StoreVersion, ReadRequest], ReadPage]


class HotRead(NamedTuple):
    """One hot read, with precomputed parts of its record.

    Attributes:
        operation: The record of the operation.
        name: The name in the path.
        path_parameters: The path parameters after the name.
        query: The query parameters.
        function: The function that reads a step.
        is_paged: True if the response can have many items. A read of one item is never compressed,
            except for clients that require it.
    """

    operation: Operation
    name: bytes
    path_parameters: tuple[PathParameter, ...]
    query: ReadQuery
    function: StepFunction
    is_paged: bool


def bind(operation: Operation, function: StepFunction) -> HotRead:
    """Return the hot read of an operation and its function."""
    _store, *own = operation.path_parameters
    assert isinstance(operation.query, ReadQuery), operation.name
    query = operation.query
    is_paged = any(parameter.name == "cursor" for parameter in query.parameters)
    return HotRead(operation, operation.name.encode(), tuple(own), query, function, is_paged)


def wrong_kind(store: str, state: IndexState, operation: Operation) -> WrongStoreKind:
    """Return the error of a read that does not fit the store's kind. It names the fitting ones."""
    kind = state.definition.window.kind
    words = {StoreKind.NONE: "no windows", StoreKind.VERSIONED: "versions"}
    windows = words.get(kind, f"{kind} windows")
    fitting = ", ".join(reads_of_kind(kind))
    return WrongStoreKind(
        f"store {store!r}: it has {windows}, and {operation.name} does not fit it. Use "
        f"one of: {fitting}."
    )


def page_of_windows(
    fetch: Callable[[WindowRange], WindowPage], state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of windows, read by ``fetch``, a method of the store."""
    query = request.query
    bounds = request.path["key"], query["from_ms"], query["to_ms"]
    return page_of_key(fetch, WindowRange, bounds, state, request)


def page_of_sessions(
    find: Callable[[SessionRange], WindowPage], state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of sessions, read by ``find``, a method of the store."""
    query = request.query
    bounds = request.path["key"], query["earliest_end_ms"], query["latest_start_ms"]
    return page_of_key(find, SessionRange, bounds, state, request)


def page_of_key(
    read: Callable[[KeyRange], WindowPage],
    range_type: Callable[[str, int, int, int, WindowId | None, bool | None, int, int], KeyRange],
    bounds: tuple[str, int, int],
    state: IndexState,
    request: ReadRequest,
) -> ReadPage:
    """Return a step of a page of one key.

    Args:
        read: A method of the store.
        range_type: The type of its argument.
        bounds: The key and the bounds of the range.
        state: The state of the store's version.
        request: The request.
    """
    query, cursors = request.query, cursors_of(state, request)
    budget = request.budget or whole_budget(query["limit"])
    after = cursors.read_window(query["cursor"])
    page = with_condition(read, state, request)(
        range_type(*bounds, budget.rows, after, query.get("final"), budget.bytes, budget.step)
    )
    cursor = cursors.after_window(page.next_after)
    return step_of_page(page.windows, cursor, budget, state, request)


def page_of_keys(
    scan: Callable[[ScanRange], ScanPage], state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return a step of a page of many keys, read by ``scan``, a method of the store."""
    query, cursors = request.query, cursors_of(state, request)
    budget = request.budget or whole_budget(query["limit"])
    page = with_condition(scan, state, request)(
        ScanRange(
            query.get("key_from"),
            query.get("key_to"),
            query.get("prefix", ""),
            query.get("from_ms", 0),
            query.get("to_ms", query.get("latest_start_ms", LATEST_MS)),
            query.get("earliest_end_ms", 0),
            budget.rows,
            cursors.read_bytes(query["cursor"]),
            query.get("final"),
            budget.bytes,
            budget.step,
        )
    )
    cursor = cursors.after_bytes(page.next_after)
    return step_of_page(page.entries, cursor, budget, state, request)


class MatchingRead(Generic[Range, Page]):
    """A read of the items that meet a condition, from a read of all items.

    It reads as many items as the step examines, because only some match. If more match than the
    page can have, it reads again up to the last one, so that the store returns where the next page
    continues.
    """

    def __init__(
        self, read: Callable[[Range], Page], definition: StoreDefinition, condition: Expression
    ) -> None:
        self._read: Callable[[Range], Page] = read
        self._definition = definition
        self._condition = condition
        #: The number of items that the last call examined.
        self.examined = 0

    def __call__(self, bounds: Range) -> Page:
        page = self._read(bounds._replace(limit=bounds.records_max))
        self.examined = len(page[0])
        matching = matching_items(page[0], self._definition, self._condition)
        if len(matching) > bounds.limit:
            matching = matching[: bounds.limit]
            page = self._read(bounds._replace(limit=int(matching[-1]) + 1))
        return type(page)([page[0][index] for index in matching], page[1])


def with_condition(
    read: Callable[[Range], Page], state: IndexState, request: ReadRequest
) -> Callable[[Range], Page]:
    """Return a read of the items that meet the condition of the request, or ``read`` without one.

    Raises:
        InvalidParameter: ``where`` is not a condition of the store.
    """
    text = request.query.get("where")
    if text is None:
        return read
    definition = state.definition
    return MatchingRead(read, definition, parse_condition(text, item_schema(definition)))


def whole_budget(limit: int) -> Budget:
    """Return the limits of a page with at most ``limit`` items, and of its first step."""
    return Budget(limit, PAGE_BYTES_MAX, SCAN_RECORDS_MAX, _FIRST_STEP)


def step_of_page(
    items: list[bytes], cursor: str | None, budget: Budget, state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return a step of a page with the selected columns of its items.

    Args:
        items: The items of the step.
        cursor: The cursor after the step, None if no items follow.
        budget: The limits of the page before the step.
        state: The state of the store's version.
        request: The request of the step.
    """
    chosen = with_columns(items, state, request)
    if cursor is None:
        return ReadPage(chosen)
    return ReadPage(chosen, cursor, rest_of(request, budget, items, cursor))


def rest_of(
    request: ReadRequest, budget: Budget, items: list[bytes], cursor: str
) -> ReadRequest | None:
    """Return the request that continues after a step, None if the budget of the page is used."""
    rows = budget.rows - len(items)
    records = budget.records - budget.step
    if rows <= 0 or records <= 0:
        return None
    size = budget.bytes - sum(map(len, items))
    if size <= 0:
        return None
    left = Budget(rows, size, records, min(_STEP, records))
    return request._replace(budget=left, query={**request.query, "cursor": cursor})


def page_of_one(item: bytes, state: IndexState, request: ReadRequest) -> ReadPage:
    """Return the page of a read with one item."""
    return ReadPage(with_columns([item], state, request))


def with_columns(items: list[bytes], state: IndexState, request: ReadRequest) -> list[bytes]:
    """Return the items with only the aggregates that the request selects, by default all."""
    # Keys have no columns.
    chosen = request.query.get("columns")
    if chosen is None:
        return items
    left_out = excluded_columns(request.store, state.definition, chosen)
    return without_columns(items, left_out)


def cursors_of(state: IndexState, request: ReadRequest) -> PageCursors:
    """Return the cursors of a request, which are valid for the same read, path and bounds."""
    values: Mapping[str, object] = request.query
    bounds = [values[name] for name in request.read.query.bounds]
    return PageCursors(request.store, state, request.read.name, *request.path.values(), *bounds)


def one_window(read: Callable[[str], bytes | None]) -> Callable[[WindowRange], WindowPage]:
    """Return a read of one window as a read of a range that contains only this window."""

    def fetch(window_range: WindowRange) -> WindowPage:
        window = read(window_range.key)
        return WindowPage([] if window is None else [window], None)

    return fetch


def with_listed_keys(state: IndexState, request: ReadRequest) -> ReadRequest:
    """Return the request with its listed keys as strings, once before all steps."""
    if "listed" not in request.path:
        return request
    keys = tuple(map(state.definition.keys.written, request.path["listed"]))
    return request._replace(path={"keys": keys})


def page_of_listed(
    fetch: Callable[[WindowRange], WindowPage], state: IndexState, request: ReadRequest
) -> ReadPage:
    """Return a step of a page with the items of the listed keys, in the order of the list."""
    query = request.query
    budget = request.budget or whole_budget(query.get("limit", PAGE_ROWS_MAX))
    request = with_listed_keys(state, request)
    keys, cursors = request.path["keys"], cursors_of(state, request)
    fetch = with_condition(fetch, state, request)
    at, after = cursors.read_listed(query["cursor"])
    bounds_ms = query.get("from_ms", 0), query.get("to_ms", LATEST_MS)
    items: list[bytes] = []
    rows, size, records_left = budget.rows, budget.bytes, budget.step
    while at < len(keys) and rows > 0 and size > 0 and records_left > 0:
        page = fetch(WindowRange(keys[at], *bounds_ms, rows, after, None, size, records_left))
        items += page.windows
        rows -= len(page.windows)
        size -= sum(map(len, page.windows))
        read = fetch.examined if isinstance(fetch, MatchingRead) else len(page.windows)
        records_left -= 1 + read
        after = page.next_after
        at += after is None
    cursor = cursors.after_listed(at, after) if at < len(keys) else None
    return step_of_page(items, cursor, budget, state, request)
