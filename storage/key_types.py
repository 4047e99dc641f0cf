"""The key types of stores: strings, 64-bit integers, and composites of both.

A key is one string everywhere: in the table, the state, requests and responses. Its type defines
which strings are keys, with exactly one spelling per key, and their order:

| type | keys | order |
|---|---|---|
| ``text`` | each string | UTF-8 bytes |
| ``long`` | 64-bit integers in decimal: ``0``, ``-7``, ``42`` | numeric |
| ``[text, long]`` | JSON arrays without spaces: ``["EWR",42]`` | by the first difference |

Composites have one or more components, each ``text`` or ``long``. The first component that differs
decides their order. ``KeyType.escaped`` encodes the order in bytes (docs/reference/keys.md).
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

from oriel.storage.errors import InvalidDefinition, KeyTypeMismatch

_DECIMAL = "0|-?[1-9][0-9]{0,18}"
_ONLY_DECIMAL = re.compile(_DECIMAL)
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_LONG_BYTES = 8
#: Added to a signed integer, so that its unsigned bytes are in numeric order.
_SIGN = 2**63

_ZERO, _ESCAPED_ZERO = b"\x00", b"\x00\xff"
#: Ends a string component of a composite. It is less than each continuation of a longer string.
_TEXT_END = b"\x00\x02"
#: The bytes of the components of a composite.
_TEXT_PATTERN = rb"((?:\x00\xff|[^\x00])*)\x00\x02"
_LONG_PATTERN = rb"((?:\x00\xff|[^\x00]){8})"
#: Maximum characters of a key in a message.
_SHOWN_CHARS_MAX = 80


class KeyType(ABC):
    """A key type. ``name`` is its name in store definitions."""

    name: str

    @abstractmethod
    def escaped(self, key: str) -> bytes:
        """Encode a key in bytes with the order of the keys. Each 00 is before a 02 or FF.

        Raises:
            KeyTypeMismatch: the string is not a key of this type.
        """

    @abstractmethod
    def key_of(self, escaped: bytes) -> str:
        """Decode the bytes of ``escaped``."""

    @abstractmethod
    def escaped_column(self, keys: Any) -> Any:
        """Encode an Arrow string array of valid keys as a binary array."""

    @abstractmethod
    def fitting(self, keys: Any) -> Any:
        """Return a boolean array: True for each string of an Arrow array that is a valid key."""

    @abstractmethod
    def escaped_prefix(self, prefix: str) -> bytes:
        """Return the first bytes of all encoded keys whose strings start with ``prefix``.

        Raises:
            KeyTypeMismatch: such keys are not next to each other. The message names an alternative.
        """

    @abstractmethod
    def written(self, value: object) -> str:
        """Return the string of a key that a JSON value represents: a string, number or array.

        Raises:
            KeyTypeMismatch: the value is not a key of this type.
        """


class StringKeys(KeyType):
    """Strings, in the order of their UTF-8 bytes."""

    name = "text"

    def escaped(self, key: str) -> bytes:
        return _escaped_text(key)

    def key_of(self, escaped: bytes) -> str:
        return _text_of(escaped)

    def escaped_column(self, keys: Any) -> Any:
        has_zeros = pc.any(pc.match_substring(keys, "\x00")).as_py()
        encoded = keys.cast(pa.binary())
        return pc.replace_substring(encoded, _ZERO, _ESCAPED_ZERO) if has_zeros else encoded

    def fitting(self, keys: Any) -> Any:
        return pc.is_valid(keys)

    def escaped_prefix(self, prefix: str) -> bytes:
        return _escaped_text(prefix)

    def written(self, value: object) -> str:
        if isinstance(value, str):
            return value
        message = f"{_shortened(value)} is not a key of this store. Keys are strings"
        raise KeyTypeMismatch(message)


class LongKeys(KeyType):
    """64-bit integers in decimal, in numeric order."""

    name = "long"

    def escaped(self, key: str) -> bytes:
        if _ONLY_DECIMAL.fullmatch(key) and _LONG_MIN <= int(key) <= _LONG_MAX:
            return _escaped_long(int(key))
        raise KeyTypeMismatch(_invalid_long_message(key))

    def key_of(self, escaped: bytes) -> str:
        return str(_long_of(escaped))

    def escaped_column(self, keys: Any) -> Any:
        numbers = np.asarray(keys.cast(pa.int64()))
        # In two's complement, flipping the sign bit adds 2**63 modulo 2**64.
        big_endian = (numbers.view(np.uint64) ^ np.uint64(_SIGN)).astype(">u8")
        octets = big_endian.view(np.uint8).reshape(-1, _LONG_BYTES)
        # Each zero is followed by an FF. Arrow's own replacement is three times slower.
        is_zero = octets == 0
        ends = np.cumsum(_LONG_BYTES + is_zero.sum(axis=1, dtype=np.int32), dtype=np.int32)
        offsets = np.concatenate([np.zeros(1, np.int32), ends])
        zeros_before = np.cumsum(is_zero, axis=1, dtype=np.int32) - is_zero
        offsets_of_bytes = (
            offsets[:-1, None] + np.arange(_LONG_BYTES, dtype=np.int32) + zeros_before
        )
        escaped = np.full(offsets[-1], 0xFF, np.uint8)
        escaped[offsets_of_bytes] = octets
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(escaped)]
        return pa.BinaryArray.from_buffers(pa.binary(), len(keys), buffers)

    def fitting(self, keys: Any) -> Any:
        is_decimal = pc.match_substring_regex(keys, f"^(?:{_DECIMAL})$")
        decimals = pc.if_else(is_decimal, keys, None).cast(pa.decimal128(19, 0))
        is_long = pc.and_(
            pc.greater_equal(decimals, pa.scalar(_LONG_MIN, pa.decimal128(19, 0))),
            pc.less_equal(decimals, pa.scalar(_LONG_MAX, pa.decimal128(19, 0))),
        )
        return pc.fill_null(is_long, fill_value=False)

    def escaped_prefix(self, prefix: str) -> bytes:
        if not prefix:
            return b""
        message = (
            f"{_shortened(prefix)} is not a prefix of keys of this store, which are 64-bit "
            "integers in numeric order. Leave out prefix, or read a range of keys with key_from "
            "and key_to"
        )
        raise KeyTypeMismatch(message)

    def written(self, value: object) -> str:
        key = str(value) if type(value) is int else value
        if isinstance(key, str):
            self.escaped(key)
            return key
        raise KeyTypeMismatch(_invalid_long_message(value))


class CompositeKeys(KeyType):
    """JSON arrays of strings and 64-bit integers. The first component that differs decides."""

    def __init__(self, components: tuple[str, ...]) -> None:
        """Define the types of the components, each ``text`` or ``long``."""
        self.name = f"[{', '.join(components)}]"
        self._components = components
        pattern = b"".join(
            _TEXT_PATTERN if component == StringKeys.name else _LONG_PATTERN
            for component in components
        )
        self._pattern = re.compile(pattern, re.DOTALL)

    def escaped(self, key: str) -> bytes:
        values = self._values(key, len(self._components))
        if values is not None and self._text(values) == key:
            return self._escaped_values(values)
        spelling = "" if values is None else f". Write {self._text(values)}"
        message = f"{_shortened(key)} is not a key of this store{spelling or self._type_hint()}"
        raise KeyTypeMismatch(message)

    def key_of(self, escaped: bytes) -> str:
        match = self._pattern.fullmatch(escaped)
        if match is None:
            message = f"the bytes {escaped.hex(' ')} are not a key of the type {self.name}"
            raise KeyTypeMismatch(message)
        return self._text([
            _text_of(part) if component == StringKeys.name else _long_of(part)
            for component, part in zip(self._components, match.groups(), strict=True)
        ])  # fmt: skip

    def escaped_column(self, keys: Any) -> Any:
        """See ``KeyType``. Each distinct key is encoded once."""
        coded = keys.dictionary_encode()
        distinct = [self.escaped(key) for key in coded.dictionary.to_pylist()]
        return pa.array(distinct, pa.binary()).take(coded.indices)

    def fitting(self, keys: Any) -> Any:
        """See ``KeyType``. Each distinct key is parsed once."""
        coded = keys.dictionary_encode()
        distinct = pa.array([self._is_key(key) for key in coded.dictionary.to_pylist()], pa.bool_())
        return pc.fill_null(distinct.take(coded.indices), fill_value=False)

    def escaped_prefix(self, prefix: str) -> bytes:
        """See ``KeyType``. A prefix has whole components and ends with a comma."""
        if not prefix:
            return b""
        values = self._values(f"{prefix[:-1]}]", None) if prefix.endswith(",") else None
        if values and len(values) < len(self._components) and self._prefix_string(values) == prefix:
            return self._escaped_values(values)
        first = self._example()[:-1]
        example = (
            f", for example {self._prefix_string(first)}"
            if first
            else ". These keys have only one component"
        )
        message = (
            f"{_shortened(prefix)} is not a prefix of keys of this store, which have the type "
            f"{self.name}. A prefix consists of whole components and ends with a comma{example}"
        )
        raise KeyTypeMismatch(message)

    def written(self, value: object) -> str:
        try:
            key = value if isinstance(value, str) else orjson.dumps(value).decode()
        except TypeError:  # an integer of more than 64 bits, half a surrogate pair
            key = str(value)
        self.escaped(key)
        return key

    def of_strings(self, texts: Sequence[str]) -> str:
        """Return the key with these components. Numbers are in decimal.

        Raises:
            KeyTypeMismatch: the number of components is wrong, or one is not a decimal number.
        """
        values = [
            text if component == StringKeys.name or not _ONLY_DECIMAL.fullmatch(text) else int(text)
            for component, text in zip(self._components, texts, strict=False)
        ]
        return self.written([*values, *texts[len(values) :]])

    def _values(self, text: str, count: int | None) -> list[str | int] | None:
        """Parse ``count`` components, or return None if one does not have its type."""
        try:
            values = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(values, list) or count not in {None, len(values)}:
            return None
        is_fitting = all(
            isinstance(value, str)
            if component == StringKeys.name
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

    def _prefix_string(self, values: list[str | int]) -> str:
        """Return the prefix of all keys with these first components."""
        return f"{self._text(values)[:-1]},"

    def _example(self) -> list[str | int]:
        return ["a" if component == StringKeys.name else 1 for component in self._components]

    def _type_hint(self) -> str:
        return (
            f". Keys have the type {self.name} and are JSON arrays without spaces, for example "
            f"{self._text(self._example())}"
        )


TEXT = StringKeys()
LONG = LongKeys()


@cache
def key_type(name: str) -> KeyType:
    """Return the type of a name: ``text``, ``long``, or components such as ``[text, long]``.

    Raises:
        InvalidDefinition: the type is not known.
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


def _invalid_long_message(value: object) -> str:
    return (
        f"{_shortened(value)} is not a key of this store. Keys are 64-bit integers in decimal "
        "without a plus sign or leading zeros, for example 42"
    )


def _shortened(value: object) -> str:
    return repr(value)[:_SHOWN_CHARS_MAX]
