"""Encode and decode the keys of windows in the ordered index, for single keys and whole columns.

    record key  =  key part  00 00  window start  window end
    key part    =  the escaped bytes of the key                                (short: <= 493 bytes)
                |  the first <= 459 bytes of these  00 01  SHA-256 of the key  (long keys)
    window start, window end  =  8 bytes each, big endian, ms + 2**63

Escaped bytes (``KeyType.escaped``) have the order of the keys. In them, each 00 is before an FF or
02. A string has its UTF-8 bytes, with each 00 written as 00 FF. docs/reference/keys.md has the
bytes of the other types.

These bytes order windows by key, then start, then end:

- For two short keys, the first escaped byte that differs decides.

- A string is before each longer string that starts with it. It continues with 00 00. The longer
  string continues with a byte from 01 on, or with 00 FF, which are greater.

- No prefix of a key (key part and 00 00) is the start of another prefix, so the windows of a key
  are next to each other. A short prefix has 00 00 at its end only, and all digests have one length.

- Times have one length and are big endian. Adding 2**63 turns signed into unsigned order, so
  starts below zero are before zero.

LMDB keys have at most 511 bytes, so a long key has a digest. It keeps its first bytes, so it stays
near its neighbors and prefix scans find it. Long keys with the same first bytes are in the order of
their digests. The bytes 00 01 distinguish them from short keys, which have only 00 00, 00 02 and
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

#: Maximum bytes of one LMDB key (compile-time constant of LMDB).
LMDB_KEY_BYTES_MAX = 511

#: Bytes of one time, and the number that is added to it.
TIME_BYTES = 8
_TIME_BIAS = 2**63

_END = b"\x00\x00"
_LONG = b"\x00\x01"
_AFTER_END = b"\x00\x01"
#: Bytes after the key part.
_SUFFIX_BYTES = len(_END) + 2 * TIME_BYTES
_DIGEST_BYTES = 32
#: Maximum bytes of an escaped key that is not shortened.
_SHORT_BYTES_MAX = LMDB_KEY_BYTES_MAX - _SUFFIX_BYTES
#: Maximum bytes that a long key keeps.
_PREFIX_BYTES_MAX = _SHORT_BYTES_MAX - len(_LONG) - _DIGEST_BYTES
#: One byte longer than the greatest end, so also greater.
_AFTER_ALL_ENDS = b"\xff" * (TIME_BYTES + 1)


class KeySpan(NamedTuple):
    """The record keys of a range of keys: ``low <= record key < high``, and few of other keys.

    ``has`` returns True for each key of the range. None if all keys in between belong to it.
    """

    low: bytes
    high: bytes
    has: Callable[[str], bool] | None


def key_prefix(key: str, key_type: KeyType) -> bytes:
    """Return the first bytes of each window of ``key``, and of no other key.

    Raises:
        KeyTypeMismatch: the string is not a key of this type.
    """
    return _key_part(key, key_type.escaped(key)) + _END


def record_key(key: str, window_start_ms: int, window_end_ms: int, key_type: KeyType) -> bytes:
    """Return the full record key of one window.

    Raises:
        KeyTypeMismatch: the string is not a key of this type.
    """
    prefix = key_prefix(key, key_type)
    return prefix + encoded_time(window_start_ms) + encoded_time(window_end_ms)


def lower_bound(prefix: bytes, from_ms: int) -> bytes:
    """Return the least record key of this key prefix with a start >= ``from_ms``."""
    return prefix + encoded_time(from_ms)


def upper_bound(prefix: bytes, to_ms: int) -> bytes:
    """Return bytes between the windows of this key prefix with start <= ``to_ms`` and the rest."""
    return after_starts(prefix, encoded_time(to_ms))


def after_starts(prefix: bytes, encoded_start: bytes) -> bytes:
    """Return ``upper_bound`` for an encoded start."""
    return prefix + encoded_start + _AFTER_ALL_ENDS


def start_of(encoded: bytes) -> bytes:
    """Return the encoded start of a record key."""
    return encoded[-2 * TIME_BYTES : -TIME_BYTES]


def after_key(prefix: bytes) -> bytes:
    """Return bytes after each window of this key prefix, and not after the next key."""
    # 00 01 in place of 00 00: the next key continues with 00 01 (a long key), 00 FF or more.
    return prefix[: -len(_END)] + _AFTER_END


def prefix_of(encoded: bytes) -> bytes:
    """Return the key prefix of a record key."""
    return encoded[: -2 * TIME_BYTES]


def is_long(prefix: bytes) -> bool:
    """Return True if this key prefix has a digest instead of the whole key."""
    # A short key part never has 00 01. A long key part has it directly before the digest.
    marker = len(prefix) - len(_END) - _DIGEST_BYTES - len(_LONG)
    return len(prefix) > _PREFIX_BYTES_MAX and prefix[marker : marker + len(_LONG)] == _LONG


def window_times(encoded: bytes) -> tuple[int, int]:
    """Return the window start and end of a record key, in ms."""
    start = int.from_bytes(encoded[-2 * TIME_BYTES : -TIME_BYTES], "big")
    end = int.from_bytes(encoded[-TIME_BYTES:], "big")
    return start - _TIME_BIAS, end - _TIME_BIAS


def decode_prefix(prefix: bytes, key_type: KeyType) -> str | None:
    """Return the key of a key prefix, or None for a long key."""
    return None if is_long(prefix) else key_type.key_of(prefix[: -len(_END)])


def scan_start(prefix: str, key_type: KeyType) -> bytes:
    """Return the first bytes of the record keys of all keys that start with ``prefix``.

    Raises:
        KeyTypeMismatch: keys of this type with this prefix are not next to each other.
    """
    return _first_bytes(key_type.escaped_prefix(prefix))


def key_span(key_from: str | None, key_to: str | None, prefix: str, key_type: KeyType) -> KeySpan:
    """Return the range of the keys from ``key_from`` to ``key_to`` that start with ``prefix``.

    Both bounds are inclusive. Without a bound, the range is open.

    Raises:
        KeyTypeMismatch: a bound is not a key of this type, or the keys are not next to each other.
    """
    beginning = key_type.escaped_prefix(prefix)
    low, high = _first_bytes(beginning), _after_all(_first_bytes(beginning))
    # If a bound is longer than the bytes that a long key keeps, the record keys on both of its
    # sides are mixed. Then only the full keys decide.
    is_mixed = len(beginning) > _PREFIX_BYTES_MAX
    least, greatest = b"", None
    if key_from is not None:
        least = key_type.escaped(key_from)
        is_short = len(least) <= _PREFIX_BYTES_MAX
        low = max(low, least + _END if is_short else _first_bytes(least))
        is_mixed |= not is_short
    if key_to is not None:
        greatest = key_type.escaped(key_to)
        is_short = len(greatest) <= _PREFIX_BYTES_MAX
        high = min(
            high, after_key(greatest + _END) if is_short else _after_all(_first_bytes(greatest))
        )
        is_mixed |= not is_short
    if not is_mixed:
        return KeySpan(low, high, None)

    def has(key: str) -> bool:
        escaped = key_type.escaped(key)
        is_within = escaped >= least and (greatest is None or escaped <= greatest)
        return is_within and escaped.startswith(beginning)

    return KeySpan(low, high, has)


def encoded_time(time_ms: int) -> bytes:
    """Encode a start or end for a record key, with the order of the times."""
    return (time_ms + _TIME_BIAS).to_bytes(TIME_BYTES, "big")


def record_keys(
    keys: Any,
    starts_ms: npt.NDArray[np.int64],
    ends_ms: npt.NDArray[np.int64],
    key_type: KeyType,
) -> Any:
    """Return the ``record_key`` of each row as a binary array.

    Args:
        keys: Arrow string array of valid keys. Only keys of more than 493 bytes are encoded one
            by one.
        starts_ms: starts of the windows, as many as keys.
        ends_ms: ends of the windows, as many as keys.
        key_type: the type of the keys.
    """
    parts = key_type.escaped_column(keys)
    is_long_key = pc.greater(pc.binary_length(parts), _SHORT_BYTES_MAX)
    if pc.any(is_long_key).as_py():
        long_keys = zip(
            keys.filter(is_long_key).to_pylist(), parts.filter(is_long_key).to_pylist(), strict=True
        )
        shortened = [_key_part(key, escaped) for key, escaped in long_keys]
        parts = pc.replace_with_mask(parts, is_long_key, pa.array(shortened, pa.binary()))
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
    """Return the escaped bytes of a key, shortened and with a digest if it is long."""
    if len(escaped) <= _SHORT_BYTES_MAX:
        return escaped
    return _first_bytes(escaped) + _LONG + hashlib.sha256(key.encode()).digest()


def _first_bytes(escaped: bytes) -> bytes:
    """Return at most the bytes that a long key keeps. A 00 and its next byte stay together."""
    cut = escaped[:_PREFIX_BYTES_MAX]
    return cut[:-1] if cut.endswith(b"\x00") else cut


def _after_all(beginning: bytes) -> bytes:
    """Return bytes after each record key that starts with these bytes."""
    return beginning.ljust(LMDB_KEY_BYTES_MAX, b"\xff")
