"""Tests of windows as JSON: the json module reads each value of each type back."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.storage.index.rows import json_strings, window_json

_LONGS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
_DOUBLES = st.one_of(st.none(), st.floats())
_TEXTS = st.one_of(st.none(), st.text())
_BOOLEANS = st.one_of(st.none(), st.booleans())


def _read(column_type: Any, values: list[Any]) -> list[Any]:
    return [json.loads(text) for text in json_strings(pa.array(values, column_type)).to_pylist()]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@given(st.lists(_LONGS))
def test_integers_keep_all_digits(values: list[int | None]) -> None:
    """64-bit integers and nulls are read back equal."""
    assert _read(pa.int64(), values) == values


@given(st.lists(_DOUBLES))
def test_doubles_read_back_equal_and_odd_ones_are_null(values: list[float | None]) -> None:
    """Finite doubles are read back equal as floats, and NaN and infinities are null."""
    read = _read(pa.float64(), values)
    assert read == [_finite(value) for value in values]
    assert [value for value in read if not (value is None or isinstance(value, float))] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [(12.0, "12.0"), (0.1, "0.1"), (-0.0, "-0.0"), (1e300, "1e+300"), (5e-324, "5e-324")],
)
def test_doubles_are_as_short_as_can_be(value: float, text: str) -> None:
    """A double has the shortest digits that read back equal, and whole ones keep a point."""
    assert json_strings(pa.array([value])).to_pylist() == [text]


@given(st.lists(_TEXTS))
def test_strings_are_escaped(values: list[str | None]) -> None:
    """Each string is read back equal."""
    assert _read(pa.string(), values) == values


def test_every_control_character_is_escaped() -> None:
    """A string with all control characters, quote and backslash is read back equal."""
    text = "".join(map(chr, range(32))) + '\\"\x7f\u2028é😀'
    assert _read(pa.string(), [text]) == [text]


@given(st.lists(_BOOLEANS))
def test_booleans(values: list[bool | None]) -> None:
    """Booleans and nulls are read back equal."""
    assert _read(pa.bool_(), values) == values


@pytest.mark.parametrize(
    ("column_type", "items"),
    [
        (pa.int64(), _LONGS),
        (pa.float64(), _DOUBLES),
        (pa.string(), _TEXTS),
        (pa.bool_(), _BOOLEANS),
    ],
)
@given(data=st.data())
def test_lists_of_each_type(column_type: Any, items: Any, data: st.DataObject) -> None:
    """Null lists, empty lists and nulls in lists are read back equal."""
    values = data.draw(st.lists(st.one_of(st.none(), st.lists(items, max_size=4)), max_size=6))
    expected = [
        None
        if value is None
        else [_finite(item) if isinstance(item, float) else item for item in value]
        for value in values
    ]
    assert _read(pa.list_(column_type), values) == expected


def test_a_slice_of_a_list_column_has_its_own_items() -> None:
    """A slice of a list column, whose offsets do not start at 0, has its own items."""
    column = pa.array([[1], None, [2, 3], []], pa.list_(pa.int64())).slice(1)
    assert json_strings(column).to_pylist() == ["null", "[2,3]", "[]"]


def test_a_window_is_one_flat_object_in_column_order() -> None:
    """A window is one JSON object without spaces, with names in the order of the columns."""
    columns = [
        ("key", pa.array(['q"', "b"])),
        ("n", pa.array([1, None])),
        ("x", pa.array([1.5, 2])),
    ]
    assert window_json(columns).to_pylist() == [
        b'{"key":"q\\"","n":1,"x":1.5}',
        b'{"key":"b","n":null,"x":2.0}',
    ]


def test_other_types_are_refused() -> None:
    """A type that no store has raises an error with its name."""
    with pytest.raises(TypeError, match="date32"):
        json_strings(pa.array([], pa.date32()))
