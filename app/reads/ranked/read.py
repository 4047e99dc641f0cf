"""One read with ``order_by``: its parameters, the items that it has read, and its page."""

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.app.contract import (
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    RANKED_RECORDS_MAX,
    InvalidParameter,
    RankedReadLimit,
    ReadValues,
    RequestTooSlow,
)
from oriel.app.reads.merged import is_merged, item_definition
from oriel.app.reads.pages import (
    Budget,
    ReadPage,
    ReadRequest,
    StoreVersion,
    cursors_of,
    with_columns,
    with_listed_keys,
)
from oriel.app.selection import (
    OrderColumn,
    Place,
    Ranking,
    item_schema,
    matching_rows,
    parse_condition,
    parse_order,
)
from oriel.storage import UNBOUNDED, StoreDefinition

#: The records that one step examines. The worker serves other requests between the steps.
_STEP = 512
#: The maximum duration of a read in seconds. Meanwhile, the index file cannot reuse the pages of
#: the version that is read.
SECONDS_MAX = 20.0

#: The reads of the newest window of each key, and the method of a snapshot for one key.
_OF_WINDOWS = {"latestAll": "latest", "currentAll": "current"}
_OF_ROWS = frozenset({"all", "reverseAll", "range", "reverseRange", "prefixScan"})
_KEY_BOUNDS = ("prefix", "key_from", "key_to")


def is_ranked(request: ReadRequest) -> bool:
    """Return whether a request has an order.

    Raises:
        InvalidParameter: ``top`` needs ``order_by``, and does not fit ``cursor``.
    """
    query = request.query
    if query.get("top") is not None:
        if query["order_by"] is None:
            message = "top needs order_by, for example order_by=-revenue&top=10."
            raise InvalidParameter(message)
        if query["cursor"] is not None:
            message = "top cannot be combined with cursor. Send limit instead of top."
            raise InvalidParameter(message)
    return query.get("order_by") is not None


def reject_after(ends: float) -> None:
    """Reject a read that is not complete at the time ``ends``, as ``time.monotonic`` returns it.

    Raises:
        RequestTooSlow: the time is over.
    """
    if time.monotonic() > ends:
        message = f"order_by: the read needs more than {SECONDS_MAX:g} s. Narrow its keys or times."
        raise RequestTooSlow(message)


class RankedRead:
    """The parameters of a ranked read, and the first items in its order."""

    def __init__(self, store: StoreVersion, request: ReadRequest) -> None:
        """Read a version of a store.

        Raises:
            InvalidParameter: the condition or the order is not one of the store.
            InvalidCursor: the cursor belongs to another request.
        """
        query, definition = request.query, item_definition(store.state, request)
        columns = item_schema(definition)
        where, cursors = query["where"], cursors_of(store.state, request)
        self._store = store
        self._request = request
        self._condition = None if where is None else parse_condition(where, columns)
        #: The maximum number of items of the page.
        self.rows = query["top"] or query.get("limit", 0) or PAGE_ROWS_MAX
        self._ranking = Ranking(
            definition,
            parse_order(query["order_by"] or (), columns),
            self.rows,
            self._condition,
            cursors.read_bytes(query["cursor"]),
        )

    @property
    def order(self) -> tuple[OrderColumn, ...]:
        """Return the order, whose last column is the record key."""
        return self._ranking.order

    @property
    def place(self) -> Place | None:
        """Return the place of the last item of the previous page in the order."""
        return self._ranking.after

    def newest(self) -> str | None:
        """Return the method that reads the item of one key, if the read is of the newest items.

        None: ``NewestColumns`` cannot serve the read.
        """
        query, name = self._request.query, self._request.read.operation.name
        definition: StoreDefinition = self._store.state.definition
        if self._condition is not None:
            schema = item_schema(definition)
            types = [schema.field(each).type for each in self._condition.column_names()]
            if any(map(pa.types.is_list, types)):
                return None
        # Only strings have the order of their text.
        has_bounds = any(query.get(bound) for bound in _KEY_BOUNDS)
        if query.get("final") is not None or (has_bounds and definition.key_type != "text"):
            return None
        if definition.window.is_windowed:
            return _OF_WINDOWS.get(name)
        return "get" if name in _OF_ROWS else None

    def selected_rows(self, columns: pa.Table) -> npt.NDArray[np.bool_]:
        """Return which rows of ``NewestColumns`` the read selects."""
        query, keys = self._request.query, columns["key"]
        masks = [] if self._condition is None else [matching_rows(columns, self._condition)]
        if query.get("prefix"):
            masks.append(np.asarray(pc.starts_with(keys, query["prefix"])))
        if query.get("key_from") is not None:
            masks.append(np.asarray(pc.greater_equal(keys, query["key_from"])))
        if query.get("key_to") is not None:
            masks.append(np.asarray(pc.less_equal(keys, query["key_to"])))
        selected = np.ones(len(columns), np.bool_)
        for mask in masks:
            selected &= mask
        return selected

    def add(self, items: list[bytes]) -> None:
        """Add items that were read. Items that the read does not select are left out."""
        self._ranking.add(items)

    def add_rows(self, rows: pa.Table, items: list[bytes]) -> None:
        """Add selected items, and their rows in ``NewestColumns``."""
        self._ranking.add_rows(rows, items)

    def steps(self) -> Iterator[None]:
        """Read all items, step by step.

        Raises:
            RankedReadLimit: it would read more than the maximum number of records.
            RequestTooSlow: it takes longer than the maximum duration.
        """
        query = self._request.query
        # The columns of ranges are also the ones that can be merged.
        columns = query["columns"] if is_merged(self._request) else None
        everything: ReadValues = {**query, "cursor": None, "columns": columns, "where": None}
        budget = Budget(UNBOUNDED, UNBOUNDED, RANKED_RECORDS_MAX, _STEP)
        request = with_listed_keys(self._store.state, self._request)
        if "keys" in request.path:
            # A cursor continues after an item, so it would skip the second copy of this item.
            request = request._replace(path={"keys": tuple(dict.fromkeys(request.path["keys"]))})
        rest: ReadRequest | None = request._replace(query=everything, budget=budget)
        ends = time.monotonic() + SECONDS_MAX
        while rest is not None:
            page = rest.read.function(self._store, rest)
            self.add(page.items)
            rest = page.rest
            if rest is None and page.next_cursor is not None:
                message = (
                    f"order_by: the read has more than {RANKED_RECORDS_MAX:,} windows or rows. "
                    "Narrow its keys or times."
                )
                raise RankedReadLimit(message)
            if rest is not None:
                reject_after(ends)
            yield

    def page(self) -> ReadPage:
        """Return the page, after all items were added.

        Raises:
            RankedReadLimit: the items of ``top`` have more bytes than a page.
        """
        state, request = self._store.state, self._request
        items = self._ranking.items()
        kept, size = 0, 0
        while kept < min(len(items), self.rows) and size < PAGE_BYTES_MAX:
            size += len(items[kept])
            kept += 1
        is_cut = kept < min(len(items), self.rows)
        if is_cut and request.query["top"] is not None:
            message = (
                f"top: the items have more than {PAGE_BYTES_MAX >> 20} MiB. Send limit instead, "
                "and follow next_cursor."
            )
            raise RankedReadLimit(message)
        cursor = None
        if kept < len(items) and request.query["top"] is None:
            cursor = cursors_of(state, request).after_bytes(self._ranking.place(kept - 1))
        return ReadPage(with_columns(items[:kept], state, request), cursor)
