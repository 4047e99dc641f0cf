"""Conditions on keys and window times, exact for rows and conservative for files.

A condition selects all rows of a window or none. So it can be applied before the rule that
determines the row that counts (docs/decisions/0030).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.delta import TIMESTAMP, Range
from oriel.storage.key_types import TEXT, KeyType

#: Greater times overflow in microseconds, so no row has them.
_TIME_MS_MAX = (2**63 - 1) // 1000
_KEY_MAX = b"\xff"

#: An additional column with the escaped bytes of keys, if keys are not in the order of strings.
_ORDERED = "__ordered_key"

#: Column -> its least and greatest value in a file. Keys are UTF-8, times in microseconds.
Bounds = Mapping[str, Range]


@dataclass(frozen=True)
class Condition:
    """A condition on the rows of a table.

    Attributes:
        expression: The Arrow expression for a row.
        ranges: Columns and the ranges that contain all values of matching rows.
        ordered_keys: The key type if the expression compares escaped bytes of keys.
    """

    expression: Any
    ranges: tuple[tuple[str, Range], ...] = ()
    ordered_keys: KeyType | None = None

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(
            self.expression & other.expression,
            self.ranges + other.ranges,
            self.ordered_keys or other.ordered_keys,
        )

    def filtered(self, rows: Any) -> Any:
        """Return the matching rows of an Arrow table."""
        if self.ordered_keys is None:
            return rows.filter(self.expression)
        ordered = self.ordered_keys.escaped_column(rows["key"].combine_chunks())
        with_order = rows.append_column(_ORDERED, ordered)
        return with_order.filter(self.expression).drop_columns([_ORDERED])

    def can_match(self, bounds: Bounds) -> bool:
        """Return whether a file or row group with these bounds can have matching rows."""
        return all(
            column not in bounds or wanted.overlaps(bounds[column])
            for column, wanted in self.ranges
        )


EVERYTHING = Condition(pc.scalar(value=True))
_NOTHING = Condition(pc.scalar(value=False), (("key", Range(_KEY_MAX, b"")),))


def of_key(key: str, key_type: KeyType) -> Condition:
    """Return the condition for rows with this key.

    Raises:
        KeyTypeMismatch: The string is not a key of this type.
    """
    key_type.escaped(key)
    return Condition(pc.field("key") == _text(key), (_keys(key, key),))


def of_keys(after: str | None, to: str | None, key_type: KeyType) -> Condition:
    """Return the condition for keys after ``after`` (exclusive), up to ``to`` (inclusive).

    Use None for an open bound.

    Raises:
        KeyTypeMismatch: A bound is not a key of this type.
    """
    expression = pc.scalar(value=True)
    if key_type is not TEXT:
        if after is not None:
            expression &= pc.field(_ORDERED) > _escaped(after, key_type)
        if to is not None:
            expression &= pc.field(_ORDERED) <= _escaped(to, key_type)
        # Statistics are in the order of strings, which is another one.
        return Condition(expression, ordered_keys=key_type)
    if after is not None:
        expression &= pc.field("key") > _text(after)
    if to is not None:
        expression &= pc.field("key") <= _text(to)
    return Condition(expression, (_keys(after, to),))


def from_key(key: str, key_type: KeyType) -> Condition:
    """Return the condition for keys from ``key`` on (inclusive).

    Raises:
        KeyTypeMismatch: The string is not a key of this type.
    """
    if key_type is not TEXT:
        is_from = pc.field(_ORDERED) >= _escaped(key, key_type)
        return Condition(is_from, ordered_keys=key_type)
    return Condition(pc.field("key") >= _text(key), (_keys(key, None),))


def of_prefix(prefix: str, key_type: KeyType) -> Condition:
    """Return the condition for keys with this prefix.

    Raises:
        KeyTypeMismatch: Keys of this type with this prefix are not adjacent in their order.
    """
    key_type.escaped_prefix(prefix)
    expression = pc.field("key") >= _text(prefix)
    # Compute the least string that is greater than all strings with the prefix. The order of code
    # points is the order of UTF-8.
    last = prefix.rstrip("\U0010ffff")
    if not last:
        return Condition(expression, (_keys(prefix, None),))
    following = ord(last[-1]) + 1
    # Surrogates are not characters.
    following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
    beyond = last[:-1] + chr(following)
    return Condition(expression & (pc.field("key") < _text(beyond)), (_keys(prefix, beyond),))


def of_times(column: str, from_ms: int, to_ms: int) -> Condition:
    """Return the condition for rows with a window time in these inclusive bounds."""
    least, greatest = max(from_ms, -_TIME_MS_MAX) * 1000, min(to_ms, _TIME_MS_MAX) * 1000
    if least > greatest or from_ms > _TIME_MS_MAX or to_ms < -_TIME_MS_MAX:
        return _NOTHING
    first, last = (pa.scalar(time, pa.int64()).cast(TIMESTAMP) for time in (least, greatest))
    expression = (pc.field(column) >= first) & (pc.field(column) <= last)
    return Condition(expression, ((column, Range(least, greatest)),))


def _keys(least: str | None, greatest: str | None) -> tuple[str, Range]:
    # UTF-8 never contains the byte FF.
    return "key", Range(
        b"" if least is None else least.encode(),
        _KEY_MAX if greatest is None else greatest.encode(),
    )


def _escaped(key: str, key_type: KeyType) -> Any:
    return pa.scalar(key_type.escaped(key), pa.binary())


def _text(key: str) -> Any:
    return pa.scalar(key, pa.string())
