"""A hash of each key and time bucket, by which the rows of state files are sorted.

The hash never changes, and it is the same on every machine. It is a polynomial over the bytes of
the key, modulo 2**64, which is then mixed. The index of the time bucket times a constant is added.
Rows with equal hashes are read and written together (see ``keyed_state``). So equal hashes cost
time, but never lose rows. The hash need not resist attackers who search for such keys.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows import Ints, Ranges

#: Odd, so no power of it is 0.
_BASE = np.uint64(0x9E3779B97F4A7C15)
#: Odd, so a multiplication loses no information.
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)

#: The difference of the hashes of two adjacent time buckets of a key. It is odd, so the time
#: buckets of a key have different hashes. It is far from 0, so the hashes are spread over the whole
#: range.
TIME_BUCKET_STEP = np.int64(-0x2152_41D7_9A3B_5E61)

#: The bits of a hash that distinguish the sub-keys of a key.
SUB_KEY_BITS = np.int64(0xFFFF_FFFF)

#: The hashes of up to this number of time buckets are listed without grouping.
_FEW_TIME_BUCKETS = 4096

#: Keys are hashed in slices of about this many bytes, because each byte needs dozens of bytes of
#: memory.
_SLICE_BYTES = 1 << 20


def key_hashes(keys: pa.ChunkedArray | pa.Array) -> Ints:
    """Return the hash of each key. Keys are not null."""
    chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
    hashes = [np.zeros(0, dtype=np.int64)]
    for chunk in chunks:
        if not len(chunk):
            continue
        offsets, data = _bytes(chunk)
        cuts = np.searchsorted(offsets, np.arange(_SLICE_BYTES, offsets[-1], _SLICE_BYTES))
        edges = np.unique([0, *cuts, len(chunk)])
        for low, high in pairwise(edges.tolist()):
            hashes.append(_hashed(offsets[low : high + 1], data))
    return np.concatenate(hashes)


def time_bucket_hashes(keys: pa.ChunkedArray, buckets: Ints) -> Ints:
    """Return the hash of each (key, time bucket). Keys are not null."""
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More than 2**31 bytes of strings remain in chunks, but their dictionary fits into one.
        encoded = encoded.combine_chunks()
    # 64-bit integers wrap, which is correct for a hash.
    hashes: Ints = (
        key_hashes(encoded.dictionary)[np.asarray(encoded.indices)] + buckets * TIME_BUCKET_STEP
    )
    return hashes


def sub_key_hashes(keys: pa.ChunkedArray, sub_keys: pa.ChunkedArray) -> Ints:
    """Return the hash of each (key, sub-key). The hashes of a key are adjacent.

    The upper half is from the key, and the lower half from the sub-key. If the sub-key is null, the
    lower half is 0, which is the least hash of the key.
    """
    none = np.zeros(len(keys), dtype=np.int64)
    hashes = time_bucket_hashes(keys, none) & ~SUB_KEY_BITS
    has_sub_key = np.asarray(sub_keys.is_valid())
    valid_sub_keys = sub_keys.filter(sub_keys.is_valid())
    hashes[has_sub_key] |= time_bucket_hashes(valid_sub_keys, none[has_sub_key]) & SUB_KEY_BITS
    return hashes


def nearby_hashes(hashes: Ints, buckets: Ranges) -> Ints:
    """Return the distinct hashes of the time buckets in a range around each time bucket, ascending.

    Args:
        hashes: The hash of each time bucket.
        buckets: A range of time buckets for each hash, relative to its own time bucket, which is 0.
    """
    if buckets.sizes.sum() <= _FEW_TIME_BUCKETS:
        # For few time buckets, the grouping below costs more than it saves.
        return np.unique(hashes[buckets.owners] + buckets.rows()[1] * TIME_BUCKET_STEP)
    # Most records of a key in a batch have the same range. The table is grouped by hashing, so it
    # needs no sort.
    table = pa.table({"low": hashes + buckets.low * TIME_BUCKET_STEP, "size": buckets.sizes})
    distinct = table.group_by(["low", "size"]).aggregate([])
    # The hashes of a range differ by ``TIME_BUCKET_STEP``.
    low, size = np.asarray(distinct["low"]), np.asarray(distinct["size"])
    ranges = Ranges(np.zeros_like(size), size)
    return np.unique(low[ranges.owners] + ranges.rows()[1] * TIME_BUCKET_STEP)


def _bytes(chunk: pa.StringArray) -> tuple[Ints, NDArray[np.uint8]]:
    """Return the offsets of the keys, and the bytes of all keys."""
    _, begins, data = chunk.buffers()
    offsets = np.frombuffer(begins, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    # If all keys are empty, Arrow has no buffer.
    text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return offsets.astype(np.int64) - int(offsets[0]), text[offsets[0] : offsets[-1]]


def _hashed(offsets: Ints, data: NDArray[np.uint8]) -> Ints:
    """Return the hash of the key between each two adjacent ``offsets``.

    Byte i of a key is multiplied by ``_BASE ** (i + 1)``, so the position of the key does not
    matter.
    """
    data = data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(int(lengths.max()) + 1, _BASE))
    byte_in_key = np.arange(len(data)) - np.repeat(offsets[:-1], lengths)
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    # Each byte is increased by 1, so that zero bytes also count. Sums wrap, but the difference of
    # two sums is still correct, because both are modulo 2**64.
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[byte_in_key], out=sums[1:])
    hashes = sums[offsets[1:]] - sums[offsets[:-1]]
    # Low bits of such a sum only depend on low bits. These steps also mix high bits into the low
    # bits, and keep different sums different.
    for _ in range(2):
        hashes = (hashes ^ (hashes >> _HALF)) * _MIX
    hashes ^= hashes >> _HALF
    return hashes.view(np.int64)
