"""Which of several services has a key: shards, by a hash that routers can compute.

The hash is MurmurHash2 of the key's UTF-8 bytes, 32 bits, seed 0. Shard i of n has the i-th of n
equal parts of its range. This equals ``split_clients`` of nginx, so such a router sends a request
to the shard that has its key (docs/decisions/0047). Shards are independent of key groups, by which
the pipeline divides its work. Each store has its own number of key groups.
"""

import re
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_SHARD = re.compile(r"(\d{1,4})/(\d{1,4})", re.ASCII)
_FACTOR = 0x5BD1E995
_MASK = 0xFFFFFFFF
_BITS = 32


@dataclass(frozen=True)
class Shard:
    """One of ``count`` parts of all keys. ``number`` starts at 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as ``2/8``.

        Raises:
            ValueError: the string is not a shard.
        """
        match = _SHARD.fullmatch(text)
        if match and 1 <= int(match[1]) <= int(match[2]):
            return cls(int(match[1]), int(match[2]))
        message = (
            f"{text!r} is not a shard. Write NUMBER/COUNT with NUMBER from 1 to COUNT, for "
            "example 2/8"
        )
        raise ValueError(message)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def is_all(self) -> bool:
        """True if the shard has every key."""
        return self.count == 1

    def owner(self, key: str) -> int:
        """Return the number of the shard that has ``key``, of ``count`` shards."""
        return (_hashed(key.encode()) * self.count >> _BITS) + 1

    def mask(self, keys: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the keys that this shard has. ``keys`` are strings without null."""
        chunks = keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]
        hashes = [_hashes(chunk) for chunk in chunks]
        every = np.concatenate([np.zeros(0, np.uint32), *hashes]).astype(np.uint64)
        owners = every * np.uint64(self.count) >> np.uint64(_BITS)
        is_own: npt.NDArray[np.bool_] = owners == np.uint64(self.number - 1)
        return is_own


#: The shard of a service that has all keys.
ALL_KEYS = Shard(1, 1)


def _hashed(key: bytes) -> int:
    """Return MurmurHash2 of one key."""
    hashed = len(key)
    tail = len(key) & ~3
    for start in range(0, tail, 4):
        block = int.from_bytes(key[start : start + 4], "little") * _FACTOR & _MASK
        block = (block ^ block >> 24) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ block
    if tail < len(key):
        hashed = (hashed ^ int.from_bytes(key[tail:], "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def _hashes(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Return MurmurHash2 of each key. Each step hashes one block of all long enough keys."""
    coded = pc.dictionary_encode(keys)
    distinct = coded.dictionary.cast(pa.large_binary())
    _, begins, content = distinct.buffers()
    offsets = np.frombuffer(begins, np.int64)[distinct.offset :][: len(distinct) + 1]
    # Zeros after the last key, because a tail is read as a block and then cut.
    data = np.frombuffer(bytes(content or b"") + bytes(4), np.uint8).astype(np.uint32)
    lengths = np.diff(offsets)
    longest_first = np.argsort(-lengths, kind="stable")
    starts, lengths = offsets[:-1][longest_first], lengths[longest_first]
    factor = np.uint32(_FACTOR)
    hashes = lengths.astype(np.uint32)

    def blocks(of: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
        low = data[of] | data[of + 1] << np.uint32(8)
        whole: npt.NDArray[np.uint32] = (
            low | data[of + 2] << np.uint32(16) | data[of + 3] << np.uint32(24)
        )
        return whole

    for block in range(int(lengths.max(initial=0)) // 4):
        long = slice(np.searchsorted(-lengths, -4 * (block + 1), side="right"))
        mixed = blocks(starts[long] + 4 * block) * factor
        mixed = (mixed ^ mixed >> np.uint32(24)) * factor
        hashes[long] = hashes[long] * factor ^ mixed
    tail_lengths = lengths % 4
    has_tail = tail_lengths > 0
    tails = blocks((starts + lengths - tail_lengths)[has_tail])
    kept = (np.uint32(1) << (8 * tail_lengths[has_tail]).astype(np.uint32)) - np.uint32(1)
    hashes[has_tail] = (hashes[has_tail] ^ tails & kept) * factor
    hashes = (hashes ^ hashes >> np.uint32(13)) * factor
    hashes ^= hashes >> np.uint32(15)
    by_key: npt.NDArray[np.uint32] = np.empty_like(hashes)
    by_key[longest_first] = hashes
    if not len(keys):
        return by_key
    places = np.asarray(coded.indices)
    repeated: npt.NDArray[np.uint32] = by_key[places]
    return repeated
