"""How a window's key is written in the ordered index, one by one and for whole columns at once.

    record key  =  key part  00 00  window start  window end
    key part    =  the key's escaped bytes, as its type has them               (short: <= 493 bytes)
                |  the first <= 459 bytes of these  00 01  SHA-256 of the key  (long keys)
    window start, window end  =  8 bytes each, big endian, ms + 2**63

Escaped bytes (``KeyType.escaped``) are in the order of the keys, and have no 00 but in front of FF
or 02: the UTF-8 bytes of a text with each 00 written as 00 FF, and what docs/reference/keys.md says
of the other types. Compared as bytes this orders windows by key, then start, then end. Why:

- Of two short keys the first byte in which their escaped bytes differ decides.
- A text that is a prefix of another comes first: it goes on with 00 00, the other one with a byte
  from 01 on or with 00 FF, and both are greater.
- No key's prefix (key part and 00 00) begins another's, so windows of a key lie together: in a
  short one 00 00 is at the end only, and the digests of long ones have one length.
- Times have one length and a big-endian form. Adding 2**63 turns signed into unsigned order, so
  starts below zero come before zero.

Why SHA-256: LMDB's keys have at most 511 bytes. A long key keeps its first bytes, so it stays
near its neighbours and prefix scans find it; among long keys with the same first bytes the
order is that of the digests. 00 01 tells it from every short key, which has only 00 00, 00 02 and
00 FF. The full key is in the value, and readers compare it.
"""

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.key_types import KeyType

#: Most bytes of one LMDB key (compile-time constant of LMDB).
LMDB_KEY_BYTES_MAX = 511

#: Bytes of one time, and what is added to it.
TIME_BYTES = 8
_TIME_BIAS = 2**63

_END = b"\x00\x00"
_LONG = b"\x00\x01"
_AFTER_END = b"\x00\x01"
#: Bytes behind the key part.
_SUFFIX_BYTES = len(_END) + 2 * TIME_BYTES
_DIGEST_BYTES = 32
#: Most bytes of an escaped key that is written whole.
_SHORT_BYTES_MAX = LMDB_KEY_BYTES_MAX - _SUFFIX_BYTES
#: Most of its bytes that a long key keeps.
_PREFIX_BYTES_MAX = _SHORT_BYTES_MAX - len(_LONG) - _DIGEST_BYTES
#: One byte longer than the greatest end, so greater than it, too.
_AFTER_ALL_ENDS = b"\xff" * (TIME_BYTES + 1)


class KeySpan(NamedTuple):
    """Record keys of a range of keys: all ``low <= record key < high``, and few of other keys.

    ``has`` says which keys there are meant; None: all.
    """

    low: bytes
    high: bytes
    has: Callable[[str], bool] | None


def key_prefix(key: str, key_type: KeyType) -> bytes:
    """The bytes that every window of ``key``, and of no other key, begins with.

    Raises:
        UnfitKey: the text is no key of this type.
    """
    return _key_part(key, key_type.escaped(key)) + _END


def record_key(key: str, window_start_ms: int, window_end_ms: int, key_type: KeyType) -> bytes:
    """The full key of one window.

    Raises:
        UnfitKey: the text is no key of this type.
    """
    prefix = key_prefix(key, key_type)
    return prefix + encoded_time(window_start_ms) + encoded_time(window_end_ms)


def lower_bound(prefix: bytes, from_ms: int) -> bytes:
    """The least bytes that a window of this key prefix with start >= ``from_ms`` can have."""
    return prefix + encoded_time(from_ms)


def upper_bound(prefix: bytes, to_ms: int) -> bytes:
    """Greater than each window of this key prefix with start <= ``to_ms``, less than the others."""
    return after_starts(prefix, encoded_time(to_ms))


def after_starts(prefix: bytes, encoded_start: bytes) -> bytes:
    """``upper_bound`` for a start as it is written in record keys."""
    return prefix + encoded_start + _AFTER_ALL_ENDS


def start_of(encoded: bytes) -> bytes:
    """The start of a record key as it is written there."""
    return encoded[-2 * TIME_BYTES : -TIME_BYTES]


def after_key(prefix: bytes) -> bytes:
    """Greater than every window of this key prefix, at most equal to the next key's first."""
    # 00 01 in place of 00 00: the next key goes on with 00 01 (a long one), 00 FF or more.
    return prefix[: -len(_END)] + _AFTER_END


def prefix_of(encoded: bytes) -> bytes:
    """The key prefix of a record key."""
    return encoded[: -2 * TIME_BYTES]


def is_long(prefix: bytes) -> bool:
    """Whether this key prefix holds a digest instead of the whole key."""
    # A short key part never holds 00 01, a long one has it right before the digest.
    marker = len(prefix) - len(_END) - _DIGEST_BYTES - len(_LONG)
    return len(prefix) > _PREFIX_BYTES_MAX and prefix[marker : marker + len(_LONG)] == _LONG


