"""Define the values of parameters: their JSON schema, and the texts of a request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote_to_bytes

from oriel.app.contract.problems import InvalidKey, InvalidParameter
from oriel.storage import HISTORY_PATTERN, KEY_BYTES_MAX, Place, parse_offset_bound

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


@dataclass(frozen=True)
class Values:
    """The values of a parameter: how the document describes them, and how a request has them.

    Attributes:
        schema: The JSON schema of a value.
        read: A function from the name of the parameter and a text to the value. It raises
            ``InvalidParameter``, and for keys ``InvalidKey``.
    """

    schema: Mapping[str, Any]
    read: Callable[[str, str], Any]


def integers(low: int, high: int) -> Values:
    """Return the integers from ``low`` to ``high``, both inclusive."""

    def read(name: str, text: str) -> int:
        if _INTEGER.fullmatch(text) and low <= int(text) <= high:
            return int(text)
        message = f"{name} must be an integer from {low} to {high}, not {text[:80]!r}"
        raise InvalidParameter(message)

    schema: dict[str, Any] = {"type": "integer", "minimum": low, "maximum": high}
    return Values(schema | ({"format": "int64"} if high == INT64_MAX else {}), read)


def choice(*words: str) -> Values:
    """Return values that are one of some words."""

    def read(name: str, text: str) -> str:
        if text in words:
            return text
        message = f"{name} must be one of {', '.join(words)}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return Values({"type": "string", "enum": [*words]}, read)


def text_of(pattern: str) -> Values:
    """Return the texts with a pattern, which the operation reads."""
    return Values({"type": "string", "pattern": f"^{pattern}$"}, lambda _, text: text)


def checked_text_of(pattern: str) -> Values:
    """Return the texts with a pattern. Others are rejected."""
    compiled = re.compile(pattern, re.ASCII)

    def read(name: str, text: str) -> str:
        if compiled.fullmatch(text):
            return text
        message = f"{name} must match {pattern}, not {text[:80]!r}"
        raise InvalidParameter(message)

    return Values({"type": "string", "pattern": f"^{pattern}$"}, read)


def _read_time(name: str, text: str) -> int:
    if _INTEGER.fullmatch(text) and INT64_MIN <= int(text) <= INT64_MAX:
        return int(text)
    time_ms = iso_time_ms(text)
    if time_ms is not None:
        return time_ms
    message = (
        f"{name} must be an integer from {INT64_MIN} to {INT64_MAX}, or a time like "
        f"2013-01-01T10:00:00Z, not {text[:80]!r}"
    )
    raise InvalidParameter(message)


def iso_time_ms(text: str) -> int | None:
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


def _read_boolean(name: str, text: str) -> bool:
    if text in {"true", "false"}:
        return text == "true"
    message = f"{name} must be true or false, not {text[:80]!r}"
    raise InvalidParameter(message)


def _read_key(name: str, key: str) -> str:
    # A character has at most four bytes.
    if len(key) * 4 > KEY_BYTES_MAX and len(key.encode()) > KEY_BYTES_MAX:
        message = (
            f"{name}: it has {len(key.encode())} bytes. A key must have at most {KEY_BYTES_MAX} "
            "bytes."
        )
        raise InvalidKey(message)
    return key


def _read_offset_bound(name: str, text: str) -> object:
    bound = parse_offset_bound(text)
    if bound is None:
        message = (
            f"{name} must be TOPIC:PARTITION:OFFSET, for example flights:0:12345, not {text[:80]!r}"
        )
        raise InvalidParameter(message)
    return bound


def _read_history(name: str, text: str) -> str:
    if Place.read(0, text) is None:
        message = (
            f"{name} must be the `history` of a position, for example 1a2b3c4d-99aabbcc, not "
            f"{text[:80]!r}"
        )
        raise InvalidParameter(message)
    return text


INT64 = integers(INT64_MIN, INT64_MAX)
TEXT = Values({"type": "string"}, lambda _, text: text)
BOOLEAN = Values({"type": "boolean"}, _read_boolean)
#: Words with commas between them.
WORDS = Values({"type": "string"}, lambda _, text: tuple(text.split(",")) if text else ())
KEY_TEXT = Values({"type": "string"}, _read_key)
#: Ms since the epoch, or ISO 8601 with at most milliseconds, because no window has a finer time.
TIME = Values(
    {
        "anyOf": [
            INT64.schema,
            {"type": "string", "format": "date-time", "pattern": r"^[^.]*(\.\d{1,3}\D.*)?$"},
        ]
    },
    _read_time,
)
#: ``TIME`` as a lower bound. A negative time is read as 0. No record has a negative time
#: (semantics.md#1-2), so no window is lost, and requests with the same meaning share their cursors.
LOWER_TIME = Values(TIME.schema, lambda name, text: max(_read_time(name, text), 0))
#: ``TOPIC:PARTITION:OFFSET``.
OFFSET_BOUND = Values(
    {"type": "string", "pattern": r"^[^:]+:\d{1,9}:\d{1,18}$"}, _read_offset_bound
)
#: The ``history`` of a position.
HISTORY_ID = Values({"type": "string", "pattern": f"^{HISTORY_PATTERN}$"}, _read_history)


def decode_query(raw: bytes) -> str:
    """Decode a name or value of the query (``+`` is a space there)."""
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode()
    except UnicodeDecodeError as error:
        message = (
            f"query: it is not UTF-8 after percent-decoding: {error.reason}. Encode it as UTF-8."
        )
        raise InvalidParameter(message) from error
