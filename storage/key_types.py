"""What the keys of a store are: texts, 64-bit integers, or composites of both.

One text names a key everywhere: in the table, the engine's state, requests and answers. Its type
says which texts are keys, so that no key has two of them, and in which order they come:

| type | keys | order |
|---|---|---|
| ``text`` | any text | UTF-8 bytes |
| ``long`` | 64-bit integers in decimal: ``0``, ``-7``, ``42`` | by number |
| ``[text, long]`` | JSON arrays without blanks: ``["EWR",42]`` | by the first difference |

Composites have one component or more, each ``text`` or ``long``, and come in the order of the first
component that differs. The bytes of an order are those of ``KeyType.escaped`` (docs/reference/
keys.md lists them).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from oriel.storage.errors import InvalidDefinition, UnfitKey

_DECIMAL = "0|-?[1-9][0-9]{0,18}"
_ONLY_DECIMAL = re.compile(_DECIMAL)
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_LONG_BYTES = 8
#: What is added to a signed integer, so that its unsigned bytes are in its order.
_SIGN = 2**63

_ZERO, _ESCAPED_ZERO = b"\x00", b"\x00\xff"
#: Ends a text among the components of a composite; less than all that can go on a longer one.
_TEXT_END = b"\x00\x02"
#: The bytes of components of a composite.
_TEXT_PATTERN = rb"((?:\x00\xff|[^\x00])*)\x00\x02"
_LONG_PATTERN = rb"((?:\x00\xff|[^\x00]){8})"
#: Characters of a key that a message shows.
_SHOWN = 80


class KeyType(ABC):
    """One type of keys; ``name`` is how a definition has it."""

    name: str

    @abstractmethod
    def escaped(self, key: str) -> bytes:
        """Bytes that compare as the keys do; each 00 of them is followed by 02 or FF.

        Raises:
            UnfitKey: the text is no key of this type.
        """

    @abstractmethod
    def key_of(self, escaped: bytes) -> str:
        """The key that these bytes are of."""

    @abstractmethod
    def escaped_column(self, keys: Any) -> Any:
        """``escaped`` of each key of an Arrow string array, a binary array; all must fit."""

    @abstractmethod
    def fitting(self, keys: Any) -> Any:
        """Which texts of an Arrow string array are keys of this type, a boolean array."""

    @abstractmethod
    def escaped_prefix(self, prefix: str) -> bytes:
        """What ``escaped`` of each key begins with whose text begins with ``prefix``.

        Raises:
            UnfitKey: keys whose texts begin so don't lie together; the message says what to ask.
        """

    @abstractmethod
    def written(self, value: object) -> str:
        """The text of a key that JSON has as a value: a text, a number, an array.

        A text is taken for the key's own.

        Raises:
            UnfitKey: it is no key of this type.
        """


class TextKeys(KeyType):
    """Any text, by its UTF-8 bytes."""

    name = "text"

    def escaped(self, key: str) -> bytes:
        """See ``KeyType``."""
        return _escaped_text(key)

    def key_of(self, escaped: bytes) -> str:
        """See ``KeyType``."""
        return _text_of(escaped)

    def escaped_column(self, keys: Any) -> Any:
        """See ``KeyType``."""
        has_zeros = pc.any(pc.match_substring(keys, "\x00")).as_py()
        encoded = keys.cast(pa.binary())
        return pc.replace_substring(encoded, _ZERO, _ESCAPED_ZERO) if has_zeros else encoded

    def fitting(self, keys: Any) -> Any:
        """See ``KeyType``."""
        return pc.is_valid(keys)

    def escaped_prefix(self, prefix: str) -> bytes:
        """See ``KeyType``."""
        return _escaped_text(prefix)

    def written(self, value: object) -> str:
        """See ``KeyType``."""
        if isinstance(value, str):
            return value
        message = f"{_shown(value)} is not a key of this store. Keys are strings"
        raise UnfitKey(message)


class LongKeys(KeyType):
    """64-bit integers in decimal, by number."""

    name = "long"

    def escaped(self, key: str) -> bytes:
        """See ``KeyType``."""
        if _ONLY_DECIMAL.fullmatch(key) and _LONG_MIN <= int(key) <= _LONG_MAX:
            return _escaped_long(int(key))
        raise UnfitKey(_unfit_long(key))

    def key_of(self, escaped: bytes) -> str:
        """See ``KeyType``."""
        return str(_long_of(escaped))

    def escaped_column(self, keys: Any) -> Any:
        """See ``KeyType``."""
        numbers = np.asarray(keys.cast(pa.int64()))
        # In two's complement, flipping the sign bit adds 2**63 modulo 2**64.
        big_endian = (numbers.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8")
        octets = big_endian.view(np.uint8).reshape(-1, _LONG_BYTES)
        # Behind each zero there is room for an FF; Arrow's own replacing takes three times as long.
        is_zero = octets == 0
        ends = np.cumsum(_LONG_BYTES + is_zero.sum(axis=1, dtype=np.int32), dtype=np.int32)
        offsets = np.concatenate([np.zeros(1, np.int32), ends])
        zeros_before = np.cumsum(is_zero, axis=1, dtype=np.int32) - is_zero
        places = offsets[:-1, None] + np.arange(_LONG_BYTES, dtype=np.int32) + zeros_before
        escaped = np.full(offsets[-1], 0xFF, np.uint8)
        escaped[places] = octets
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(escaped)]
        return pa.BinaryArray.from_buffers(pa.binary(), len(keys), buffers)

    def fitting(self, keys: Any) -> Any:
        """See ``KeyType``."""
        is_decimal = pc.match_substring_regex(keys, f"^(?:{_DECIMAL})$")
        decimals = pc.if_else(is_decimal, keys, None).cast(pa.decimal128(19, 0))
        is_long = pc.and_(
            pc.greater_equal(decimals, pa.scalar(_LONG_MIN, pa.decimal128(19, 0))),
            pc.less_equal(decimals, pa.scalar(_LONG_MAX, pa.decimal128(19, 0))),
        )
        return pc.fill_null(is_long, fill_value=False)

    def escaped_prefix(self, prefix: str) -> bytes:
        """See ``KeyType``."""
        if not prefix:
            return b""
        message = (
            f"{_shown(prefix)} is not a prefix of keys of this store, which are 64-bit integers "
            "in numeric order. Leave out prefix, or read a range of keys with key_from and key_to"
        )
        raise UnfitKey(message)

    def written(self, value: object) -> str:
        """See ``KeyType``."""
        key = str(value) if type(value) is int else value
        if isinstance(key, str):
            self.escaped(key)
            return key
        raise UnfitKey(_unfit_long(value))


class CompositeKeys(KeyType):
    """JSON arrays of texts and 64-bit integers, by the first component that differs."""

    def __init__(self, components: tuple[str, ...]) -> None:
        """Take the components' types, each ``text`` or ``long``."""
        self.name = f"[{', '.join(components)}]"
        self._components = components
        pattern = b"".join(
            _TEXT_PATTERN if component == TextKeys.name else _LONG_PATTERN
            for component in components
        )
        self._pattern = re.compile(pattern, re.DOTALL)

    def escaped(self, key: str) -> bytes:
        """See ``KeyType``."""
        values = self._values(key, len(self._components))
        if values is not None and self._text(values) == key:
            return self._escaped_values(values)
        spelling = "" if values is None else f". Write {self._text(values)}"
        message = f"{_shown(key)} is not a key of this store{spelling or self._what_is()}"
        raise UnfitKey(message)

    def key_of(self, escaped: bytes) -> str:
        """See ``KeyType``."""
        match = self._pattern.fullmatch(escaped)
        if match is None:
            message = f"{escaped.hex(' ')} are not the bytes of a key of the type {self.name}"
            raise UnfitKey(message)
        return self._text([
            _text_of(part) if component == TextKeys.name else _long_of(part)
            for component, part in zip(self._components, match.groups(), strict=True)
        ])  # fmt: skip

    def escaped_column(self, keys: Any) -> Any:
        """See ``KeyType``. Each distinct key is looked at once."""
        coded = keys.dictionary_encode()
        distinct = [self.escaped(key) for key in coded.dictionary.to_pylist()]
        return pa.array(distinct, pa.binary()).take(coded.indices)

    def fitting(self, keys: Any) -> Any:
        """See ``KeyType``. Each distinct key is looked at once."""
        coded = keys.dictionary_encode()
        distinct = pa.array([self._is_key(key) for key in coded.dictionary.to_pylist()], pa.bool_())
        return pc.fill_null(distinct.take(coded.indices), fill_value=False)

    def escaped_prefix(self, prefix: str) -> bytes:
        """See ``KeyType``. A prefix is of whole components: the text up to a comma."""
        if not prefix:
            return b""
        values = self._values(f"{prefix[:-1]}]", None) if prefix.endswith(",") else None
        if values and len(values) < len(self._components) and self._beginning(values) == prefix:
            return self._escaped_values(values)
        first = self._example()[:-1]
        example = (
            f", for example {self._beginning(first)}"
            if first
            else ". These keys have only one component"
        )
        message = (
            f"{_shown(prefix)} is not a prefix of keys of this store, which have the type "
            f"{self.name}. A prefix consists of whole components and ends with a comma{example}"
        )
        raise UnfitKey(message)

    def written(self, value: object) -> str:
        """See ``KeyType``."""
        try:
            key = value if isinstance(value, str) else orjson.dumps(value).decode()
        except TypeError:  # an integer of more than 64 bits, half a surrogate pair
            key = str(value)
        self.escaped(key)
        return key

    def of_texts(self, texts: Sequence[str]) -> str:
        """The key whose components have these texts, of numbers in decimal.

        Raises:
            UnfitKey: there are more or fewer, or one is no number in decimal.
        """
        values = [
            text if component == TextKeys.name or not _ONLY_DECIMAL.fullmatch(text) else int(text)
            for component, text in zip(self._components, texts, strict=False)
        ]
        return self.written([*values, *texts[len(values) :]])

    def _values(self, text: str, count: int | None) -> list[str | int] | None:
        """The components that a JSON text has, ``count`` of them; None where one does not fit."""
        try:
            values = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(values, list) or count not in {None, len(values)}:
            return None
        is_fitting = all(
            isinstance(value, str)
            if component == TextKeys.name
            else type(value) is int and _LONG_MIN <= value <= _LONG_MAX
            for component, value in zip(self._components, values, strict=False)
        )
        return values if is_fitting else None

    def _escaped_values(self, values: list[str | int]) -> bytes:
        return b"".join(
            _escaped_text(value) + _TEXT_END if isinstance(value, str) else _escaped_long(value)
            for value in values
        )

    def _is_key(self, text: str | None) -> bool:
        values = None if text is None else self._values(text, len(self._components))
        return values is not None and self._text(values) == text

    def _text(self, values: list[str | int]) -> str:
        return orjson.dumps(values).decode()

    def _beginning(self, values: list[str | int]) -> str:
        """What the texts of all keys with these first components begin with."""
        return f"{self._text(values)[:-1]},"

    def _example(self) -> list[str | int]:
        return ["a" if component == TextKeys.name else 1 for component in self._components]

    def _what_is(self) -> str:
        return (
            f". Keys have the type {self.name} and are JSON arrays without spaces, for example "
            f"{self._text(self._example())}"
        )


