"""A checksum behind each value of an index, so that a bit that flipped is never served.

    value  =  content  4 bytes, little endian: CRC-32C of record key and content, from register 0

The register of a CRC that has taken in its own value is 0 again. So records one behind the other,
each with its checksum, leave 0 in the register if all are right, and a page of them is checked by
one call over their bytes. Record key and content are checked together: a window that comes under
another key is found as well. (The library starts from the complement of its argument.)
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import lmdb
import numpy as np
from google_crc32c import extend

#: Bytes behind the content of a value.
CHECKSUM_BYTES = 4
_ZERO_REGISTER = 0xFFFFFFFF

#: A record of the index: record key and value.
Record = tuple[bytes, bytes]


def with_checksums(keys: Sequence[bytes], contents: Sequence[bytes]) -> Iterator[bytes]:
    """The values of records with these keys and contents."""
    begun = map(partial(extend, _ZERO_REGISTER), keys)
    registers = np.fromiter(map(extend, begun, contents), np.uint32, len(keys))
    checksums = (registers ^ np.uint32(_ZERO_REGISTER)).astype("<u4").view("V4").tolist()
    return map(operator.add, contents, checksums)


def with_checksum(key: bytes, content: bytes) -> bytes:
    """The value of one record."""
    (value,) = with_checksums([key], [content])
    return value


def check(records: Iterable[Record]) -> None:
    """Compare records with their checksums.

    Raises:
        lmdb.CorruptedError: one of them is not what was written.
    """
    if extend(_ZERO_REGISTER, b"".join(chain.from_iterable(records))) != _ZERO_REGISTER:
        message = "a record does not have its checksum"
        raise lmdb.CorruptedError(message)


def content(value: bytes) -> bytes:
    """A value without its checksum."""
    return value[:-CHECKSUM_BYTES]


def checked_content(key: bytes, value: bytes | None) -> bytes | None:
    """A value that was looked up, compared with its checksum and without it; None stays None.

    Raises:
        lmdb.CorruptedError: it is not what was written.
    """
    if value is None:
        return None
    check([(key, value)])
    return content(value)
