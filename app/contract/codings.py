"""Select the content coding of a response.

The header ``Accept-Encoding`` selects the coding with the greatest q-value (RFC 9110, 12.5.3). If
several codings have it, a named coding wins over ``*``, and then zstd over gzip.
"""

from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from oriel.app.contract.media_types import weighted
from oriel.app.contract.problems import NotAcceptable


class Coding(StrEnum):
    """The content codings of the service."""

    GZIP = "gzip"
    ZSTD = "zstd"


class Codings(NamedTuple):
    """The codings that a request accepts.

    Attributes:
        best: The coding of long bodies.
        is_plain_allowed: False if the client cannot read a body without a coding.
    """

    best: Coding
    is_plain_allowed: bool


#: The key of the ``Codings`` in the scope of a request. It is missing if the service compresses
#: nothing for the request.
CODINGS = "oriel.codings"

_PLAIN = "identity"
#: Less than the least q-value that a client can send, which is 0.001.
_LEAST = 0.0001

#: Longer values are rejected, because no client needs them.
_BYTES_MAX = 1_000


def codings_of(accept_encoding: bytes) -> Codings | None:
    """Return the codings that the value of ``Accept-Encoding`` accepts, None if only plain bodies.

    Raises:
        NotAcceptable: The request accepts neither a coding of the service nor a plain body.
    """
    return _negotiated(accept_encoding[: _BYTES_MAX + 1])


@lru_cache(256)
def _negotiated(accept_encoding: bytes) -> Codings | None:
    if len(accept_encoding) > _BYTES_MAX:
        message = f"Accept-Encoding: it has more than {_BYTES_MAX} bytes. Use one of: {_offered()}."
        raise NotAcceptable(message)
    text = accept_encoding.decode("latin-1").lower()
    weights = [one for one in map(weighted, text.split(",")) if one is not None]
    # x-gzip is another name of gzip (RFC 9110, 8.4.1.3).
    listed = {Coding.GZIP if name == "x-gzip" else name: quality for name, quality in weights}
    others = listed.get("*")

    def rank(coding: Coding) -> tuple[float, bool, bool]:
        is_named = coding in listed
        # Fewer clients can decode zstd, so `*` alone selects gzip.
        quality = listed.get(coding, others or 0.0)
        return quality, is_named, is_named and coding is Coding.ZSTD

    best = max(Coding, key=rank)
    plain = listed.get(_PLAIN, _LEAST if others is None else others)
    if plain == 0 == rank(best)[0]:
        message = (
            f"Accept-Encoding: no coding of {text[:200]!r} is available. Use one of: {_offered()}."
        )
        raise NotAcceptable(message)
    if (plain, _PLAIN in listed) > rank(best)[:2]:
        return None
    return Codings(best, plain > 0)


def _offered() -> str:
    return ", ".join([*Coding, _PLAIN])
