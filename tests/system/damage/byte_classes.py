"""The byte classes of each file format: the meaning of each byte of a file.

A campaign that draws bytes evenly hits mostly the data of the largest files, and seldom a page
header.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

#: First byte, and the byte after the last.
Span = tuple[int, int]

#: Minimum size of a Parquet page header in bytes.
_PARQUET_PAGE_HEADER = 16
_LMDB_PAGE, _LMDB_HEADER = 4096, 16
_LMDB_FLAGS = {1: "branch page", 2: "leaf page", 4: "overflow page", 8: "meta page"}
_ARROW_MAGIC = 8
_JSON = re.compile(
    rb'(?P<digest>"(?:xxh3:[0-9a-f]{16}|[0-9a-f]{64})")|(?P<key>"[^"\\]*"):'
    rb'|(?P<string>"(?:[^"\\]|\\.)*")|(?P<number>-?\d[\d.eE+-]*)|(?P<syntax>[^"\d-]+)'
)


def byte_classes(path: Path, *, is_whole: bool) -> dict[str, list[Span]]:
    """Return the parts of a file by their class, or one class ``is_whole``."""
    content = path.read_bytes()
    split = _whole if is_whole else _FORMATS.get(path.suffix, _whole)
    found: dict[str, list[Span]] = {}
    for name, begin, end in split(content):
        if begin < end:
            found.setdefault(name, []).append((begin, end))
    return found


def _whole(content: bytes) -> Iterator[tuple[str, int, int]]:
    yield "content", 0, len(content)


def _json(content: bytes) -> Iterator[tuple[str, int, int]]:
    for match in _JSON.finditer(content):
        assert match.lastgroup is not None
        yield match.lastgroup, *match.span()


def _parquet(content: bytes) -> Iterator[tuple[str, int, int]]:
    size = len(content)
    footer = size - 8 - int.from_bytes(content[-8:-4], "little")
    yield "magic", 0, 4
    yield "magic", size - 4, size
    yield "footer length", size - 8, size - 4
    yield "footer", footer, size - 8
    metadata = pq.read_metadata(pa.BufferReader(content))
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column: Any = metadata.row_group(group).column(number)
            begin = column.data_page_offset
            if column.has_dictionary_page:
                begin = min(begin, column.dictionary_page_offset)
            end = begin + column.total_compressed_size
            yield "page header", begin, begin + _PARQUET_PAGE_HEADER
            yield "page data", begin + _PARQUET_PAGE_HEADER, end


def _lmdb(content: bytes) -> Iterator[tuple[str, int, int]]:
    at = 0
    while at < len(content):
        flags = int.from_bytes(content[at + 10 : at + 12], "little")
        name = next((name for flag, name in _LMDB_FLAGS.items() if flags & flag), "unused page")
        pages = 1
        if name == "overflow page":
            pages = max(1, int.from_bytes(content[at + 12 : at + 16], "little"))
        end = min(at + pages * _LMDB_PAGE, len(content))
        yield f"{name} header", at, at + _LMDB_HEADER
        yield name, at + _LMDB_HEADER, end
        at = end


def _arrow(content: bytes) -> Iterator[tuple[str, int, int]]:
    size = len(content)
    footer = size - 10 - int.from_bytes(content[-10:-6], "little")
    yield "magic", 0, _ARROW_MAGIC
    yield "magic", size - 10, size
    yield "footer", footer, size - 10
    at = _ARROW_MAGIC
    stream = pa.BufferReader(content)
    stream.seek(at)
    names = iter(["schema"])
    while at < footer and content[at : at + 8] != b"\xff\xff\xff\xff\0\0\0\0":
        body = pa.ipc.read_message(stream).body
        end = stream.tell()
        begin = end - (0 if body is None else body.size)
        yield next(names, "batch metadata"), at, begin
        yield "buffers", begin, end
        at = end
    yield "end of batches", at, footer


_FORMATS: dict[str, Callable[[bytes], Iterator[tuple[str, int, int]]]] = {
    ".json": _json,
    ".jsonl": _json,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".mdb": _lmdb,
}
