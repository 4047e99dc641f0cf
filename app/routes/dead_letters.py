"""List and count dead letters, the records that stores could not use."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from oriel.app.contract import OPERATIONS, PageCursors, TableState, version_of_cursor
from oriel.app.reads import LogDigests, StoreCatalog
from oriel.storage import HistoryLost, Place
from oriel.storage.dead_letters import (
    DeadLetterPage,
    DeadLetterPosition,
    DeadLetterRange,
    Replays,
    Selection,
    dead_letter_counts,
    dead_letter_page,
    read_replays,
)
from oriel.storage.delta import DeltaLog
from oriel.storage.table_store import ReadBudget

_LIST, _COUNT = OPERATIONS["listDeadLetters"], OPERATIONS["countDeadLetters"]

#: Limit of the number in a cursor, because a page reads this number of records.
_NUMBER_MAX = 2**31 - 1
#: It is greater than each version of a cursor. The page checks the version.
_ANY_VERSION = 2**64


def dead_letter_routes(catalog: StoreCatalog) -> APIRouter:
    """Return the routes of the dead-letter table of one catalog."""
    router = APIRouter()
    directory = catalog.layout.dead_letters
    log, digests = DeltaLog(directory), LogDigests()

    @router.get(_LIST.path)
    async def list_dead_letters(request: Request) -> Response:
        query = _LIST.query.read(request.scope["query_string"])
        # Dead letters are only appended, so a cursor of one version continues in a later version.
        bounds = [query[name] for name in _LIST.query.bounds]
        cursors = PageCursors("dead letters", TableState("", _ANY_VERSION, {}), *bounds)
        place = cursors.read_values(
            query["cursor"], int, str, int, int, str, str, int, last_max=_NUMBER_MAX
        )
        after = None if place is None else DeadLetterPosition(*place)
        span = DeadLetterRange(query["limit"], query["order"] == "newest", after)
        wanted = _selection(query)

        def read(budget: ReadBudget) -> tuple[DeadLetterPage, Replays, str]:
            replays = read_replays(catalog.layout)
            page = dead_letter_page(directory, wanted, span, budget, replays)
            _reject_lost_history(log, digests, query["cursor"])
            return page, replays, "" if page.version is None else digests.digest(log, page.version)

        page, replays, digest = await catalog.table_reads.run(read)
        state = TableState("", page.version or 0, {}, digest)
        cursors = PageCursors("dead letters", state, *bounds)
        return _json({
            "version": page.version,
            "letters": [_dead_letter(row) | replays.marks(row) for row in page.letters.to_pylist()],
            "next_cursor": cursors.after_values(page.next_after),
        })  # fmt: skip

    @router.get(_COUNT.path)
    async def count_dead_letters(request: Request) -> Response:
        wanted = _selection(_COUNT.query.read(request.scope["query_string"]))
        counts = await catalog.table_reads.run(
            lambda budget: dead_letter_counts(
                directory, wanted, budget, read_replays(catalog.layout)
            )
        )
        return _json({
            "version": counts.version,
            "total": sum(counts.by_reason.values()),
            "by_reason": counts.by_reason,
            "repeats": counts.repeats,
        })  # fmt: skip

    return router


def _reject_lost_history(log: DeltaLog, digests: LogDigests, cursor: str | None) -> None:
    """Reject the cursor of a version that the table does not have.

    Raises:
        HistoryLost: A restore replaced the version, or its log entry was deleted.
    """
    place = None if cursor is None else version_of_cursor(cursor, "")
    if place is None or Place.of(place.version, "", digests.digest(log, place.version)) == place:
        return
    message = (
        f"dead letters: version {place.version} of the previous page is not in the log of the "
        "table, or a restore replaced it. Read the dead letters again without a cursor."
    )
    raise HistoryLost(message)


def _selection(query: Mapping[str, Any]) -> Selection:
    return Selection(
        topic=query["topic"],
        store=query["store"],
        reason=query["reason"],
        since_ms=query["from_ms"],
        until_ms=query["to_ms"],
        partition=query["partition"],
        from_offset=query["from_offset"],
        to_offset=query["to_offset"],
        replayed=query["replayed"],
    )


def _dead_letter(row: Mapping[str, Any]) -> dict[str, Any]:
    same = ("topic", "partition", "offset", "reason", "detail", "revision", "timestamp_ms")
    headers = row["headers"]
    return {
        **{name: row[name] for name in same},
        "store": row["store"] or None,
        "key": _bytes(row["key"]),
        "headers": None if headers is None else [
            {"key": header["key"], "value": _bytes(header["value"])} for header in headers
        ],
        "value": _bytes(row["raw"]),
    }  # fmt: skip


def _bytes(content: bytes | None) -> dict[str, str] | None:
    """Return bytes as the contract defines them: text if they are UTF-8, otherwise base64."""
    if content is None:
        return None
    try:
        return {"encoding": "utf-8", "data": content.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "data": b64encode(content).decode()}


def _json(body: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(body), media_type="application/json")
