"""What is wrong with the rows of a block: reasons, and where it is known which field.

On its hops a reason is a text: its code, and behind ``: `` perhaps a detail
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

#: More of a value than so many characters helps nobody.
_SHOWN = 60


class Faults:
    """The faults of a block's rows: a row's first one counts."""

    def __init__(self, length: int) -> None:
        self._codes = np.zeros(length, np.int8)
        self._details: dict[int, str] = {}

    def set(self, rows: Flags, reason: Reason) -> None:
        """Set the reason where there is none as yet."""
        self._codes[rows & (self._codes == 0)] = _CODES[reason]

    def set_one(self, row: int, reason: Reason, detail: str | None = None) -> None:
        """Set the reason of one row, if it has none, and what is wrong in words."""
        if not self._codes[row]:
            self._codes[row] = _CODES[reason]
            if detail is not None:
                self._details[row] = detail

    @property
    def bad(self) -> Flags:
        """Which rows have a fault."""
        flags: Flags = self._codes != 0
        return flags

    @property
    def count(self) -> int:
        """How many rows have one."""
        return int(np.count_nonzero(self._codes))

    def reasons(self) -> pa.StringArray:
        """The reasons as the hops have them, null for a good row."""
        names = _NAMES.take(pa.array(self._codes))
        if not self._details:
            return names
        rows = sorted(self._details)
        detailed = [with_detail(names[row].as_py(), self._details[row]) for row in rows]
        is_detailed = np.zeros(len(names), np.bool_)
        is_detailed[rows] = True
        return pc.replace_with_mask(names, pa.array(is_detailed), pa.array(detailed, pa.string()))


class WrongType(TypeError):
    """A field has not the type of its column; the readers around it add the way to it."""

    def __init__(self, wanted: object, given: str) -> None:
        """A column of type ``wanted`` can't take what is ``given``, as text."""
        super().__init__(wanted, given)
        self.path: list[str] = []

    @property
    def detail(self) -> str:
        """Which field it is, which type its column has, and what is there."""
        wanted, given = (_cut(text) for text in (type_name(self.args[0]), self.args[1]))
        text = f"{'.'.join(self.path) or 'the whole value'}: {wanted} expected, not {given}"
        # Half of a surrogate pair can stand in a text that is being refused.
        return text.encode("utf-8", "backslashreplace").decode()


def out_of_range(column_type: pa.DataType, given: str) -> WrongType:
    """The error of a number that ``column_type`` rounds to infinity."""
    return WrongType(f"a number in the range of {type_name(column_type)}", given)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def type_name(column_type: pa.DataType | str) -> str:
    """A column's type as a schema writes it."""
    if isinstance(column_type, str):
        return column_type
    names = {
        pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT",
        pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING",
    }  # fmt: skip
    if column_type in names:
        return names[column_type]
    if pa.types.is_list(column_type):
        return f"ARRAY<{type_name(column_type.value_type)}>"
    if pa.types.is_map(column_type):
        return f"MAP<{type_name(column_type.key_type)}, {type_name(column_type.item_type)}>"
    if not pa.types.is_struct(column_type):
        return str(column_type).upper()
    fields = (f"{field.name}: {type_name(field.type)}" for field in column_type)
    return f"STRUCT<{', '.join(fields)}>"
