"""Reads with ``order_by``: all items are read, and the first ones in the order are kept.

All items are from one snapshot. The index file cannot reuse the pages of this version meanwhile, so
the time of a ranked read is limited.
"""

import time
from collections.abc import Iterator

from oriel.app.contract import (
    PAGE_BYTES_MAX,
    PAGE_ROWS_MAX,
    RANKED_RECORDS_MAX,
    InvalidParameter,
    RankedReadLimit,
    ReadValues,
    RequestTooSlow,
)
from oriel.app.reads.pages import (
    Budget,
    ReadPage,
    ReadRequest,
    StoreVersion,
    cursors_of,
    with_columns,
)
from oriel.app.selection import Ranking, item_schema, parse_condition, parse_order
from oriel.storage import UNBOUNDED

#: The records that one step examines. The worker serves other requests between the steps.
_STEP = 512
#: The maximum duration of a read in seconds.
_SECONDS = 20.0


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


class RankedRead:
    """The state of a ranked read between its steps."""

    def __init__(self, store: StoreVersion, request: ReadRequest) -> None:
        """Read a version of a store.

        Raises:
            InvalidParameter: the condition or the order is not one of the store.
            InvalidCursor: the cursor belongs to another request.
        """
        query, definition = request.query, store.state.definition
        columns = item_schema(definition)
        where, cursors = query["where"], cursors_of(store.state, request)
        self._store = store
        self._request = request
        self._rows = query["top"] or query.get("limit", 0) or PAGE_ROWS_MAX
        self._ranking = Ranking(
            definition,
            parse_order(query["order_by"] or (), columns),
            self._rows,
            None if where is None else parse_condition(where, columns),
            cursors.read_bytes(query["cursor"]),
        )

    def steps(self) -> Iterator[None]:
        """Read all items, step by step.

        Raises:
            RankedReadLimit: it would read more than the maximum number of records.
            RequestTooSlow: it takes longer than the maximum duration.
        """
        everything: ReadValues = {
            **self._request.query, "cursor": None, "columns": None, "where": None,
        }  # fmt: skip
        budget = Budget(UNBOUNDED, UNBOUNDED, RANKED_RECORDS_MAX, _STEP)
        rest: ReadRequest | None = self._request._replace(query=everything, budget=budget)
        ends = time.monotonic() + _SECONDS
        while rest is not None:
            page = rest.read.function(self._store, rest)
            self._ranking.add(page.items)
            rest = page.rest
            if rest is None and page.next_cursor is not None:
                message = (
                    f"order_by: the read has more than {RANKED_RECORDS_MAX:,} windows or rows. "
                    "Narrow its keys or times."
                )
                raise RankedReadLimit(message)
            if rest is not None and time.monotonic() > ends:
                message = (
                    f"order_by: the read needs more than {_SECONDS:g} s. Narrow its keys or times."
                )
                raise RequestTooSlow(message)
            yield

    def page(self) -> ReadPage:
        """Return the page, after all steps.

        Raises:
            RankedReadLimit: the items of ``top`` have more bytes than a page.
        """
        state, request = self._store.state, self._request
        items = self._ranking.items()
        kept, size = 0, 0
        while kept < min(len(items), self._rows) and size < PAGE_BYTES_MAX:
            size += len(items[kept])
            kept += 1
        is_cut = kept < min(len(items), self._rows)
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