TEXT = TextKeys()
LONG = LongKeys()


@cache
def key_type(name: str) -> KeyType:
    """The type of a name: ``text``, ``long``, or components in brackets, ``[text, long]``.

    Raises:
        InvalidDefinition: there is no such type.
    """
    plain: dict[str, KeyType] = {each.name: each for each in (TEXT, LONG)}
    components = tuple(name[1:-1].split(", "))
    if name in plain:
        return plain[name]
    if name.startswith("[") and name.endswith("]") and set(components) <= plain.keys():
        return CompositeKeys(components)
    message = f"key type {name!r} is not known. Use text, long or a composite such as [text, long]"
    raise InvalidDefinition(message)


def _escaped_text(text: str) -> bytes:
    return text.encode().replace(_ZERO, _ESCAPED_ZERO)


def _escaped_long(number: int) -> bytes:
    return (number + _SIGN).to_bytes(_LONG_BYTES, "big").replace(_ZERO, _ESCAPED_ZERO)


def _text_of(escaped: bytes) -> str:
    return escaped.replace(_ESCAPED_ZERO, _ZERO).decode()


def _long_of(escaped: bytes) -> int:
    return int.from_bytes(escaped.replace(_ESCAPED_ZERO, _ZERO), "big") - _SIGN


def _unfit_long(value: object) -> str:
    return (
        f"{_shown(value)} is not a key of this store. Keys are 64-bit integers in decimal without "
        "a plus sign or leading zeros, for example 42"
    )


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
