"""Read values of Kafka's serdes as columns, and convert rows of format libraries to Arrow."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason
from oriel.pipeline.decoding.block_bytes import BlockBytes
from oriel.pipeline.decoding.row_errors import RowErrors, out_of_range

#: The formats in which Kafka's serializers write numbers: big-endian.
_NUMBERS = {"long": ">i8", "integer": ">i4", "short": ">i2", "double": ">f8", "float": ">f4"}

#: The smallest number that FLOAT rounds to infinity.
_FLOAT_LIMIT = 2.0**128 - 2.0**103


class ValueReader(Protocol):
    """Reads the values of messages. It can be pickled, and has no state except for caches."""

    def read(self, values: pa.BinaryArray, row_errors: RowErrors) -> pa.StructArray:
        """Return the rows of ``values``, null for a null or invalid value.

        An invalid value sets the reason of its row in ``row_errors``.
        """


@dataclass(frozen=True)
class SingleValueReader:
    """Reads values of one of Kafka's serdes as rows with one column.

    Attributes:
        name: The name of the serde.
        row_type: The type of the rows.
    """

    name: str
    row_type: pa.StructType

    def read(self, values: pa.BinaryArray, row_errors: RowErrors) -> pa.StructArray:
        read = texts if self.name == "string" else numbers
        column = read(self.name, values, row_errors)
        mask = pa.array(np.asarray(values.is_null()) | row_errors.invalid)
        return pa.StructArray.from_arrays([column], fields=list(self.row_type), mask=mask)


def texts(_serde: str, values: pa.BinaryArray, row_errors: RowErrors) -> pa.StringArray:
    """Return values as strings. Invalid UTF-8 is null and sets the reason of its row."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        found = valid_strings(values)
        invalid = pc.and_(found.is_null(), values.is_valid())
        row_errors.set(np.asarray(invalid), Reason.NOT_UTF8)
        return found


def valid_strings(values: pa.BinaryArray) -> pa.StringArray:
    """Return values as strings. Invalid UTF-8 is null."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        found: list[str | None] = []
        for value in values.to_pylist():
            try:
                found.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                found.append(None)
        return pa.array(found, pa.string())


def numbers(serde: str, values: pa.BinaryArray, row_errors: RowErrors) -> pa.Array:
    """Return the numbers of one of Kafka's serdes, null for a null or invalid value.

    A value with a wrong number of bytes sets the reason of its row.
    """
    number_type = np.dtype(_NUMBERS[serde])
    is_null = np.asarray(values.is_null())
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0))
    fits = ~is_null & (lengths == number_type.itemsize)
    for row in np.flatnonzero(~fits & ~is_null).tolist():
        detail = f"the serde {serde} needs {number_type.itemsize} bytes, not {lengths[row]}"
        row_errors.set_one(row, Reason.WRONG_TYPE, detail)
    found = np.zeros(len(values), number_type.newbyteorder("="))
    found[fits] = BlockBytes(values.filter(pa.array(fits))).data.view(number_type)
    return pa.array(found, mask=~fits)


def as_float(number: float, column_type: pa.DataType) -> float:
    """Return a number of a binary format for a column of ``column_type``. Infinity is valid.

    Raises:
        WrongType: The number is finite, and FLOAT rounds it to infinity.
    """
    number = float(number)
    if _FLOAT_LIMIT <= abs(number) < inf and column_type == pa.float32():
        raise out_of_range(column_type, repr(number))
    return number


def struct_rows(
    rows: Sequence[dict[str, Any] | None],
    row_type: pa.StructType,
    row_errors: RowErrors,
    first: int = 0,
) -> pa.StructArray:
    """Return rows as an array. A row with a number out of its column's range is null.

    Args:
        rows: Rows as dicts.
        row_type: The type of the rows.
        row_errors: Receives the reason of each row that is out of range.
        first: The index of the first of ``rows`` in ``row_errors``.
    """
    try:
        return pa.array(rows, row_type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        # Arrow converts all rows or no row, so a search by halves finds the invalid row.
        if len(rows) == 1:
            row_errors.set_one(first, Reason.WRONG_TYPE, "a number is out of its column's range")
            return pa.nulls(1, row_type)
        half = len(rows) // 2
        return pa.concat_arrays([
            struct_rows(rows[:half], row_type, row_errors, first),
            struct_rows(rows[half:], row_type, row_errors, first + half),
        ])  # fmt: skip
