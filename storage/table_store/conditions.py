"""Conditions on keys and window times: exact for rows, and for files as far as their bounds say.

All of them leave every row of a window or none, so they may stand before the rule that says which
row counts (docs/decisions/0030).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.delta import TIMESTAMP, Range
from oriel.storage.key_types import TEXT, KeyType

#: Times beyond these can't be said in microseconds, so no row has them.
_TIME_MS_MAX = (2**63 - 1) // 1000
_KEY_MAX = b"\xff"

#: A column beside those of the table: the escaped bytes of keys whose order is not that of texts.
_ORDERED = "__ordered_key"

#: Column -> its least and greatest value in a file: keys as UTF-8, times in microseconds.
Bounds = Mapping[str, Range]


@dataclass(frozen=True)
class Condition:
    """An expression for rows, and ranges of columns outside of which no row can satisfy it.

    ``ordered_keys`` is the type of keys that the expression compares by their escaped bytes.
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
        """Those rows of a table that satisfy it."""
        if self.ordered_keys is None:
            return rows.filter(self.expression)
        ordered = self.ordered_keys.escaped_column(rows["key"].combine_chunks())
        with_order = rows.append_column(_ORDERED, ordered)
        return with_order.filter(self.expression).drop_columns([_ORDERED])

    def may_hold(self, bounds: Bounds) -> bool:
        """Whether there may be such rows where the columns have these bounds."""
        return all(
            column not in bounds or wanted.overlaps(bounds[column])
            for column, wanted in self.ranges
        )


EVERYTHING = Condition(pc.scalar(value=True))
_NOTHING = Condition(pc.scalar(value=False), (("key", Range(_KEY_MAX, b"")),))


def of_key(key: str, key_type: KeyType) -> Condition:
    """The condition that a row is of this key.

    Raises:
        UnfitKey: it is no key of this type.
    """
    key_type.escaped(key)
    return Condition(pc.field("key") == _text(key), (_keys(key, key),))


def of_keys(after: str | None, to: str | None, key_type: KeyType) -> Condition:
    """The condition that a key comes behind ``after`` (exclusive), up to ``to`` (inclusive).

    None: no bound.

    Raises:
        UnfitKey: a bound is no key of this type.
    """
    expression = pc.scalar(value=True)
    if key_type is not TEXT:
        if after is not None:
            expression &= pc.field(_ORDERED) > _escaped(after, key_type)
        if to is not None:
            expression &= pc.field(_ORDERED) <= _escaped(to, key_type)
        # Statistics are of the texts, which are in another order.
        return Condition(expression, ordered_keys=key_type)
    if after is not None:
        expression &= pc.field("key") > _text(after)
    if to is not None:
        expression &= pc.field("key") <= _text(to)
    return Condition(expression, (_keys(after, to),))


def from_key(key: str, key_type: KeyType) -> Condition:
    """The condition that a key is this one or comes behind it.

    Raises:
        UnfitKey: it is no key of this type.
    """
    if key_type is not TEXT:
        is_from = pc.field(_ORDERED) >= _escaped(key, key_type)
        return Condition(is_from, ordered_keys=key_type)
    return Condition(pc.field("key") >= _text(key), (_keys(key, None),))


def of_prefix(prefix: str, key_type: KeyType) -> Condition:
    """The condition that a key begins so.

    Raises:
        UnfitKey: keys of this type that begin so don't lie together.
    """
    key_type.escaped_prefix(prefix)
    expression = pc.field("key") >= _text(prefix)
    # The least text that is greater than all that begin so: code points and UTF-8 have one order.
    last = prefix.rstrip("\U0010ffff")
    if not last:
        return Condition(expression, (_keys(prefix, None),))
    following = ord(last[-1]) + 1
    # Surrogates are no characters.
    following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
    beyond = last[:-1] + chr(following)
    return Condition(expression & (pc.field("key") < _text(beyond)), (_keys(prefix, beyond),))


def of_times(column: str, from_ms: int, to_ms: int) -> Condition:
    """The condition that a time of the window lies within these bounds, both inclusive."""
    least, greatest = max(from_ms, -_TIME_MS_MAX) * 1000, min(to_ms, _TIME_MS_MAX) * 1000
    if least > greatest or from_ms > _TIME_MS_MAX or to_ms < -_TIME_MS_MAX:
        return _NOTHING
    first, last = (pa.scalar(time, pa.int64()).cast(TIMESTAMP) for time in (least, greatest))
    expression = (pc.field(column) >= first) & (pc.field(column) <= last)
    return Condition(expression, ((column, Range(least, greatest)),))


def _keys(least: str | None, greatest: str | None) -> tuple[str, Range]:
    # No UTF-8 has a byte FF.
    return "key", Range(
        b"" if least is None else least.encode(),
        _KEY_MAX if greatest is None else greatest.encode(),
    )


def _escaped(key: str, key_type: KeyType) -> Any:
    return pa.scalar(key_type.escaped(key), pa.binary())


def _text(key: str) -> Any:
    return pa.scalar(key, pa.string())
