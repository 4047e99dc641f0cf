"""Response formats in addition to the index's JSON: NDJSON, CSV, Arrow, and ISO times.

The input is the finished JSON objects of a page and the store's definition. The output is the body
in the format that ``oriel.app.contract`` selected. The conversion works on whole columns. Arrow
parses the objects with the schema of the definition, and writes them. ``Compressor`` compresses
long bodies in every format.
"""

from oriel.app.formats.bodies import (
    items_with_iso_times,
    keys_body,
    page_headers,
    windows_body,
)
from oriel.app.formats.compression import Compressor

__all__ = [
    "Compressor",
    "items_with_iso_times",
    "keys_body",
    "page_headers",
    "windows_body",
]
