"""Sessions by length class, so that a search by session end reads few unwanted sessions.

    key in ``lengths``  =  key part  00  class marker  window start  window end

The sessions of a key can overlap and can have any length. So sessions that end at E or later can
start at any time. Length classes bound their starts:

- A session of class c is shorter than 2**c ms, and has about 2**(c-1) ms or more. A length of 0 has
  class 0.

- If a session of class c ends at E or later, it starts after E - 2**c.

- If it starts at about E - 2**(c-1) or later, it ends at E or later. So a search in one class finds
  unwanted sessions only in the first half of the span before E.

The class marker replaces the second byte of the 00 00 in a record key. Markers are 02 or greater.
So they differ from 00 00, and from 00 01 and 00 FF in longer strings (``oriel.storage.key_codec``).
In composite keys, 00 02 ends a string component, but no key starts with all bytes of another
composite key.
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
#: The classes are the binary exponents of 64-bit integers as floats: 0 to 64.
_MARKS = pa.array([bytes([_FIRST_MARK + length_class]) for length_class in range(65)])


def length_keys(keys: list[bytes]) -> list[bytes]:
    """Return the keys in ``lengths`` for these record keys."""
    records = pa.array(keys, pa.binary())
    times = pc.binary_slice(records, -_TIMES_BYTES)
    starts, ends = np.frombuffer(b"".join(times.to_pylist()), ">u8").reshape(-1, 2).T
    # Rounding to a float can move a length to the next class, but not to a lower one.
    classes = np.frexp((ends - starts).astype(np.float64))[1]
    marks = _MARKS.take(pa.array(classes))
    parts = pc.binary_slice(records, 0, -_TIMES_BYTES - 1)
    joined: list[bytes] = pc.binary_join_element_wise(parts, marks, times, b"").to_pylist()
    return joined


def length_key(key: bytes) -> bytes:
    """Return the key in ``lengths`` for one record key."""
    start = int.from_bytes(key[-_TIMES_BYTES:-TIME_BYTES], "big")
    end = int.from_bytes(key[-TIME_BYTES:], "big")
    mark = _FIRST_MARK + math.frexp(float(end - start))[1]
    return key[: -_TIMES_BYTES - 1] + bytes([mark]) + key[-_TIMES_BYTES:]


def class_prefix(prefix: bytes, length_class: int) -> bytes:
    """Return the first bytes in ``lengths`` of all sessions of a key and class."""
    return prefix[:-1] + bytes([_FIRST_MARK + length_class])


def classes_of(cursor: "lmdb.Cursor[bytes]", prefix: bytes) -> Iterator[int]:
    """Yield the length classes in which a key has sessions, ascending. Each needs one search."""
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
    """Return the maximum length in ms of a session of a class."""
    return (1 << length_class) - 1
