"""Each aggregate with its types and with difficult values."""

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline import windows as w
from oriel.pipeline.windows import Ranges
from oriel.pipeline.windows.aggregates import Members


def evaluate(aggregate: w.Aggregate, column: pa.Array, *ranges: tuple[int, int]) -> list[Any]:
    """Evaluate ``aggregate`` of column ``v`` over index ranges, and check the type."""
    table = pa.table({"v": column})
    low, high = (np.array([r[i] for r in ranges], dtype=np.int64) for i in range(2))
    result = aggregate.of(Members(table, Ranges(low, high)))
    assert result.type == aggregate.output_type(table.schema)
    results: list[Any] = result.to_pylist()
    return results


STRINGS = pa.array(["b", None, "ä", "a", "b"])
INTEGERS = pa.array([2**62, 1, None, -(2**53) - 1], pa.int64())


@pytest.mark.parametrize(
    ("aggregate", "column", "expected"),
    [
        (w.count(), STRINGS, 5),
        (w.count("v"), STRINGS, 4),
        (w.min("v"), STRINGS, "a"),
        (w.max("v"), STRINGS, "ä"),
        (w.first("v"), STRINGS, "b"),
        (w.last("v"), STRINGS, "b"),
        (w.collect_list("v"), STRINGS, ["b", "ä", "a", "b"]),
        (w.approx_count_distinct("v"), STRINGS, 3),
        (w.sum("v"), INTEGERS, 2**62 - 2**53),
        (w.min("v"), INTEGERS, -(2**53) - 1),
        (w.max("v"), INTEGERS, 2**62),
        (w.avg("v"), pa.array([1, 2, 4], pa.int32()), 7 / 3),
        (w.sum("v"), pa.array([1, 2, 4], pa.int8()), 7),
        (w.sum("v"), pa.array([0.5, 0.25], pa.float32()), 0.75),
        (w.max("v"), pa.array([True, False]), True),
        (w.approx_quantile("v", 0.5), pa.array([3.0, 1.0, 2.0]), 2.0),
    ],
)
def test_an_aggregate_of_all_rows(aggregate: w.Aggregate, column: pa.Array, expected: Any) -> None:
    """Nulls are skipped, integers keep every digit, strings order by their bytes."""
    assert evaluate(aggregate, column, (0, len(column))) == [expected]


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (w.count("v"), 0),
        (w.sum("v"), None),
        (w.min("v"), None),
        (w.max("v"), None),
        (w.avg("v"), None),
        (w.stddev("v"), None),
        (w.first("v"), None),
        (w.last("v"), None),
        (w.collect_list("v"), []),
        (w.approx_count_distinct("v"), 0),
        (w.approx_quantile("v", 0.5), None),
    ],
)
def test_a_window_without_a_value_is_null(aggregate: w.Aggregate, expected: Any) -> None:
    """A window whose values are all null has a null aggregate, 0 counts or an empty list."""
    column = pa.array([1.0, None, None], pa.float64())
    assert evaluate(aggregate, column, (1, 3), (1, 2))[0] == expected


def test_not_a_number_is_above_every_number() -> None:
    """Min and max order NaN last, as Spark does."""
    column = pa.array([math.nan, 1.0, math.inf])
    assert evaluate(w.min("v"), column, (0, 3)) == [1.0]
    assert math.isnan(evaluate(w.max("v"), column, (0, 3))[0])


def test_sums_of_infinities_follow_ieee_754() -> None:
    """The sum of opposite infinities is NaN. The sum of one infinity and numbers is infinite."""
    column = pa.array([math.inf, 1.0, -math.inf, math.nan])
    sums = evaluate(w.sum("v"), column, (0, 2), (1, 3), (0, 3), (1, 2), (3, 4))
    assert sums[:2] == [math.inf, -math.inf]
    assert math.isnan(sums[2])
    assert sums[3] == 1.0
    assert math.isnan(sums[4])


def test_minus_zero_reads_as_zero() -> None:
    """0.0 and -0.0 are equal, so results do not depend on their order."""
    column = pa.array([-0.0, 0.0])
    for aggregate in (w.min("v"), w.max("v"), w.sum("v")):
        assert math.copysign(1, evaluate(aggregate, column, (0, 1))[0]) == 1


@given(
    st.lists(st.floats(allow_infinity=True) | st.none(), min_size=1, max_size=40),
    st.floats(0, 1),
    st.data(),
)
def test_a_quantile_is_a_value_of_its_window(
    values: list[float | None], probability: float, data: st.DataObject
) -> None:
    """The quantile is the same with records and with sketches. NaN does not count."""
    aggregate, column = w.approx_quantile("v", probability), pa.array(values, pa.float64())
    ends = st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))
    pairs = [(min(e), max(e)) for e in data.draw(st.lists(ends, min_size=1, max_size=8))]
    expected = []
    for low, high in pairs:
        own = sorted(v + 0.0 for v in values[low:high] if v is not None and not math.isnan(v))
        place = min(math.floor(probability * len(own)), len(own) - 1)
        expected.append(own[place] if own else None)
    assert repr(evaluate(aggregate, column, *pairs)) == repr(expected)
    lows, highs = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2))
    members = Members(pa.table({"v": column}), Ranges(lows, highs))
    rule = aggregate.rule(column.type)
    by_parts = rule.finish(*(part.of(members) for part in aggregate.parts(column.type)))
    assert repr(by_parts.to_pylist()) == repr(expected)


