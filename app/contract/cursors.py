"""Page tokens: opaque, and good only for the request that they were given out for.

    token     =  base64url( format (1 byte)  request digest (12)  table version (8)  place )
    place     =  window start (8)  window end (8), signed         for windows
              |  the last key's UTF-8 bytes                       for keys

The digest is over everything that must stay the same between the pages: table, operation,
key and bounds. The version makes pages move forwards in time only.
"""

import hashlib
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from oriel.storage import InvalidCursor, WindowId

_FORMAT = 1
_HEAD = struct.Struct(">B12sQ")
_WINDOW = struct.Struct(">qq")
_DIGEST_BYTES = 12


class WindowsCursor(NamedTuple):
    """Where a page of windows ended, and in which table version."""

    version: int
    after: WindowId


class KeysCursor(NamedTuple):
    """Where a page of keys ended, and in which table version."""

    version: int
    after: str


def request_digest(*parts: object) -> bytes:
    """What identifies a request to its cursors."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=_DIGEST_BYTES).digest()


def windows_token(cursor: WindowsCursor, digest: bytes) -> str:
    """Write the token of a page of windows."""
    return _token(cursor.version, digest, _WINDOW.pack(*cursor.after))


def keys_token(cursor: KeysCursor, digest: bytes) -> str:
    """Write the token of a page of keys."""
    return _token(cursor.version, digest, cursor.after.encode())


def read_windows_token(token: str, digest: bytes) -> WindowsCursor:
    """Read a token of a page of windows.

    Raises:
        InvalidCursor: it was not given out for this request.
    """
    version, place = _read(token, digest)
    if len(place) != _WINDOW.size:
        raise InvalidCursor(_NOT_OURS)
    return WindowsCursor(version, WindowId(*_WINDOW.unpack(place)))


def read_keys_token(token: str, digest: bytes) -> KeysCursor:
    """Read a token of a page of keys.

    Raises:
        InvalidCursor: it was not given out for this request.
    """
    version, place = _read(token, digest)
    try:
        return KeysCursor(version, place.decode())
    except UnicodeDecodeError as error:
        raise InvalidCursor(_NOT_OURS) from error


_NOT_OURS = "this cursor was not given out by this service; start again without a cursor"
_OF_ANOTHER = (
    "this cursor was given out for another request (store, key, direction, bounds) or the store "
    "was made anew; start again without a cursor"
)


def _token(version: int, digest: bytes, place: bytes) -> str:
    return urlsafe_b64encode(_HEAD.pack(_FORMAT, digest, version) + place).decode().rstrip("=")


def _read(token: str, digest: bytes) -> tuple[int, bytes]:
    try:
        content = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        token_format, of_request, version = _HEAD.unpack_from(content)
    except (ValueError, struct.error) as error:
        raise InvalidCursor(_NOT_OURS) from error
    if token_format != _FORMAT:
        raise InvalidCursor(_NOT_OURS)
    if of_request != digest:
        raise InvalidCursor(_OF_ANOTHER)
    return version, content[_HEAD.size :]
