"""Read and write cursors, which are opaque and valid only for the request that returned them.

    cursor    =  base64url( format (1 byte)  request digest (12)  table version (8)
                            first digits of the version's digest (8)  last )
    last      =  window start (8)  window end (8), signed         after a page of windows
              |  the last key's UTF-8 bytes                       after a page of keys
              |  a list as JSON                                   after a page of anything else
              |  the store's own bytes                            after a page of many keys
              |  position in the list (4), or it and a window     after a page of listed keys

The digest covers what must stay unchanged between the pages: table, operation, key and bounds. The
version rejects pages from an older version, and the digits of its digest keep the pages in one
history of the table.
"""

import hashlib
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from oriel.storage import (
    BehindPositionBound,
    InvalidCursor,
    Offsets,
    Place,
    PositionBound,
    WindowId,
)
from oriel.storage.index import IndexState

_FORMAT = 2
_HEAD = struct.Struct(">B12sQ8s")
_WINDOW = struct.Struct(">qq")
_AT = struct.Struct(">I")
_DIGEST_BYTES = 12

_NOT_OURS = "cursor: the text is not a cursor of this service. Start again without a cursor."
_OF_ANOTHER = (
    "cursor: it belongs to another request (store, key, direction, bounds), or the store was "
    "re-created. Start again without a cursor."
)


class TableState(NamedTuple):
    """The state of a table without an index, to which a cursor belongs."""

    table_id: str
    version: int
    offsets: Offsets
    digest: str = ""

    @property
    def place(self) -> Place:
        """Return the version with its history."""
        return Place.of(self.version, self.table_id, self.digest)


class PageCursors:
    """Reads and writes the cursors of one request at one table version.

    The arguments ``request`` identify the request: operation, key, bounds. All methods that read a
    cursor raise ``InvalidCursor`` if it belongs to another request or is not a cursor of this
    service. They raise ``BehindPositionBound`` if the previous page has a newer version.
    """

    def __init__(self, store: str, state: IndexState | TableState, *request: object) -> None:
        """Store the request. The digest is computed lazily, because most requests have one page."""
        self._store = store
        self._state = state
        self._request = request

    def read_window(self, cursor: str | None) -> WindowId | None:
        """Return the last window of the previous page, None on the first page."""
        if cursor is None:
            return None
        last = self._read(cursor)
        if len(last) != _WINDOW.size:
            raise InvalidCursor(_NOT_OURS)
        return WindowId(*_WINDOW.unpack(last))

    def read_key(self, cursor: str | None) -> str | None:
        """Return the last key of the previous page, None on the first page."""
        if cursor is None:
            return None
        try:
            return self._read(cursor).decode()
        except UnicodeDecodeError as error:
            raise InvalidCursor(_NOT_OURS) from error

    def read_values(
        self, cursor: str | None, *kinds: type, last_max: int = 2**63 - 1
    ) -> list[Any] | None:
        """Return the values of ``after_values``, with these types, None on the first page.

        The digest covers only the request, so the values are checked. If the last value is an
        integer, it must be at most ``last_max``.
        """
        if cursor is None:
            return None
        try:
            place = orjson.loads(self._read(cursor))
        except orjson.JSONDecodeError as error:
            raise InvalidCursor(_NOT_OURS) from error
        if not isinstance(place, list) or [type(value) for value in place] != list(kinds):
            raise InvalidCursor(_NOT_OURS)
        if not all(0 <= value < 2**63 for value in place if isinstance(value, int)):
            raise InvalidCursor(_NOT_OURS)
        if isinstance(place[-1], int) and place[-1] > last_max:
            raise InvalidCursor(_NOT_OURS)
        return place

    def read_bytes(self, cursor: str | None) -> bytes | None:
        """Return the end of the previous page, in the store's own bytes, None on the first page."""
        return None if cursor is None else self._read(cursor)

    def after_bytes(self, place: bytes | None) -> str | None:
        """Return the cursor of the page that continues after a place, None without such a page."""
        return None if place is None else self._write(place)

    def read_listed(self, cursor: str | None) -> tuple[int, WindowId | None]:
        """Return the listed key with which the page continues, and its last window so far."""
        if cursor is None:
            return 0, None
        last = self._read(cursor)
        if len(last) not in (_AT.size, _AT.size + _WINDOW.size):
            raise InvalidCursor(_NOT_OURS)
        (at,) = _AT.unpack_from(last)
        window = WindowId(*_WINDOW.unpack_from(last, _AT.size)) if len(last) > _AT.size else None
        return at, window

    def after_listed(self, at: int, window: WindowId | None) -> str:
        """Return the cursor of the page that continues after a window of a listed key."""
        return self._write(_AT.pack(at) + (b"" if window is None else _WINDOW.pack(*window)))

    def after_window(self, window: WindowId | None) -> str | None:
        """Return the cursor of the page that continues after a window, None without such a page."""
        return None if window is None else self._write(_WINDOW.pack(*window))

    def after_key(self, key: str | None) -> str | None:
        """Return the cursor of the page that continues after a key, None without such a page."""
        return None if key is None else self._write(key.encode())

    def after_values(self, place: Sequence[Any] | None) -> str | None:
        """Return the cursor of the page that continues after strings and integers >= 0."""
        return None if place is None else self._write(orjson.dumps(list(place)))

    @cached_property
    def _digest(self) -> bytes:
        # The table id, because a re-created store with the same name has other windows.
        request = repr((self._state.table_id, *self._request))
        return hashlib.blake2b(request.encode(), digest_size=_DIGEST_BYTES).digest()

    def _write(self, last: bytes) -> str:
        version, _, digest = self._state.place
        content = _HEAD.pack(_FORMAT, self._digest, version, digest.encode()) + last
        return urlsafe_b64encode(content).decode().rstrip("=")

    def _read(self, cursor: str) -> bytes:
        try:
            content = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
            cursor_format, digest, version, _ = _HEAD.unpack_from(content)
        except (ValueError, struct.error) as error:
            raise InvalidCursor(_NOT_OURS) from error
        if cursor_format != _FORMAT:
            raise InvalidCursor(_NOT_OURS)
        if digest != self._digest:
            raise InvalidCursor(_OF_ANOTHER)
        # A rebuilt index can have an older version than the previous page. To continue there would
        # mix two versions.
        missing = PositionBound(version).missing(self._state.version, self._state.offsets)
        if missing:
            message = (
                f"store {self._store!r}: it has not reached the position of the previous "
                f"page: {', '.join(missing)}. Send the request again later."
            )
            raise BehindPositionBound(message)
        return content[_HEAD.size :]


def version_of_cursor(cursor: str, table_id: str) -> Place | None:
    """Return the version of the previous page, None if the text is not a cursor."""
    try:
        content = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        _, _, version, digest = _HEAD.unpack_from(content)
    except (ValueError, struct.error):
        return None
    return Place.of(version, table_id, digest.rstrip(b"\0").decode("latin-1"))
