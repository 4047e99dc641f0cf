"""A converter of one type gives what the rule for all types gives, whatever a function returned."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows.functions.converters import converter, typed

_SCALARS = (pa.float64(), pa.float32(), pa.int64(), pa.int32(), pa.bool_(), pa.string())
_TYPES = (*_SCALARS, *map(pa.list_, _SCALARS), pa.list_(pa.list_(pa.int64())), pa.binary())


class _Text(str):
    __slots__ = ()


#: What functions return by right, by habit and by mistake.
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=3)
    | st.sampled_from([
        2**63 - 1, 2**63, -(2**63), -(2**63) - 1, b"bytes", _Text("ä"), {"a": 1},
        np.float64(0.5), np.float32(0.1), np.int64(7), np.bool_(True), np.str_("numpy"),
        np.array([1.0]), "\ud800",
    ]),
    lambda items: st.lists(items, max_size=3) | st.tuples(items, items),
    max_leaves=5,
)  # fmt: skip


def _outcome(convert: Callable[[], Any]) -> tuple[type, str]:
    """The value or the error, told with its type."""
    try:
        value = convert()
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    # numpy's scalars name their type themselves, in lists, too.
    return type(value), repr(value)


@pytest.mark.parametrize("column_type", _TYPES, ids=str)
@given(value=_VALUES)
def test_a_converter_follows_the_rule(column_type: pa.DataType, value: Any) -> None:
    """The same value of the same types, or the same error; what is exact stays as it is."""
    exact, convert = converter(column_type)
    expected = _outcome(lambda: typed(value, column_type))
    assert _outcome(lambda: convert(value)) == expected
    if type(value) is exact:
        assert _outcome(lambda: value) == expected


def test_a_converted_list_is_another_list() -> None:
    """A function that keeps what it returned can't change the aggregate later."""
    _, convert = converter(pa.list_(pa.list_(pa.float64())))
    returned = [[1.0, math.inf], [2.0]]
    before = copy.deepcopy(returned)
    aggregate = convert(returned)
    returned[0].append(3.0)
    returned.append([])
    assert aggregate == before
