"""The converter of a type has the results of the general rule, for any returned value."""

import copy
import math
from collections.abc import Callable
from enum import IntEnum, StrEnum
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import python_values
from oriel.pipeline.windows.functions.converters import converter, typed

_SCALARS = (pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.bool_(), pa.string())
_STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
_TYPES = (
    *_SCALARS,
    *map(pa.list_, _SCALARS),
    pa.list_(pa.list_(pa.int64())),
    pa.binary(),
    _STRUCT,
    pa.list_(_STRUCT),
    *(pa.map_(pa.string(), item_type) for item_type in (*_SCALARS, _STRUCT)),
    pa.map_(pa.int64(), pa.float64()),
)


class _Text(str):
    __slots__ = ()


class _Word(StrEnum):
    TEA = "tea"


class _Number(IntEnum):
    ONE = 1


class _Integer(int):
    pass


class _Double(float):
    pass


class _List(list[Any]):
    pass


class _Dict(dict[Any, Any]):
    pass


#: Values that functions return: valid ones, other types with equal values, and invalid ones.
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.sampled_from([
        2**63 - 1, 2**63, -(2**63), -(2**63) - 1, b"bytes", _Text("ä"), {"a": 1},
        10**310, 1e39, 0.1, _Text("a"), _Word.TEA, _Number.ONE, _Integer(2), _Double(0.5),
        _List([1]), _Dict(a=1, b=[]),
        np.float64(0.5), np.float32(0.1), np.int64(7), np.bool_(True), np.str_("numpy"),
        np.array([1.0]), "\ud800",
    ]),
    lambda items: (
        st.lists(items, max_size=3)
        | st.tuples(items, items)
        | st.dictionaries(st.sampled_from(["a", "b", 1, None, _Text("ä")]), items, max_size=3)
        | st.fixed_dictionaries({"a": items, "b": items})
    ),
    max_leaves=5,
)  # fmt: skip


def _outcome(convert: Callable[[], Any]) -> tuple[type, str]:
    """Return the type and the text of the value or of the error."""
    try:
        value = convert()
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    # The text of a numpy scalar contains its type, also in a list.
    return type(value), repr(value)


@pytest.mark.parametrize("column_type", _TYPES, ids=str)
@given(value=_VALUES)
def test_a_converter_follows_the_rule(column_type: pa.DataType, value: Any) -> None:
    """The value and its types are equal, or the error is. An exact value is not changed."""
    exact, convert = converter(column_type)
    expected = _outcome(lambda: typed(value, column_type))
    assert _outcome(lambda: convert(value)) == expected
    if type(value) is exact:
        assert _outcome(lambda: value) == expected


@pytest.mark.parametrize("column_type", _TYPES, ids=str)
@given(value=_VALUES)
def test_a_converted_value_equals_the_value_that_a_state_returns(
    column_type: pa.DataType, value: Any
) -> None:
    """The next call receives the same aggregate, whether a batch ends before it or not."""
    try:
        converted = converter(column_type).convert(value)
    except (TypeError, ValueError):
        return
    (read,) = python_values(pa.array([converted], column_type))
    assert (type(read), repr(read)) == (type(converted), repr(converted))


@pytest.mark.parametrize("rule", ["converter", "typed"])
@pytest.mark.parametrize(
    ("column_type", "value", "expected"),
    [
        (pa.int64(), -(2**63), -(2**63)), (pa.int64(), 2**63 - 1, 2**63 - 1),
        (pa.int64(), -(2**63) - 1, ValueError), (pa.int64(), 2**63, ValueError),
        (pa.int32(), -(2**31), -(2**31)), (pa.int32(), -(2**31) - 1, ValueError),
        (pa.int32(), 2**31 - 1, 2**31 - 1), (pa.int32(), 2**31, ValueError),
        (pa.int64(), 1.0, TypeError), (pa.int64(), "1", TypeError), (pa.int64(), None, None),
        (pa.float64(), 3, 3.0), (pa.float64(), "3", TypeError), (pa.float64(), 10**310, ValueError),
        (pa.float64(), 0.1, 0.1), (pa.float32(), 0.1, float(np.float32(0.1))),
        (pa.float32(), 1e39, math.inf), (pa.float32(), -1e39, -math.inf),
        (pa.float32(), 2**24 + 1, 2.0**24), (pa.float32(), 1e-46, 0.0),
        (pa.float64(), _Double(0.5), 0.5), (pa.float64(), True, 1.0),
        (pa.int64(), _Number.ONE, 1), (pa.int64(), _Integer(2), 2), (pa.int64(), True, 1),
        (pa.string(), _Word.TEA, "tea"), (pa.string(), _Text("a"), "a"),
        (pa.string(), _Text("ä"), "ä"),
        (pa.list_(pa.int64()), _List([_Integer(2)]), [2]),
        (_STRUCT, _Dict(a=1, b=_List()), {"a": 1, "b": []}),
        (pa.bool_(), True, True), (pa.bool_(), 1, TypeError), (pa.string(), True, TypeError),
        (pa.string(), "é", "é"), (pa.string(), "\ud800", ValueError), (pa.string(), 1, TypeError),
        (pa.list_(pa.int32()), (1, None), [1, None]), (pa.list_(pa.int32()), [2**31], ValueError),
        (pa.list_(pa.int32()), 1, TypeError), (_STRUCT, {"a": 1}, TypeError),
        (_STRUCT, {"a": 1, "b": None}, {"a": 1, "b": None}), (_STRUCT, [1], TypeError),
    ],
)  # fmt: skip
def test_values_and_errors_of_the_rule(
    rule: str, column_type: pa.DataType, value: Any, expected: Any
) -> None:
    """Integers have bounds. Numbers, strings and booleans are not converted to each other."""
    convert = (
        converter(column_type)[1]
        if rule == "converter"
        else partial(typed, column_type=column_type)
    )
    if isinstance(expected, type):
        with pytest.raises(expected):
            convert(value)
    else:
        found = convert(value)
        assert (repr(found), type(found)) == (repr(expected), type(expected))


