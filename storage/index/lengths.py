"""Sessions by class of length, so that a search by ends meets few that it does not want.

    key of the database ``lengths``  =  key part  00  mark of the class  window start  window end

A key's sessions may overlap and be of any length, so those that end at E or later begin anywhere.
But those of one class, of less than 2**c ms, begin after E - 2**c, and of the class's sessions that
begin there at least those of the later half are wanted. The mark stands where a record key has the
second byte of 00 00; marks are from 02 on, so they meet neither that nor the bytes of longer texts
(00 01 and 00 FF, see ``oriel.storage.key_codec``); no other key begins with a whole composite,
behind which there may be 00 02. A zero length is of class 0.
"""

import math
from collections.abc import Iterator

import lmdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.index.checksums import check
from oriel.storage.key_codec import TIME_BYTES

_TIMES_BYTES = 2 * TIME_BYTES
_FIRST_MARK = 2
#: Classes are the exponents that floats have for 64-bit integers: 0 to 64.
_MARKS = pa.array([bytes([_FIRST_MARK + length_class]) for length_class in range(65)])


def length_keys(keys: list[bytes]) -> list[bytes]:
    """The keys in ``lengths`` of record keys."""
    records = pa.array(keys, pa.binary())
    times = pc.binary_slice(records, -_TIMES_BYTES)
    starts, ends = np.frombuffer(b"".join(times.to_pylist()), ">u8").reshape(-1, 2).T
    # Rounded to a float, a length may come into the next class, never into a lower one.
    classes = np.frexp((ends - starts).astype(np.float64))[1]
    marks = _MARKS.take(pa.array(classes))
    parts = pc.binary_slice(records, 0, -_TIMES_BYTES - 1)
    joined: list[bytes] = pc.binary_join_element_wise(parts, marks, times, b"").to_pylist()
    return joined


def length_key(key: bytes) -> bytes:
    """The key in ``lengths`` of one record key."""
    start = int.from_bytes(key[-_TIMES_BYTES:-TIME_BYTES], "big")
    end = int.from_bytes(key[-TIME_BYTES:], "big")
    mark = _FIRST_MARK + math.frexp(float(end - start))[1]
    return key[: -_TIMES_BYTES - 1] + bytes([mark]) + key[-_TIMES_BYTES:]


def class_prefix(prefix: bytes, length_class: int) -> bytes:
    """What all sessions of a key and class begin with in ``lengths``."""
    return prefix[:-1] + bytes([_FIRST_MARK + length_class])


def classes_of(cursor: "lmdb.Cursor[bytes]", prefix: bytes) -> Iterator[int]:
    """The classes of which a key has sessions, ascending; a step of the cursor for each."""
    begin, length_class = prefix[:-1], 0
    while length_class < len(_MARKS) and cursor.set_range(class_prefix(prefix, length_class)):
        check([cursor.item()])
        found = cursor.key()
        mark = found[len(begin)] if found.startswith(begin) else 0
        if not _FIRST_MARK <= mark < _FIRST_MARK + len(_MARKS):
            return
        length_class = mark - _FIRST_MARK
        yield length_class
        length_class += 1


def longest_ms(length_class: int) -> int:
    """The most ms that a session of a class has."""
    return (1 << length_class) - 1
