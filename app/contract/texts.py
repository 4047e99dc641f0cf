"""Read the text of a parameter: integers, times, keys, choices, escapes."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

from oriel.app.contract.problems import InvalidKey, InvalidParameter
from oriel.storage import KEY_BYTES_MAX, Place, parse_offset_bound

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INT32_MAX = 2**31 - 1

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
#: A time with at most milliseconds (ISO 8601, RFC 3339).
_ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_ISO_TIME_LENGTH_MAX = len("2013-01-01T10:00:00.000+00:00")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def decode_path(raw: bytes) -> str:
    """Decode one part of a raw path (``%2F`` is a slash of the key, not of the path).

    Raises:
        InvalidKey: The part has a broken escape, or is not UTF-8.
    """
    # unquote_to_bytes keeps a broken escape, so two spellings would be one key.
    broken = _BROKEN_ESCAPE.search(raw) if b"%" in raw else None
    if broken:
        message = (
            f"path: byte {broken.start()} of the part is '%' without two hex digits. Write "
            "a percent sign as %25."
        )
        raise InvalidKey(message)
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError as error:
        message = (
            f"path: the part is not UTF-8 after percent-decoding: {error.reason}. Encode it "
            "as UTF-8."
        )
        raise InvalidKey(message) from error


def read_key(raw: bytes) -> str:
    """Decode the key of a path.

    Raises:
        InvalidKey: The key has a broken escape, is not UTF-8, or exceeds ``KEY_BYTES_MAX``.
    """
    key = decode_path(raw)
    if len(raw) > KEY_BYTES_MAX and len(key.encode()) > KEY_BYTES_MAX:
        message = (
            f"key: it has {len(key.encode())} bytes. A key must have at most {KEY_BYTES_MAX} bytes."
        )
        raise InvalidKey(message)
    return key


def integer_reader(name: str, low: int, high: int) -> Callable[[str], int]:
    """Return a reader of integers from ``low`` to ``high``, both inclusive."""

    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        message = f"{name} must be an integer from {low} to {high}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def time_reader(name: str) -> Callable[[str], int]:
    """Return a reader of times: ms since the epoch as a 64-bit integer, or ISO 8601."""

    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) and INT64_MIN <= int(text) <= INT64_MAX:
            return int(text)
        time_ms = _iso_time_ms(text)
        if time_ms is not None:
            return time_ms
        message = (
            f"{name} must be an integer from {INT64_MIN} to {INT64_MAX}, or a time like "
            f"2013-01-01T10:00:00Z, not {text[:80]!r}"
        )
        raise InvalidParameter(message)

    return read


def _iso_time_ms(text: str) -> int | None:
    """Read an ISO 8601 time (UTC without an offset). Return None for other text."""
    # The cost of the regular expression below is quadratic in the length.
    if len(text) > _ISO_TIME_LENGTH_MAX:
        return None
    # In a query, the plain plus of an offset is read as a space.
    text = re.sub(r"(T.*) (\d\d:\d\d)$", r"\1+\2", text.upper())
    if not _ISO_TIME.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:  # the 30th of February
        return None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def lower_bound_reader(name: str) -> Callable[[str], int]:
    """Return a reader of lower bounds in ms, which reads a negative time as 0.

    No record has a negative time (semantics.md#1-2), so no window is lost, and requests with the
    same meaning share their cursors.
    """
    read = time_reader(name)
    return lambda text: max(read(text), 0)


def choice_reader(name: str, *choices: str) -> Callable[[str], str]:
    """Return a reader of one of several words."""

    def read(text: str) -> str:
        if text in choices:
            return text
        message = f"{name} must be one of {', '.join(choices)}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def path_time_reader(name: str) -> Callable[[bytes], int]:
    """Return a reader of times in the path."""
    read = time_reader(name)
    return lambda raw: read(decode_path(raw))


def read_offset_bound(text: str) -> Any:
    """Read ``TOPIC:PARTITION:OFFSET``."""
    bound = parse_offset_bound(text)
    if bound is None:
        message = (
            f"min_offset must be TOPIC:PARTITION:OFFSET, for example flights:0:12345, "
            f"not {text[:80]!r}"
        )
        raise InvalidParameter(message)
    return bound


def read_history(text: str) -> str:
    """Read the ``history`` of a position."""
    if Place.read(0, text) is None:
        message = (
            "history must be the `history` of a position, for example 1a2b3c4d-99aabbcc, not "
            f"{text[:80]!r}"
        )
        raise InvalidParameter(message)
    return text


def boolean_reader(name: str) -> Callable[[str], bool]:
    """Return a reader of ``true`` or ``false``."""

    def read(text: str) -> bool:
        if text in {"true", "false"}:
            return text == "true"
        message = f"{name} must be true or false, not {text[:80]!r}"
        raise InvalidParameter(message)

    return read


def decode_query(raw: bytes) -> str:
    """Decode a name or value of the query (``+`` is a space there)."""
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        message = (
            f"query: it is not UTF-8 after percent-decoding: {error.reason}. Encode it as UTF-8."
        )
        raise InvalidParameter(message) from error