def test_a_converted_value_is_another_object() -> None:
    """A function that keeps a reference to its result cannot change the aggregate later."""
    _, convert = converter(pa.list_(pa.list_(pa.float64())))
    returned = [[1.0, math.inf], [2.0]]
    before = copy.deepcopy(returned)
    aggregate = convert(returned)
    returned[0].append(3.0)
    returned.append([])
    assert aggregate == before
    _, convert = converter(pa.map_(pa.string(), _STRUCT))
    returned_map: dict[str, Any] = {"k": {"a": 1, "b": ["x"]}}
    before_map = copy.deepcopy(returned_map)
    aggregate = convert(returned_map)
    returned_map["k"]["b"].append("y")
    returned_map["k"]["a"] = 2
    returned_map["l"] = None
    assert aggregate == before_map


_PATHS: list[tuple[pa.DataType, Any, str]] = [
    (pa.int64(), "x", "TypeError: m: 'x' is not of type int64"),
    (pa.list_(pa.int32()), [1, 2**31], "ValueError: m[1]: 2147483648 does not fit into 32 bits"),
    (
        pa.list_(_STRUCT),
        [{"a": 1, "b": []}, {"a": "x", "b": []}],
        "TypeError: m[1].a: 'x' is not of type int64",
    ),
    (_STRUCT, {"a": 1, "b": [None, 5]}, "TypeError: m.b[1]: 5 is not of type string"),
    (
        _STRUCT,
        {"a": 1, "c": 2},
        (
            f"TypeError: m: {{'a': 1, 'c': 2}} is not of type {_STRUCT}, "
            "which has no field 'c' and needs 'b' (use None for null)"
        ),
    ),
    (
        pa.map_(pa.string(), _STRUCT),
        {"k": {"a": 1.5, "b": None}},
        "TypeError: m['k'].a: 1.5 is not of type int64",
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        {5: 1},
        "TypeError: m, the key 5: 5 is not of type string",
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        {None: 1},
        "TypeError: m: None cannot be a key of a map<string, int64>",
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        [("a", 1)],
        "TypeError: m: [('a', 1)] is not of type map<string, int64>",
    ),
    (
        pa.list_(pa.float64()),
        [0, 10**310],
        f"ValueError: m[1]: {10**310} does not fit into the type double",
    ),
    (
        pa.map_(pa.string(), pa.float32()),
        {"k": -(10**310)},
        f"ValueError: m['k']: {-(10**310)} does not fit into the type float",
    ),
    (
        _STRUCT,
        {"a": 10**5000, "b": []},
        "ValueError: m.a: an object of the type int does not fit into 64 bits",
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        {10**5000: 1},
        (
            "TypeError: m, the key an object of the type int: an object of the type int is not of "
            "type string"
        ),
    ),
    (
        pa.list_(pa.string()),
        ["a", "\ud800"],
        "ValueError: m[1]: '\\ud800' has half a surrogate pair, which UTF-8 cannot encode",
    ),
]


@pytest.mark.parametrize(("column_type", "value", "message"), _PATHS)
def test_an_error_has_the_path_of_the_invalid_value(
    column_type: pa.DataType, value: Any, message: str
) -> None:
    """The path starts with the column, and contains struct fields, map keys and list indexes."""
    _, convert = converter(column_type, "m")
    with pytest.raises((TypeError, ValueError)) as caught:
        convert(value)
    assert f"{type(caught.value).__name__}: {caught.value}" == message


def test_a_converted_value_equals_the_value_in_arrow() -> None:
    """Dicts become structs and maps, and nulls stay null at every depth."""
    column_type = pa.list_(pa.map_(pa.string(), _STRUCT))
    returned = [{"k": {"b": ("x", None), "a": np.int64(1)}, "n": None}, None, {}]
    aggregate = converter(column_type).convert(returned)
    assert aggregate == [{"k": {"a": 1, "b": ["x", None]}, "n": None}, None, {}]
    held = pa.array([aggregate, None], column_type)
    assert held.to_pylist(maps_as_pydicts="strict") == [aggregate, None]
