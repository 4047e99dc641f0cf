"""Keys of another type than text: which texts are such keys, and how composites are made."""

import re
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.language import Input
from oriel.storage import TEXT, CompositeKeys, UnfitKey, key_type

#: A part of what several columns are joined to, behind a bar; bars and backslashes inside are
#: escaped by a backslash.
_PART = re.compile(r"\|((?:[^\\|]|\\.)*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class TypedKeys:
    """Makes keys of a type out of the texts that records are grouped by.

    Plain data, so that tasks can be sent it. ``is_joined``: the texts are those of several columns,
    joined, which become the components of a composite; else each is the key itself.
    """

    type_name: str
    is_joined: bool

    @classmethod
    def of(cls, origin: Input) -> Self | None:
        """What makes the keys of an input; None where they are texts as they are."""
        if origin.key_type is TEXT:
            return None
        return cls(origin.key_type.name, len(origin.key_columns) > 1)

    def typed(self, texts: pa.Array) -> pa.Array:
        """The key of each text, null where it is none."""
        of_type = key_type(self.type_name)
        if not (self.is_joined and isinstance(of_type, CompositeKeys)):
            return pc.if_else(of_type.fitting(texts), texts, pa.scalar(None, pa.string()))
        coded = texts.dictionary_encode()
        keys = [_composite(text, of_type) for text in coded.dictionary.to_pylist()]
        return pa.array(keys, pa.string()).take(coded.indices)


def _composite(joined: str, of_type: CompositeKeys) -> str | None:
    parts = [_ESCAPED.sub(r"\1", part) for part in _PART.findall(f"|{joined}")]
    try:
        return of_type.of_texts(parts)
    except UnfitKey:
        return None
