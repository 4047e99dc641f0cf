"""Checksums after each value of an index, so that a flipped bit is detected and not served.

    value  =  content  checksum of the record key  checksum of the bytes before it

Both checksums are CRC-32C with an initial register of 0. They have 4 bytes, little endian. After a
CRC has processed its own checksum, its register is 0 again. So one call over the concatenated
values of a page verifies all values. The register is 0 if they are correct. The arguments and
results of the library are complements of the register.

A record key is verified where it decides something. At the end of a search or of a range, the
records on both sides are verified. Records between two verified records of a range belong to the
range, because records are in key order.
"""

import operator
from collections.abc import Iterator, Sequence
from functools import partial

import lmdb
import numpy as np
from google_crc32c import extend

#: Bytes after the content of a value.
CHECKSUM_BYTES = 8
_ONE = CHECKSUM_BYTES // 2
_ZERO_REGISTER = 0xFFFFFFFF

#: A record of the index: record key and value.
Record = tuple[bytes, bytes]

_register_of = partial(extend, _ZERO_REGISTER)
#: Returns the content of a value. The getter runs without Python code per value.
content_of = operator.itemgetter(slice(None, -CHECKSUM_BYTES))


def with_checksums(keys: Sequence[bytes], contents: Sequence[bytes]) -> Iterator[bytes]:
    """Return an iterator over the values of records with these keys and contents."""
    checksums = np.empty((len(keys), 2), "<u4")
    checksums[:, 0] = ~np.fromiter(map(_register_of, keys), np.uint32, len(keys))
    of_keys = checksums[:, 0].copy().view(f"V{_ONE}").tolist()
    begun = map(_register_of, contents)
    checksums[:, 1] = ~np.fromiter(map(extend, begun, of_keys), np.uint32, len(keys))
    both = checksums.view(f"V{CHECKSUM_BYTES}").ravel().tolist()
    return map(operator.add, contents, both)


def with_checksum(key: bytes, content: bytes) -> bytes:
    """Return the value of one record."""
    (value,) = with_checksums([key], [content])
    return value


def check_values(values: Sequence[bytes]) -> None:
    """Verify the checksums of values. The record keys are not verified.

    Raises:
        lmdb.CorruptedError: a value is not the value that was written.
    """
    if extend(_ZERO_REGISTER, b"".join(values)) != _ZERO_REGISTER:
        message = "the checksum of a record is wrong"
        raise lmdb.CorruptedError(message)


def check(records: Sequence[Record]) -> None:
    """Verify the checksums of records, including their keys.

    Raises:
        lmdb.CorruptedError: a record is not the record that was written.
    """
    check_values([value for _, value in records])
    for key, value in records:
        if _register_of(key) ^ _ZERO_REGISTER != int.from_bytes(
            value[-CHECKSUM_BYTES:-_ONE], "little"
        ):
            message = "the checksum of a record's key is wrong"
            raise lmdb.CorruptedError(message)


def content(value: bytes) -> bytes:
    """Return a value without its checksums."""
    return value[:-CHECKSUM_BYTES]


def checked_content(key: bytes, value: bytes | None) -> bytes | None:
    """Verify the value of a key and return it without its checksums. None stays None.

    Raises:
        lmdb.CorruptedError: the value is not the value that was written.
    """
    if value is None:
        return None
    check([(key, value)])
    return content(value)
