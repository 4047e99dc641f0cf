"""A hash of each key and unit, the same for ever and on every machine: files are sorted by it.

A polynomial over the key's bytes, modulo 2**64, then mixed; the unit is added to it, times a
constant. What shares a hash is read and written together, nothing else (see ``keyed_state``):
equal hashes cost time, never rows. So it need not withstand anybody who looks for such keys.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oriel.pipeline.windows import Ints, Ranges

#: Odd, so that no power of it is 0.
_BASE = np.uint64(0x9E3779B97F4A7C15)
#: Odd, so that to multiply by it loses nothing.
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)

#: From a unit of a key to the next one. Odd, so that the units of a key have different hashes;
#: far from 0, so that they lie anywhere.
UNIT_STEP = np.int64(-0x2152_41D7_9A3B_5E61)

#: The bits of a hash that tell the members of a key apart.
MEMBER_BITS = np.int64(0xFFFF_FFFF)

#: The hashes of up to this number of units are listed without grouping.
_FEW_UNITS = 4096

#: Keys are taken in slices of about so many bytes: a byte takes dozens while it is hashed.
_SLICE_BYTES = 1 << 20


def key_hashes(keys: pa.ChunkedArray | pa.Array) -> Ints:
    """Return the hash of each key; there is no null among them."""
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


def unit_hashes(keys: pa.ChunkedArray, units: Ints) -> Ints:
    """Return the hash of each (key, unit); there is no null among the keys."""
    encoded = keys.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More text than one array can hold (2**31 bytes) stays in chunks; its dictionary fits.
        encoded = encoded.combine_chunks()
    # 64-bit integers wrap, as a hash may.
    hashes: Ints = key_hashes(encoded.dictionary)[np.asarray(encoded.indices)] + units * UNIT_STEP
    return hashes


def member_hashes(keys: pa.ChunkedArray, members: pa.ChunkedArray) -> Ints:
    """Return the hash of each (key, member): those of a key lie side by side.

    The upper half is the key's, the lower one the member's; without a member (null) it is 0, the
    least of the key's hashes.
    """
    none = np.zeros(len(keys), dtype=np.int64)
    hashes = unit_hashes(keys, none) & ~MEMBER_BITS
    has_member = np.asarray(members.is_valid())
    of_members = members.filter(members.is_valid())
    hashes[has_member] |= unit_hashes(of_members, none[has_member]) & MEMBER_BITS
    return hashes


def neighbours(hashes: Ints, units: Ranges) -> Ints:
    """Return the distinct hashes, ascending, of the units in a range beside each one's.

    ``units`` has a range for each of ``hashes``, counted from its own unit, which is 0.
    """
    if units.sizes.sum() <= _FEW_UNITS:
        # Grouping would cost more than the rest.
        return np.unique(hashes[units.owners] + units.rows()[1] * UNIT_STEP)
    # Most records of a key and batch have one range: a table without keys is grouped by hashing.
    table = pa.table({"low": hashes + units.low * UNIT_STEP, "size": units.sizes})
    distinct = table.group_by(["low", "size"]).aggregate([])
    # Hashes of a range lie UNIT_STEP apart.
    low, size = np.asarray(distinct["low"]), np.asarray(distinct["size"])
    ranges = Ranges(np.zeros_like(size), size)
    return np.unique(low[ranges.owners] + ranges.rows()[1] * UNIT_STEP)


def _bytes(chunk: pa.StringArray) -> tuple[Ints, NDArray[np.uint8]]:
    """Where each key begins and ends, and the bytes of all."""
    _, begins, data = chunk.buffers()
    offsets = np.frombuffer(begins, np.int32)[chunk.offset : chunk.offset + len(chunk) + 1]
    # Arrow has no buffer where all keys are empty.
    text = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
    return offsets.astype(np.int64) - int(offsets[0]), text[offsets[0] : offsets[-1]]


def _hashed(offsets: Ints, data: NDArray[np.uint8]) -> Ints:
    """The hash of each key between two neighbours of ``offsets``.

    Byte i of a key is taken ``_BASE ** (i + 1)`` times, so where a key lies does not matter.
    """
    data = data[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(int(lengths.max()) + 1, _BASE))
    byte_in_key = np.arange(len(data)) - np.repeat(offsets[:-1], lengths)
    sums = np.zeros(len(data) + 1, dtype=np.uint64)
    # One more than the byte, so that zero bytes count too. Sums wrap, and the difference of two
    # is right all the same: both are modulo 2**64.
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[byte_in_key], out=sums[1:])
    hashes = sums[offsets[1:]] - sums[offsets[:-1]]
    # Low bits of such a sum depend on low bits only; this carries high ones down, one to one.
    for _ in range(2):
        hashes = (hashes ^ (hashes >> _HALF)) * _MIX
    hashes ^= hashes >> _HALF
    return hashes.view(np.int64)
