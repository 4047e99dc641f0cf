"""Why rows of a block are invalid: a reason per row, and a detail if the field is known.

In an exchange, a reason is a string: its code, or its code, ``: `` and a detail
(``dead_letters.with_detail``).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Reason, with_detail
from oriel.pipeline.windows import Flags

_REASONS = [None, *Reason]
_CODES = {reason: code for code, reason in enumerate(_REASONS)}
_NAMES = pa.array([reason and reason.value for reason in _REASONS], pa.string())

#: A detail has at most this many characters of a value or a type.
_MAX_DETAIL_CHARS = 60


class RowErrors:
    """The reasons of the invalid rows of a block. The first reason of a row counts."""

    def __init__(self, length: int) -> None:
        self._codes = np.zeros(length, np.int8)
        self._details: dict[int, str] = {}

    def set(self, rows: Flags, reason: Reason) -> None:
        """Set the reason of rows that have no reason yet."""
        self._codes[rows & (self._codes == 0)] = _CODES[reason]

    def set_one(self, row: int, reason: Reason, detail: str | None = None) -> None:
        """Set the reason of one row and its detail, if the row has no reason yet."""
        if not self._codes[row]:
            self._codes[row] = _CODES[reason]
            if detail is not None:
                self._details[row] = detail

    @property
    def invalid(self) -> Flags:
        """Return which rows are invalid."""
        flags: Flags = self._codes != 0
        return flags

    @property
    def count(self) -> int:
        """Return the number of invalid rows."""
        return int(np.count_nonzero(self._codes))

    def reasons(self) -> pa.StringArray:
        """Return the reasons as an exchange contains them, null for a valid row."""
        names = _NAMES.take(pa.array(self._codes))
        if not self._details:
            return names
        rows = sorted(self._details)
        detailed = [with_detail(names[row].as_py(), self._details[row]) for row in rows]
        is_detailed = np.zeros(len(names), np.bool_)
        is_detailed[rows] = True
        return pc.replace_with_mask(names, pa.array(is_detailed), pa.array(detailed, pa.string()))


class WrongType(TypeError):
    """Raised if a value does not have the type of its column.

    The readers of the enclosing fields add the path of the field. For a number that is out of
    range, some readers return this error instead of raising it.

    Attributes:
        path: The names of the fields around the value, the outermost first.
    """

    def __init__(self, expected: object, given: str) -> None:
        """Describe a value that does not have its type.

        Args:
            expected: The type of the column, or a description of the values that it accepts.
            given: The value as text, or a description of it.
        """
        super().__init__(expected, given)
        self.path: list[str] = []

    @property
    def detail(self) -> str:
        """Return the path of the field, the expected type and the value, in one sentence."""
        expected, given = (_cut(text) for text in (type_name(self.args[0]), self.args[1]))
        text = f"{'.'.join(self.path) or 'the whole value'}: {expected} expected, not {given}"
        # A rejected string can contain half of a surrogate pair, which UTF-8 cannot encode.
        return text.encode("utf-8", "backslashreplace").decode()


def out_of_range(column_type: pa.DataType, given: str) -> WrongType:
    """Return the error for a number that ``column_type`` rounds to infinity."""
    return WrongType(f"a number in the range of {type_name(column_type)}", given)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_DETAIL_CHARS else f"{text[:_MAX_DETAIL_CHARS]}..."


def type_name(column_type: pa.DataType | str) -> str:
    """Return a column's type as a schema writes it."""
    if isinstance(column_type, str):
        return column_type
    names = {
        pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT",
        pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING",
        pa.date32(): "DATE", pa.binary(): "BINARY",
    }  # fmt: skip
    if column_type in names:
        return names[column_type]
    if pa.types.is_list(column_type):
        return f"ARRAY<{type_name(column_type.value_type)}>"
    if pa.types.is_map(column_type):
        return f"MAP<{type_name(column_type.key_type)}, {type_name(column_type.item_type)}>"
    if not pa.types.is_struct(column_type):
        return str(column_type).upper().replace("DECIMAL128", "DECIMAL")
    fields = (f"{field.name}: {type_name(field.type)}" for field in column_type)
    return f"STRUCT<{', '.join(fields)}>"
