"""Pages as the content of a response, in the requested format and with the requested times."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

from oriel.app.contract import ISO_TIMES, MediaType
from oriel.app.formats import items_with_iso_times, page_headers, windows_body
from oriel.app.reads.catalog import VersionFrame
from oriel.app.reads.pages import ReadPage, ReadRequest
from oriel.storage import StoreDefinition

#: The same URL has responses in several formats and codings.
VARY = (b"vary", b"Accept, Accept-Encoding")

_JSON = (b"content-type", b"application/json")

#: A thread converts larger pages to other formats, so that other requests do not wait.
_LOOP_ITEMS_MAX = 200


class PageContent(NamedTuple):
    """The body of a response and the header fields that depend on it."""

    headers: list[tuple[bytes, bytes]]
    body: bytes


def is_converted_on_loop(request: ReadRequest, page: ReadPage, media: MediaType) -> bool:
    """Return whether the conversion of a page is so short that it needs no thread."""
    is_index_json = media is MediaType.JSON and request.query["times"] != ISO_TIMES
    return is_index_json or len(page.items) <= _LOOP_ITEMS_MAX


async def content_of(
    frame: VersionFrame, request: ReadRequest, page: ReadPage, media: MediaType
) -> PageContent:
    """Return ``page_content``, computed in a thread if the page is long."""
    joined = b",".join(page.items)
    if is_converted_on_loop(request, page, media):
        return page_content(frame, request, page, joined, media)
    return await asyncio.to_thread(page_content, frame, request, page, joined, media)


def page_content(
    frame: VersionFrame, request: ReadRequest, page: ReadPage, joined: bytes, media: MediaType
) -> PageContent:
    """Return a page in the requested format. Only JSON includes the position.

    ``joined`` has the items of the page with commas between them.
    """
    is_iso = request.query["times"] == ISO_TIMES
    if media is not MediaType.JSON:
        definition = _chosen_columns(frame.state.definition, request)
        body = windows_body(media, page.items, definition, iso_times=is_iso)
        format_headers = page_headers(media, len(page.items), page.next_cursor)
        return PageContent([*format_headers, (b"content-length", b"%d" % len(body))], body)
    if is_iso:
        definition = _chosen_columns(frame.state.definition, request)
        joined = b",".join(items_with_iso_times(page.items, definition))
    if page.next_cursor is None:
        closing = b'],"next_cursor":null}'
    else:
        closing = b'],"next_cursor":"%b"}' % page.next_cursor.encode()
    body = b"%b%b%b" % (frame.opening, joined, closing)
    return PageContent([_JSON, (b"content-length", b"%d" % len(body))], body)


def _chosen_columns(definition: StoreDefinition, request: ReadRequest) -> StoreDefinition:
    columns = request.query["columns"]
    if columns is None:
        return definition
    chosen = tuple(each for each in definition.aggregates if each.name in columns)
    return replace(definition, aggregates=chosen)
