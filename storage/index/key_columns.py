"""Record keys of whole Arrow columns at once; the layout is in ``oriel.storage.key_codec``."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.key_codec import SHORT_BYTES_MAX, SUFFIX_BYTES, TIME_BIAS, TIME_BYTES, key_part


def encode_columns(
    keys: Any, starts_ms: npt.NDArray[np.int64], ends_ms: npt.NDArray[np.int64]
) -> Any:
    """Record keys of whole columns: an Arrow string array and two int64 arrays give a binary array.

    Only keys with a NUL byte or of more than 493 bytes are looked at one by one.
    """
    parts = keys.cast(pa.binary())
    odd = pc.or_(
        pc.match_substring(keys, "\x00"), pc.greater(pc.binary_length(parts), SHORT_BYTES_MAX)
    )
    if pc.any(odd).as_py():
        rewritten = [key_part(part) for part in parts.filter(odd).to_pylist()]
        parts = pc.replace_with_mask(parts, odd, pa.array(rewritten, pa.binary()))
    return pc.binary_join_element_wise(parts, _suffixes(starts_ms, ends_ms), b"")


def _suffixes(starts_ms: npt.NDArray[np.int64], ends_ms: npt.NDArray[np.int64]) -> Any:
    suffixes = np.zeros((len(starts_ms), SUFFIX_BYTES), np.uint8)
    bias = np.uint64(TIME_BIAS)
    for column, times in ((2, starts_ms), (2 + TIME_BYTES, ends_ms)):
        big_endian = (times.view(np.uint64) ^ bias).astype(">u8")
        suffixes[:, column : column + TIME_BYTES] = big_endian.view(np.uint8).reshape(-1, 8)
    buffer = pa.py_buffer(suffixes.tobytes())
    fixed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(SUFFIX_BYTES), len(starts_ms), [None, buffer]
    )
    return fixed.cast(pa.binary())