@pytest.mark.parametrize(
    ("column", "different"),
    [
        (pa.array([0.0, -0.0, math.nan, -math.nan, math.inf, None]), 3),
        (pa.array([2**62, 2**62 + 1, 2**62]), 2),
        (pa.array(["a", "", None, "a"]), 2),
        (pa.array([True, None, True]), 1),
    ],
)
def test_equal_values_count_once(column: pa.Array, different: int) -> None:
    """With records and with sketches, all zeros are one value, and all NaN are one value."""
    aggregate = w.approx_count_distinct("v")
    assert evaluate(aggregate, column, (0, len(column))) == [different]
    members = Members(pa.table({"v": column}), Ranges(np.array([0]), np.array([len(column)])))
    rule = aggregate.rule(column.type)
    by_parts = rule.finish(*(part.of(members) for part in aggregate.parts(column.type)))
    assert by_parts.to_pylist() == [different]


def test_distinct_values_of_records_are_counted_exactly() -> None:
    """A sketch of 16 registers has an error of a fifth, but a window with records is exact."""
    column = pa.array(np.arange(1000) % 700)
    counted = evaluate(w.approx_count_distinct("v", 4), column, (0, 1000), (650, 1000), (1, 2))
    assert counted == [700, 350, 1]


@pytest.mark.parametrize(
    ("probability", "expected"),
    [(0, 0.0), (0.25, 31.25), (Fraction(1, 4), 31.25), (0.5, 62.5), (0.999, 124.875), (1, 124.875)],
)
def test_a_quantile_of_many_values_is_exact(probability: float, expected: float) -> None:
    """The quantile is one of a thousand values, and not the estimate of a digest."""
    column = pa.array(np.random.default_rng(1).permutation(1000) / 8)
    assert evaluate(w.approx_quantile("v", probability), column, (0, 1000)) == [expected]


@given(st.lists(st.integers(-50, 50) | st.none(), min_size=1, max_size=40), st.data())
def test_extremes_of_any_range(values: list[int | None], data: st.DataObject) -> None:
    """Min and max of overlapping ranges equal Python's own."""
    ends = st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))
    ranges = [(min(e), max(e)) for e in data.draw(st.lists(ends, min_size=1, max_size=8))]
    column = pa.array(values, pa.int64())
    parts = [[v for v in values[low:high] if v is not None] for low, high in ranges]
    assert evaluate(w.min("v"), column, *ranges) == [min(p, default=None) for p in parts]
    assert evaluate(w.max("v"), column, *ranges) == [max(p, default=None) for p in parts]


@pytest.mark.parametrize("aggregate", [w.sum, w.avg, w.stddev, w.first, w.last, w.collect_list])
@given(st.lists(st.floats(width=32) | st.none(), min_size=1, max_size=20), st.data())
def test_results_directly_from_values_are_those_of_the_parts(
    aggregate: Any, values: list[float | None], data: st.DataObject
) -> None:
    """Windows with records need no partial aggregates, and their results have the same bits."""
    column = pa.array(values, pa.float32())
    ends = st.tuples(st.integers(0, len(values)), st.integers(0, len(values)))
    pairs = [(min(e), max(e)) for e in data.draw(st.lists(ends, min_size=1, max_size=8))]
    low, high = (np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2))
    partitions = pa.array(np.zeros(len(values)), pa.int32())
    place = np.arange(len(values))
    rows = {"v": column, "timestamp_ms": place, "partition": partitions, "offset": place}
    members = Members(pa.table(rows), Ranges(low, high))
    rule = aggregate("v").rule(column.type)
    assert rule.directly is not None
    directly = rule.directly(members.values("v"))
    by_parts = rule.finish(*(part.of(members) for part in aggregate("v").parts(column.type)))
    assert repr(directly.to_pylist()) == repr(by_parts.to_pylist())


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (w.avg("missing"), "avg(missing): no column 'missing'. The columns are ['v', 't']"),
        (w.sum("t"), "sum(t): does not accept a column of type string"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(aggregate: w.Aggregate, message: str) -> None:
    """The message names the call, the column and the existing columns."""
    schema = pa.schema([("v", pa.int64()), ("t", pa.string())])
    with pytest.raises(w.IllegalArgument, match=re.escape(message)):
        aggregate.output_type(schema)


@pytest.mark.parametrize(
    "make", [lambda: w.approx_quantile("v", 1.5), lambda: w.approx_count_distinct("v", 3)]
)
def test_sketch_parameters_are_checked(make: Any) -> None:
    """A probability above 1 and a sketch that is smaller than allowed are illegal arguments."""
    with pytest.raises(w.IllegalArgument, match="must be"):
        make()
