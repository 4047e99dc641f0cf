"""Select the response format of windows, rows or keys.

The header ``Accept`` selects the format with the greatest q-value (RFC 9110, 12.5.1). If several
formats have it, the most specific range wins, and then the order of ``MediaType``.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache

from oriel.app.contract.problems import NotAcceptable


class MediaType(StrEnum):
    """The response formats. The first one is the default."""

    JSON = "application/json"
    NDJSON = "application/x-ndjson"
    CSV = "text/csv"
    ARROW = "application/vnd.apache.arrow.stream"


#: The only format of a stream of events.
EVENT_STREAM = "text/event-stream"

#: The parameters of a request in its body.
FORM = "application/x-www-form-urlencoded"

#: The values that nearly all clients send.
_PLAIN = frozenset({b"*/*", b"application/json", b""})

#: Longer values are rejected, because no client needs them.
_ACCEPT_BYTES_MAX = 1_000

_Q_VALUE = re.compile(r"(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


def media_type_of(headers: Iterable[tuple[bytes, bytes]]) -> MediaType:
    """Select the response format for a request with these headers (names in lower case).

    Raises:
        NotAcceptable: The request accepts no format of the service.
    """
    accept = b""
    for name, value in headers:
        if name == b"accept":
            # Several lines are one list (RFC 9110, 5.3).
            accept = accept + b"," + value if accept else value
    return MediaType.JSON if accept in _PLAIN else _negotiated(accept[: _ACCEPT_BYTES_MAX + 1])


@lru_cache(256)
def _negotiated(accept: bytes) -> MediaType:
    if len(accept) > _ACCEPT_BYTES_MAX:
        message = f"Accept: it has more than {_ACCEPT_BYTES_MAX} bytes. Use one of: {_offered()}."
        raise NotAcceptable(message)
    text = accept.decode("latin-1").lower()
    ranges = [one for one in map(weighted, text.split(",")) if one is not None]
    # An empty header counts as a missing one.
    if not ranges and not text.strip(" \t,"):
        return MediaType.JSON
    ranked = [(*_quality(media, ranges), -at, media) for at, media in enumerate(MediaType)]
    quality, *_, best = max(ranked)
    if quality == 0:
        message = f"Accept: no format of {text[:200]!r} is available. Use one of: {_offered()}."
        raise NotAcceptable(message)
    return best


def _quality(media: MediaType, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """Return the q-value of the most specific range that includes ``media``, and its precedence."""
    names = (media.value, f"{media.partition('/')[0]}/*", "*/*")
    for exactness, name in zip((3, 2, 1), names, strict=True):
        qualities = [quality for named, quality in ranges if named == name]
        if qualities:
            return max(qualities), exactness
    return 0.0, 0


def weighted(element: str) -> tuple[str, float] | None:
    """Return name and q-value of one element of a list, None if it cannot be read."""
    name, *parameters = (part.strip(" \t") for part in element.split(";"))
    quality = 1.0
    for parameter in parameters:
        attribute, _, value = parameter.partition("=")
        if attribute.strip() == "q":
            if not _Q_VALUE.fullmatch(value.strip()):
                return None
            quality = float(value)
    return (name, quality) if name else None


def _offered() -> str:
    return ", ".join(MediaType)
