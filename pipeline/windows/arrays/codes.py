"""Keys and other values as small integers in their order, and where runs of them begin."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays.types import Flags, Ints


def coded_keys(*columns: pa.ChunkedArray) -> tuple[list[Ints], pa.Array]:
    """Number the keys of several columns alike, in the order of their UTF-8 bytes.

    Returns the codes of each column, and the key of each code.
    """
    chunks = [chunk for column in columns for chunk in column.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # More text than one array can hold.
        encoded = encoded.combine_chunks()
    codes, keys = ranked(encoded)
    ends = np.cumsum([len(column) for column in columns])
    return np.split(codes, ends[:-1]), keys


def ranked(encoded: pa.DictionaryArray) -> tuple[Ints, pa.Array]:
    """Return (rank of each value, the distinct values by rank); strings go by their bytes."""
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.asarray(order)] = np.arange(len(order))
    return rank[np.asarray(encoded.indices)], encoded.dictionary.take(order)


def heads(*columns: Ints) -> Flags:
    """Where a run of equal rows begins, in columns sorted together."""
    length = len(columns[0])
    head = np.ones(length, dtype=np.bool_)
    if length:
        head[1:] = False
        for column in columns:
            head[1:] |= column[1:] != column[:-1]
    return head
