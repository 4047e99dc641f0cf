"""The forms of an answer beside the JSON that the index keeps: NDJSON, CSV, Arrow, ISO times.

In come the finished JSON objects of one page and the store's definition, out comes the body in the
form that ``oriel.app.contract`` chose. All of it works on whole columns: Arrow parses the objects
by a schema that follows from the definition, and writes them.
"""

from oriel.app.formats.bodies import (
    items_with_iso_times,
    keys_body,
    page_headers,
    windows_body,
)

__all__ = [
    "items_with_iso_times",
    "keys_body",
    "page_headers",
    "windows_body",
]
