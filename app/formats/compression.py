"""Compress the bodies of long responses, gzip and zstd, with Arrow's codecs.

The tags of all compressed responses are weak, so one tag is valid for every coding of a response
(RFC 9110, 8.8.1).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oriel.app.contract import Coding, Codings

#: Shorter bodies fit in one packet, so a coding saves no time.
_LEAST_BYTES = 1024
#: A thread compresses longer bodies. On the event loop, this many bytes need up to 0.3 ms.
_LOOP_BYTES_MAX = 64 * 1024
#: The fastest level. Windows as JSON have a fifth of their bytes with it. Level 6 of gzip saves
#: another sixth, but needs three times as long (docs/decisions/0108).
_LEVEL = 1

_LENGTH = b"content-length"

Headers = Sequence[tuple[bytes, bytes]]


class Compressor:
    """Compresses the bodies of one worker, one long body at a time, so that it uses one core."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def compressed(
        self, headers: Headers, body: bytes, codings: Codings
    ) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """Return a response in the coding that its client prefers, unchanged if it is short.

        Args:
            headers: The header fields of the response, with its length.
            body: The body.
            codings: The codings that the client accepts.
        """
        coding = codings.best
        if len(body) < _LEAST_BYTES and codings.is_plain_allowed:
            return list(headers), body
        if len(body) <= _LOOP_BYTES_MAX:
            body = _encode(coding, body)
        else:
            async with self._turn:
                body = await asyncio.to_thread(_encode, coding, body)
        others = [field for field in headers if field[0] != _LENGTH]
        length = (_LENGTH, b"%d" % len(body))
        return [*others, (b"content-encoding", coding.encode()), length], body


def _encode(coding: Coding, body: bytes) -> bytes:
    codec: Any = pa.Codec(coding.value, compression_level=_LEVEL)
    encoded: bytes = codec.compress(body, asbytes=True)
    return encoded
