"""Tests of key types: order, canonical strings, and equal bytes from scalar and vectorized code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage.errors import InvalidDefinition, KeyTypeMismatch
from oriel.storage.key_codec import (
    LMDB_KEY_BYTES_MAX,
    after_key,
    decode_prefix,
    is_long,
    key_prefix,
    key_span,
    prefix_of,
    record_key,
    record_keys,
    scan_start,
)
from oriel.storage.key_types import LONG, TEXT, CompositeKeys, KeyType, key_type
from oriel.testing.typed_key_conformance import UNFIT_KEYS

_LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.sampled_from([-(2**63), -(2**32), -256, 0, 255, 256, 2**32, 2**63 - 1]),
)
_TEXTS = st.one_of(
    st.text(max_size=8),
    st.text(alphabet=st.sampled_from("ab\x00\x01\x02\x7fé\uffff😀"), max_size=9),
    st.text(alphabet="a\x00é", min_size=440, max_size=470),
)
_COMPONENTS = {"text": _TEXTS, "long": _LONGS}
_TYPES = ("[text, long]", "[long, text]", "[text, text]", "[long, long, text]", "[text]", "[long]")

Values = Sequence[str | int]


def _text_of(values: Values) -> str:
    return orjson.dumps(values).decode()


def _comparable(values: Values) -> tuple[bytes | int, ...]:
    return tuple(each.encode() if isinstance(each, str) else each for each in values)


@st.composite
def _composites(draw: st.DrawFn, count: int) -> tuple[KeyType, list[Values]]:
    """Draw a composite type and keys of this type as values."""
    composite = key_type(draw(st.sampled_from(_TYPES)))
    components = [_COMPONENTS[name] for name in composite.name.strip("[]").split(", ")]
    return composite, [draw(st.tuples(*components)) for _ in range(count)]


@given(_LONGS, _LONGS)
def test_the_bytes_of_longs_are_in_the_order_of_the_numbers(first: int, second: int) -> None:
    """The bytes of `long` keys have the order of the numbers, from -2^63 to 2^63 - 1."""
    encoded = [record_key(str(each), 5, 9, LONG) for each in (first, second)]
    assert (encoded[0] < encoded[1]) == (first < second)
    assert decode_prefix(prefix_of(encoded[0]), LONG) == str(first)


@given(_composites(2))
def test_the_bytes_of_composites_are_in_the_order_of_their_components(
    drawn: tuple[KeyType, list[Values]],
) -> None:
    """Short composites are ordered by their components, and each long one has its own bytes."""
    composite, (first, second) = drawn
    prefixes = [key_prefix(_text_of(values), composite) for values in (first, second)]
    if not any(map(is_long, prefixes)):
        is_less = _comparable(first) < _comparable(second)
        assert (prefixes[0] < prefixes[1]) == is_less
    assert (prefixes[0] == prefixes[1]) == (first == second)
    assert composite.escaped(_text_of(first)) < composite.escaped(_text_of(second)) or (
        _comparable(first) >= _comparable(second)
    )


@given(_composites(1))
def test_composites_read_back(drawn: tuple[KeyType, list[Values]]) -> None:
    """Short composites are decoded completely, with any number of zero bytes."""
    composite, (values,) = drawn
    prefix = key_prefix(_text_of(values), composite)
    assert decode_prefix(prefix, composite) == (None if is_long(prefix) else _text_of(values))
    assert composite.key_of(composite.escaped(_text_of(values))) == _text_of(values)
    assert len(record_key(_text_of(values), 0, 0, composite)) <= LMDB_KEY_BYTES_MAX


@given(_composites(2))
def test_the_windows_of_a_composite_lie_together(drawn: tuple[KeyType, list[Values]]) -> None:
    """The prefix of a composite is never a prefix of another key."""
    composite, (first, second) = drawn
    prefix = key_prefix(_text_of(first), composite)
    other = record_key(_text_of(second), 7, 9, composite)
    assert (prefix <= other < after_key(prefix)) == (first == second)


@given(_composites(3), st.booleans(), st.booleans())
def test_a_span_has_exactly_the_composites_between_its_bounds(
    drawn: tuple[KeyType, list[Values]], has_from: bool, has_to: bool
) -> None:
    """A span has exactly the composites between its bounds with its first components."""
    composite, (values, least, greatest) = drawn
    key_from = _text_of(least) if has_from else None
    key_to = _text_of(greatest) if has_to else None
    for count in range(len(values)):
        prefix = _text_of(values[:count])[:-1] + "," if count else ""
        for key in (values, least):
            expected = (
                (not has_from or _comparable(least) <= _comparable(key))
                and (not has_to or _comparable(key) <= _comparable(greatest))
                and key[:count] == values[:count]
            )
            low, high, has = key_span(key_from, key_to, prefix, composite)
            is_met = low <= record_key(_text_of(key), 0, 5, composite) < high
            assert (is_met and (has is None or has(_text_of(key)))) == expected
        assert key_prefix(_text_of(values), composite).startswith(scan_start(prefix, composite))


@given(st.lists(_LONGS, max_size=20), _composites(5))
def test_whole_columns_give_the_same_bytes(
    longs: list[int], drawn: tuple[KeyType, list[Values]]
) -> None:
    """Vectorized and scalar encoding return the same bytes and accept the same keys."""
    composite, values = drawn
    for keys, of_type in (([*map(str, longs)], LONG), ([*map(_text_of, values)], composite)):
        column, times = pa.array(keys, pa.string()), np.arange(len(keys))
        expected = [record_key(key, at, at, of_type) for at, key in enumerate(keys)]
        assert record_keys(column, times, times, of_type).to_pylist() == expected
        assert of_type.fitting(column).to_pylist() == [True] * len(keys)


@pytest.mark.parametrize("name", UNFIT_KEYS)
def test_what_is_no_key_is_refused_one_by_one_and_in_columns(name: str) -> None:
    """Invalid keys are rejected by scalar and vectorized code, including non-canonical ones."""
    of_type = key_type(name)
    for key in UNFIT_KEYS[name]:
        with pytest.raises(KeyTypeMismatch, match="is not a key of this store"):
            of_type.escaped(key)
    keys = [*UNFIT_KEYS[name], None]
    fitting = of_type.fitting(pa.array(keys, pa.string())).to_pylist()
    assert [key for key, fits in zip(keys, fitting, strict=True) if fits] == []


def test_the_error_for_a_wrong_prefix_has_the_valid_form() -> None:
    """The error for an invalid prefix has an example of a valid one, if one exists."""
    with pytest.raises(KeyTypeMismatch, match=r'ends with a comma, for example \["a",1,$'):
        key_type("[text, long, text]").escaped_prefix('["a"')
    with pytest.raises(KeyTypeMismatch, match="only one component"):
        key_type("[text]").escaped_prefix('["a",')


def test_the_error_for_another_spelling_of_a_key_has_the_canonical_one() -> None:
    """The error for JSON in another spelling has the canonical spelling."""
    with pytest.raises(KeyTypeMismatch, match=r'Write \["é",1\]'):
        key_type("[text, long]").escaped('["\\u00e9", 1]')


@pytest.mark.parametrize(
    ("of_type", "value", "key"),
    [
        (TEXT, "a", "a"),
        (LONG, 7, "7"),
        (LONG, "-7", "-7"),
        (key_type("[text, long]"), ["a", 7], '["a",7]'),
        (key_type("[text, long]"), '["a",7]', '["a",7]'),
    ],
)
def test_values_of_json_become_texts(of_type: KeyType, value: Any, key: str) -> None:
    """JSON values in a request body are converted to key strings."""
    assert of_type.written(value) == key


@pytest.mark.parametrize(
    ("of_type", "value"),
    [
        (TEXT, 7), (TEXT, ["a"]), (LONG, True), (LONG, 1.0), (LONG, 2**63), (LONG, "a"),
        (key_type("[text, long]"), ["a"]), (key_type("[text, long]"), {"a": 1}),
        (key_type("[text, long]"), ["a", 2**80]), (key_type("[text, long]"), None),
    ],
)  # fmt: skip
def test_values_that_are_no_keys_are_refused(of_type: KeyType, value: Any) -> None:
    """JSON values with wrong types or a wrong number of components are rejected."""
    with pytest.raises(KeyTypeMismatch):
        of_type.written(value)


@pytest.mark.parametrize(
    "name", ["", "int", "[]", "[int]", "[text,long]", "text, long", "[[text]]"]
)
def test_an_unknown_type_is_refused(name: str) -> None:
    """The error for an unknown key type names the valid types."""
    with pytest.raises(InvalidDefinition, match="text, long or a composite"):
        key_type(name)


def test_the_bytes_are_what_the_documentation_says() -> None:
    """Each example of docs/reference/keys.md has the documented bytes."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "keys.md").read_text()
    _, _, table = page.partition("| type | key | bytes |\n|---|---|---|\n")
    rows = [line.split("|")[1:4] for line in table.splitlines() if line]
    examples = [[cell.strip().strip("`") for cell in row] for row in rows]
    assert len(examples) >= 8
    for name, text, octets in examples:
        escaped = key_type(name).escaped("" if text == "(empty)" else text)
        assert escaped.hex(" ") == ("" if octets == "(none)" else octets)


def test_a_string_key_only_must_not_be_null() -> None:
    """Each string, but not null, is a key of type `text`."""
    assert TEXT.fitting(pa.array(["a", "", "\x00", None])).to_pylist() == [True, True, True, False]


@pytest.mark.parametrize("name", ["[text, long]", "[long]", "[text]"])
def test_bytes_that_no_key_has_are_refused(name: str) -> None:
    """Bytes that no key can have raise an error instead of returning another key."""
    with pytest.raises(KeyTypeMismatch, match="00 00 00 are not a key of the type"):
        key_type(name).key_of(bytes(3))


def test_a_composite_is_made_of_the_strings_of_its_components() -> None:
    """A composite key is built from strings, with decimal numbers for `long` components."""
    of_type = key_type("[text, long]")
    assert isinstance(of_type, CompositeKeys)
    assert of_type.of_strings(["7", "-7"]) == '["7",-7]'
    for texts in (["a", "b"], ["a", "07"], ["a"], ["a", "7", "7"]):
        with pytest.raises(KeyTypeMismatch, match="is not a key of this store"):
            of_type.of_strings(texts)
