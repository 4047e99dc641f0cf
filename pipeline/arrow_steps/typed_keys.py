"""Keys of other types than ``text``: which strings are valid, and how to create composites."""

import re
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.lowered import AggregatedRows, Input
from oriel.storage import TEXT, CompositeKeys, KeyTypeMismatch, key_type

#: A component in a string of joined columns, after a bar. In components, a backslash escapes bars
#: and backslashes.
_COMPONENT = re.compile(r"\|((?:[^\\|]|\\.)*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class TypedKeys:
    """The conversion of the strings that records are grouped by to keys of a type.

    Plain data that can be sent to tasks.

    Attributes:
        type_name: The key type.
        is_joined: True if a string joins several columns, which become components of a composite.
            Otherwise each string is the key itself.
    """

    type_name: str
    is_joined: bool

    @classmethod
    def of(cls, origin: Input | AggregatedRows) -> Self | None:
        """Return the conversion for an input, or None if its strings are the keys."""
        if origin.key_type is TEXT:
            return None
        return cls(origin.key_type.name, len(origin.key_columns) > 1)

    def typed(self, strings: pa.Array) -> pa.Array:
        """Return the key of each string, null if it is not a valid key."""
        of_type = key_type(self.type_name)
        if not (self.is_joined and isinstance(of_type, CompositeKeys)):
            return pc.if_else(of_type.fitting(strings), strings, pa.scalar(None, pa.string()))
        coded = strings.dictionary_encode()
        keys: list[str | None] = []
        for joined in coded.dictionary.to_pylist():
            parts = [_ESCAPED.sub(r"\1", part) for part in _COMPONENT.findall(f"|{joined}")]
            try:
                keys.append(of_type.of_strings(parts))
            except KeyTypeMismatch:
                keys.append(None)
        return pa.array(keys, pa.string()).take(coded.indices)
