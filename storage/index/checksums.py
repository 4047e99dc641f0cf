"""Checksums behind each value of an index, so that a bit that flipped is never served.

    value  =  content  checksum of the record key  checksum of all before it

Both are CRC-32C from register 0, 4 bytes, little endian. The register of a CRC that has taken in
its own value is 0 again. So values one behind the other leave 0 in the register if all are right,
and those of a page are checked by one call over their bytes. (The library starts from the
complement of its argument.)

A key is checked where it decides something: the records on both sides of where a search ends, and
on both sides of the end of a range. What lies between two records that are in a range is in it,
for records lie in the order of their keys.
"""

import operator
from collections.abc import Iterator, Sequence
from functools import partial

import lmdb
import numpy as np
from google_crc32c import extend

#: Bytes behind the content of a value.
CHECKSUM_BYTES = 8
_ONE = CHECKSUM_BYTES // 2
_ZERO_REGISTER = 0xFFFFFFFF

#: A record of the index: record key and value.
Record = tuple[bytes, bytes]

_register_of = partial(extend, _ZERO_REGISTER)
#: Values without their checksums, one by one and without a step in Python.
content_of = operator.itemgetter(slice(None, -CHECKSUM_BYTES))


def with_checksums(keys: Sequence[bytes], contents: Sequence[bytes]) -> Iterator[bytes]:
    """The values of records with these keys and contents."""
    checksums = np.empty((len(keys), 2), "<u4")
    checksums[:, 0] = ~np.fromiter(map(_register_of, keys), np.uint32, len(keys))
    of_keys = checksums[:, 0].copy().view(f"V{_ONE}").tolist()
    begun = map(_register_of, contents)
    checksums[:, 1] = ~np.fromiter(map(extend, begun, of_keys), np.uint32, len(keys))
    both = checksums.view(f"V{CHECKSUM_BYTES}").ravel().tolist()
    return map(operator.add, contents, both)


def with_checksum(key: bytes, content: bytes) -> bytes:
    """The value of one record."""
    (value,) = with_checksums([key], [content])
    return value


def check_values(values: Sequence[bytes]) -> None:
    """Compare values with their checksums, not their keys.

    Raises:
        lmdb.CorruptedError: one of them is not what was written.
    """
    if extend(_ZERO_REGISTER, b"".join(values)) != _ZERO_REGISTER:
        message = "the checksum of a record is wrong"
        raise lmdb.CorruptedError(message)


def check(records: Sequence[Record]) -> None:
    """Compare records with their checksums, their keys as well.

    Raises:
        lmdb.CorruptedError: one of them is not what was written.
    """
    check_values([value for _, value in records])
    for key, value in records:
        if _register_of(key) ^ _ZERO_REGISTER != int.from_bytes(
            value[-CHECKSUM_BYTES:-_ONE], "little"
        ):
            message = "the checksum of a record's key is wrong"
            raise lmdb.CorruptedError(message)


def content(value: bytes) -> bytes:
    """A value without its checksums."""
    return value[:-CHECKSUM_BYTES]


def checked_content(key: bytes, value: bytes | None) -> bytes | None:
    """A value that was looked up, compared with its checksums and without them; None stays None.

    Raises:
        lmdb.CorruptedError: it is not what was written.
    """
    if value is None:
        return None
    check([(key, value)])
    return content(value)
