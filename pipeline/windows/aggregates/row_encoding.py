"""Encode partial aggregates, so that a row of a window keeps them in one binary column.

A row has one part per column, and a column of structs is one part per field. A part is its length
as 4 bytes, the least significant first, and its bytes. Null has the length 2**32 - 1 and no bytes.
Numbers and lists of numbers have the bytes of numpy, strings are UTF-8.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oriel.pipeline.windows.arrays import Ints, Ranges

_LENGTH_BYTES = 4
_NULL = 2**32 - 1
#: An array of Arrow has offsets of 32 bits, so rows with more bytes are encoded in several arrays.
_ARRAY_BYTES = 2**30

_Bytes = NDArray[np.uint8]


def encoded_rows(columns: Sequence[pa.Array]) -> pa.ChunkedArray:
    """Return the rows of columns of equal length, one binary value per row."""
    length = len(columns[0])
    if length > 1 and sum(column.nbytes for column in columns) > _ARRAY_BYTES:
        half = length // 2
        first = encoded_rows([column.slice(0, half) for column in columns])
        rest = encoded_rows([column.slice(half) for column in columns])
        return pa.chunked_array([*first.chunks, *rest.chunks])
    pieces: list[pa.Array] = []
    for leaf in _leaves(columns):
        part = _parts(leaf)
        sizes = pc.fill_null(pc.binary_length(part).cast(pa.uint32()), _NULL)
        pieces += [_fixed_width(np.asarray(sizes)), part]
    joined = pc.binary_join_element_wise(
        *pieces, pa.scalar(b""), null_handling="replace", null_replacement=b""
    )
    return pa.chunked_array([joined])


def decoded_rows(
    rows: Sequence[bytes], fields: Iterable[pa.Field], wanted: Iterable[str]
) -> pa.Table:
    """Return the columns ``wanted`` of encoded rows, which have the columns ``fields``."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    reader = _RowReader(data, np.append(0, ends[:-1])[: len(rows)])
    columns = {}
    names = set(wanted)
    for field in fields:
        column = reader.column(field.type, skip=field.name not in names)
        if column is not None:
            columns[field.name] = column
    return pa.table(columns)


def _leaves(columns: Iterable[pa.Array]) -> Iterator[pa.Array]:
    for column in columns:
        if pa.types.is_struct(column.type):
            # The fields of a null struct become null.
            yield from column.flatten()
        else:
            yield column


def _parts(leaf: pa.Array) -> pa.Array:
    """Return the bytes of each value as a binary array, null for null."""
    if pa.types.is_string(leaf.type) or pa.types.is_binary(leaf.type):
        return leaf.cast(pa.binary())
    if pa.types.is_list(leaf.type):
        # The offsets of a slice do not start at 0, but its flattened values do.
        offsets = np.asarray(leaf.offsets)
        items = np.asarray(leaf.flatten())
        return _binary((offsets - offsets[0]) * items.itemsize, items)
    numbers = leaf.cast(pa.int8()) if pa.types.is_boolean(leaf.type) else leaf
    parts = _fixed_width(np.asarray(pc.fill_null(numbers, 0)))
    return pc.if_else(leaf.is_valid(), parts, None) if leaf.null_count else parts


def _fixed_width(numbers: NDArray[np.generic]) -> pa.Array:
    return _binary(np.arange(len(numbers) + 1) * numbers.itemsize, numbers)


def _binary(offsets: Ints, items: NDArray[np.generic]) -> pa.Array:
    buffers = [
        None,
        pa.py_buffer(offsets.astype(np.int32)),
        pa.py_buffer(np.ascontiguousarray(items)),
    ]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


class _RowReader:
    """Reads the parts of all rows together, one after the other."""

    def __init__(self, data: _Bytes, begin: Ints) -> None:
        """Start at the first part of each row, by the index of its first byte in ``data``."""
        self._data = data
        self._at = begin

    def column(self, column_type: pa.DataType, *, skip: bool) -> pa.Array | None:
        """Read the next column, or skip it and return None."""
        if not pa.types.is_struct(column_type):
            return self._leaf(column_type, skip=skip)
        fields = list(column_type)
        read = [self._leaf(each.type, skip=skip) for each in fields]
        children = [child for child in read if child is not None]
        if skip:
            return None
        # Only the fields of a null struct are all null.
        is_null = np.logical_and.reduce([np.asarray(each.is_null()) for each in children])
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(is_null))

    def _leaf(self, leaf_type: pa.DataType, *, skip: bool) -> pa.Array | None:
        places = self._at[:, None] + np.arange(_LENGTH_BYTES)
        sizes = self._data[places].view("<u4").ravel().astype(np.int64)
        is_null = sizes == _NULL
        sizes[is_null] = 0
        begin = self._at + _LENGTH_BYTES
        self._at = begin + sizes
        if skip:
            return None
        offsets, indices = Ranges(begin, self._at).rows()
        parts = self._data[indices]
        if pa.types.is_string(leaf_type) or pa.types.is_binary(leaf_type):
            column = _binary(offsets, parts).cast(leaf_type)
            return pc.if_else(pa.array(~is_null), column, None)
        if pa.types.is_list(leaf_type):
            item_type = leaf_type.value_type.to_pandas_dtype()
            items = parts.view(item_type)
            return pa.ListArray.from_arrays(
                pa.array(offsets // items.itemsize, pa.int32()), pa.array(items)
            )
        number_type = pa.int8() if pa.types.is_boolean(leaf_type) else leaf_type
        numbers = np.zeros(len(sizes), number_type.to_pandas_dtype())
        numbers[~is_null] = parts.view(numbers.dtype)
        return pa.array(numbers, mask=is_null).cast(leaf_type)
