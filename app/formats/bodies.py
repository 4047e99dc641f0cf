"""Bodies and headers of pages in formats other than the index's JSON."""

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from oriel.app.contract import MediaType
from oriel.app.formats.tables import (
    keys_table,
    page_table,
    with_iso_times,
    with_ms_times,
)
from oriel.storage import StoreDefinition
from oriel.storage.index import json_strings, window_json


def windows_body(
    media: MediaType, items: Sequence[bytes], definition: StoreDefinition, *, iso_times: bool
) -> bytes:
    """Return the windows or rows of a page in a format other than JSON, without an envelope."""
    if media is MediaType.NDJSON:
        return _lines(items_with_iso_times(items, definition) if iso_times else items)
    table = page_table(items, definition)
    if media is MediaType.ARROW:
        return _arrow_stream(table)
    return _csv(with_iso_times(table) if iso_times else with_ms_times(table))


def keys_body(media: MediaType, keys: Sequence[str]) -> bytes:
    """Return the keys of a page in a format other than JSON, in one field ``key``."""
    if media is MediaType.NDJSON:
        return _lines([orjson.dumps({"key": key}) for key in keys])
    table = keys_table(keys)
    return _arrow_stream(table) if media is MediaType.ARROW else _csv(table)


def items_with_iso_times(items: Sequence[bytes], definition: StoreDefinition) -> list[bytes]:
    """Return JSON objects with times in ISO 8601. Other fields have unchanged bytes."""
    if not items:
        return []
    table = with_iso_times(page_table(items, definition)).combine_chunks()
    columns = [(name, table[name].combine_chunks()) for name in table.column_names]
    objects: list[bytes] = window_json(columns).to_pylist()
    return objects


def page_headers(
    media: MediaType, items: int, next_cursor: str | None
) -> list[tuple[bytes, bytes]]:
    """Return media type, number of items and cursor as header fields, for bodies of only items."""
    charset = "; charset=utf-8" if media is MediaType.CSV else ""
    headers = [
        (b"content-type", f"{media}{charset}".encode()),
        (b"oriel-items", b"%d" % items),
    ]
    if next_cursor is not None:
        headers.append((b"oriel-next-cursor", next_cursor.encode()))
    return headers


def _lines(items: Sequence[bytes]) -> bytes:
    return b"\n".join([*items, b""])


def _arrow_stream(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _csv(table: Any) -> bytes:
    """Return RFC 4180 with a header line. Quotes distinguish empty strings from null."""
    columns = [_csv_column(column) for column in table.columns]
    sink = pa.BufferOutputStream()
    pcsv.write_csv(pa.table(columns, table.column_names), sink)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def _csv_column(column: Any) -> Any:
    if not pa.types.is_list(column.type):
        return column
    # CSV does not have lists, so a field contains the JSON of a list.
    flat = column.combine_chunks()
    return pc.if_else(flat.is_valid(), json_strings(flat), None)