def window_times(encoded: bytes) -> tuple[int, int]:
    """Window start and end, in ms, of a record key."""
    start = int.from_bytes(encoded[-2 * TIME_BYTES : -TIME_BYTES], "big")
    end = int.from_bytes(encoded[-TIME_BYTES:], "big")
    return start - _TIME_BIAS, end - _TIME_BIAS


def decode_prefix(prefix: bytes, key_type: KeyType) -> str | None:
    """The key of a key prefix, or None for a long key."""
    return None if is_long(prefix) else key_type.key_of(prefix[: -len(_END)])


def scan_start(prefix: str, key_type: KeyType) -> bytes:
    """Where a scan for keys beginning with ``prefix`` starts; the record keys of all begin so.

    Raises:
        UnfitKey: keys of this type that begin so don't lie together.
    """
    return _cut(key_type.escaped_prefix(prefix))


def key_span(key_from: str | None, key_to: str | None, prefix: str, key_type: KeyType) -> KeySpan:
    """The record keys of keys from ``key_from`` to ``key_to``, both inclusive, None: no bound.

    Only keys that begin with ``prefix`` are meant.

    Raises:
        UnfitKey: a bound is no key of this type, or keys that begin so don't lie together.
    """
    beginning = key_type.escaped_prefix(prefix)
    low, high = _cut(beginning), _after_all(_cut(beginning))
    # Where a bound is longer than what a long key keeps of itself, the record keys of keys on
    # both of its sides are mixed, and only the keys themselves tell.
    is_mixed = len(beginning) > _PREFIX_BYTES_MAX
    least, greatest = b"", None
    if key_from is not None:
        least = key_type.escaped(key_from)
        is_short = len(least) <= _PREFIX_BYTES_MAX
        low = max(low, least + _END if is_short else _cut(least))
        is_mixed |= not is_short
    if key_to is not None:
        greatest = key_type.escaped(key_to)
        is_short = len(greatest) <= _PREFIX_BYTES_MAX
        high = min(high, after_key(greatest + _END) if is_short else _after_all(_cut(greatest)))
        is_mixed |= not is_short
    if not is_mixed:
        return KeySpan(low, high, None)

    def has(key: str) -> bool:
        escaped = key_type.escaped(key)
        is_within = escaped >= least and (greatest is None or escaped <= greatest)
        return is_within and escaped.startswith(beginning)

    return KeySpan(low, high, has)


def encoded_time(time_ms: int) -> bytes:
    """A start or end as it is written in a record key; compares as the times do."""
    return (time_ms + _TIME_BIAS).to_bytes(TIME_BYTES, "big")


def record_keys(
    keys: Any,
    starts_ms: npt.NDArray[np.int64],
    ends_ms: npt.NDArray[np.int64],
    key_type: KeyType,
) -> Any:
    """The ``record_key`` of each row of whole columns.

    Takes an Arrow string array of keys that fit the type and two int64 arrays of its length, and
    gives a binary array. Only keys of more than 493 bytes are looked at one by one.
    """
    parts = key_type.escaped_column(keys)
    is_long_key = pc.greater(pc.binary_length(parts), _SHORT_BYTES_MAX)
    if pc.any(is_long_key).as_py():
        long_keys = zip(
            keys.filter(is_long_key).to_pylist(), parts.filter(is_long_key).to_pylist(), strict=True
        )
        cut_off = [_key_part(key, escaped) for key, escaped in long_keys]
        parts = pc.replace_with_mask(parts, is_long_key, pa.array(cut_off, pa.binary()))
    # 00 00, start and end of each row, as one fixed-size array over a byte matrix.
    suffixes = np.zeros((len(starts_ms), _SUFFIX_BYTES), np.uint8)
    for column, times_ms in ((len(_END), starts_ms), (len(_END) + TIME_BYTES, ends_ms)):
        # In two's complement, flipping the sign bit adds 2**63 modulo 2**64.
        big_endian = (times_ms.view(np.uint64) ^ np.uint64(_TIME_BIAS)).astype(">u8")
        suffixes[:, column : column + TIME_BYTES] = big_endian.view(np.uint8).reshape(-1, 8)
    buffers = [None, pa.py_buffer(suffixes.tobytes())]
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_SUFFIX_BYTES), len(starts_ms), buffers)
    return pc.binary_join_element_wise(parts, fixed.cast(pa.binary()), b"")


def _key_part(key: str, escaped: bytes) -> bytes:
    """What stands for a key: its escaped bytes, or cut off with a digest when long."""
    if len(escaped) <= _SHORT_BYTES_MAX:
        return escaped
    return _cut(escaped) + _LONG + hashlib.sha256(key.encode()).digest()


def _cut(escaped: bytes) -> bytes:
    """At most as many bytes as a long key keeps, without tearing 00 and what follows it apart."""
    cut = escaped[:_PREFIX_BYTES_MAX]
    return cut[:-1] if cut.endswith(b"\x00") else cut


def _after_all(beginning: bytes) -> bytes:
    """Greater than every record key that begins so: none ends without a 00."""
    return beginning.ljust(LMDB_KEY_BYTES_MAX, b"\xff")
