"""The functions of expressions return Spark's values where Arrow's own functions differ."""

from typing import Any

import pyarrow as pa
import pytest

from oriel.storage.expressions import Call, ColumnRef, Constant

NAN, INF = float("nan"), float("inf")
LEAST, GREATEST = -(2**63), 2**63 - 1
DOUBLE, LONG, INT, BYTE, TEXT = pa.float64(), pa.int64(), pa.int32(), pa.int8(), pa.string()


@pytest.mark.parametrize(
    ("function", "arguments", "options", "wanted"),
    [
        ("equal", ([NAN, 0.0, NAN], [NAN, -0.0, 1.0]), {}, [True, True, False]),
        ("less", ([NAN, INF, NAN], [INF, NAN, NAN]), {}, [False, True, False]),
        ("greater_equal", ([NAN, INF, None], [NAN, NAN, NAN]), {}, [True, False, None]),
        ("greatest", ([1.0, NAN, None], [NAN, None, None]), {}, [NAN, NAN, None]),
        ("divide", ([1.0, 0.0, None], [-0.0, 2.0, 0.0]), {}, [None, 0.0, None]),
        ("divide", ([LEAST, 7, -7, 1], [-1, 2, 2, 0]), {}, [LEAST, 3, -3, None]),
        ("remainder", ([LEAST, -7, 7, 1], [-1, 3, -3, 0]), {}, [0, -1, 1, None]),
        ("remainder", ([-7.5, INF, 1.0, 1.0], [2.0, 1.0, INF, 0.0]), {}, [-1.5, NAN, 1.0, None]),
        ("positive_remainder", ([-7, 7, 1], [3, -3, 0]), {}, [2, 1, None]),
        ("add", ([GREATEST], [1]), {}, [LEAST]),
        ("abs", ([LEAST],), {}, [LEAST]),
        ("cast", ([2.0**63, -INF, NAN, -1.9],), {"to": LONG}, [GREATEST, LEAST, 0, -1]),
        ("cast", ([200.0, 1e10, -1e10],), {"to": BYTE}, [-56, -1, 0]),
        ("cast", ([2**32 + 5],), {"to": INT}, [5]),
        ("cast", ([NAN, -0.0],), {"to": pa.bool_()}, [True, False]),
        ("floor", ([-0.5, 1e300],), {}, [-1, GREATEST]),
        ("is_in", ([1, 2, None], [1, 3, 1], [None, None, 1]), {}, [True, None, None]),
        ("concat", (["a", None], ["b", "b"]), {}, ["ab", None]),
        ("concat_with", ([None, "a", ""], [None, None, ""]), {"separator": "-"}, ["", "a", "-"]),
        ("replace", (["aé", ""],), {"pattern": "", "replacement": "x"}, ["aé", ""]),
        ("substring", (["a😀b", ""],), {"start": 1, "stop": 2}, ["😀", ""]),
        ("trim", (["  a\t ", "\u00a0"],), {}, ["a\t", "\u00a0"]),
    ],
)  # fmt: skip
def test_a_function_is_sparks(
    function: str, arguments: tuple[list[Any], ...], options: dict[str, Any], wanted: list[Any]
) -> None:
    """A function returns Spark's values for columns, and for the constants of each row."""
    columns = {f"{place}": pa.array(values) for place, values in enumerate(arguments)}
    columns = {
        name: column.cast(next(one.type for one in columns.values() if one.type != pa.null()))
        for name, column in columns.items()
    }
    call = Call(function, tuple(map(ColumnRef, columns)), options)
    assert str(call.evaluate(columns).to_pylist()) == str(wanted)
    for row, value in enumerate(wanted):
        constants = tuple(Constant(column[row]) for column in columns.values())
        assert str(Call(function, constants, options).evaluate({}).as_py()) == str(value)


def test_a_date_of_any_year_has_the_text_of_spark() -> None:
    """Years after 9999 have a sign, and years have at least four digits."""
    days = [-(2**31), -5_000_000, -719_529, -719_528, 0, None, 2_932_896, 2_932_897, 2**31 - 1]
    wanted = [
        "-5877641-06-23", "-11720-06-19", "-0001-12-31", "0000-01-01", "1970-01-01", None,
        "9999-12-31", "+10000-01-01", "+5881580-07-11",
    ]  # fmt: skip
    call = Call("cast", (ColumnRef("d"),), {"to": TEXT})
    for some in (slice(None), slice(3, 7), slice(0, 0)):
        dates = pa.array(days[some], pa.int32()).cast(pa.date32())
        found = call.evaluate({"d": pa.chunked_array([dates])})
        assert found.to_pylist() == wanted[some]
        assert found.type == TEXT


def test_a_condition_that_is_null_does_not_hold() -> None:
    """A null condition does not hold, and the first condition that holds decides."""
    columns = {
        "first": pa.array([True, None, None, False]),
        "second": pa.array([True, True, None, False]),
    }
    values = [Constant(pa.scalar(text)) for text in ("first", "second", "other")]
    call = Call("case_when", (
        ColumnRef("first"), values[0], ColumnRef("second"), values[1], values[2],
    ))  # fmt: skip
    assert call.evaluate(columns).to_pylist() == ["first", "second", "other", "other"]
