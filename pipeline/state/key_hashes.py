"""A hash of each key, the same for ever and on every machine: state files are sorted by it.

A polynomial over the bytes, modulo 2**64, then mixed. Which keys share a hash only decides
what is read and written together, so it need not withstand anybody who looks for such keys.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows import Ints

#: Odd, so that no power of it is 0.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)

#: Keys are taken in shares of about so many bytes, to bound the memory that it takes.
_SHARE_BYTES = 1 << 20


def key_hashes(keys: pa.ChunkedArray | pa.Array) -> Ints:
    """Return the hash of each key; there is no null among them."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    parts = [np.zeros(0, dtype=np.int64)]
    for chunk in chunks:
        if not len(chunk):
            continue
        offsets, data = _bytes(chunk)
        cuts = np.searchsorted(offsets, np.arange(_SHARE_BYTES, offsets[-1], _SHARE_BYTES))
        edges = np.unique([0, *cuts, len(chunk)])
        for low, high in pairwise(edges.tolist()):
            parts.append(_hashed(offsets[low : high + 1], data))
    return np.concatenate(parts)


def _bytes(chunk: pa.StringArray) -> tuple[Ints, NDArray[np.uint8]]:
    """Where each key begins and ends, and the bytes of all."""
    _, begins, data = chunk.buffers()
    offsets = np.frombuffer(begins, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    held = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return offsets.astype(np.int64) - int(offsets[0]), held[offsets[0] : offsets[-1]]


def _hashed(offsets: Ints, data: NDArray[np.uint8]) -> Ints:
    """The hash of each key between two offsets."""
    data = data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(int(lengths.max()) + 1, _BASE))
    place = np.arange(len(data)) - np.repeat(offsets[:-1], lengths)
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    # One more than the byte, so that zero bytes count too.
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[place], out=sums[1:])
    hashes = sums[offsets[1:]] - sums[offsets[:-1]]
    for _ in range(2):
        hashes = (hashes ^ (hashes >> _HALF)) * _MIX
    hashes ^= hashes >> _HALF
    return hashes.view(np.int64)
