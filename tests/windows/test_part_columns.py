"""State rows of one window are merged, and all other rows are unchanged."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline import windows as w
from oriel.pipeline.windows import IllegalArgument, Ranges
from oriel.pipeline.windows.aggregates import PartialAggregates, Pieces, aggregates_of_pieces
from oriel.pipeline.windows.arrays import Floats
from oriel.pipeline.windows.records import LINEAGE
from tests.windows.lineages import lineage

_VALUES = pa.schema([("v", pa.float64())])


def _merged(columns: PartialAggregates, values: list[float], sizes: list[int]) -> pa.Table:
    """Merge one state row per value, in ranges of ``sizes`` rows. ``carried`` is the index."""
    length = len(values)
    rows = columns.of(
        pa.table({
            "v": pa.array(values),
            "timestamp_ms": np.arange(length)[::-1].copy(),
            "partition": pa.array(np.zeros(length), pa.int32()),
            "offset": np.arange(length),
            "carried": np.arange(length),
        }),
        Ranges.side_by_side(np.ones(length, dtype=np.int64)),
    )  # fmt: skip
    return columns.merged(rows, Ranges.side_by_side(np.array(sizes)))


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        (w.count("v"), [1, 2, 1, 3]),
        (w.sum("v"), [5.0, 5.0, 2.0, 13.0]),
        (w.min("v"), [5.0, 1.0, 2.0, 0.0]),
        (w.max("v"), [5.0, 4.0, 2.0, 9.0]),
        (w.first("v"), [5.0, 4.0, 2.0, 0.0]),
        (w.collect_list("v"), [[5.0], [4.0, 1.0], [2.0], [0.0, 9.0, 4.0]]),
        (w.approx_quantile("v", 0.5), [5.0, 4.0, 2.0, 4.0]),
        (w.approx_count_distinct("v"), [1, 2, 1, 3]),
    ],
    ids=lambda aggregate: getattr(aggregate, "call", ""),
)
def test_rows_of_a_range_become_one(aggregate: w.Aggregate, expected: list[object]) -> None:
    """Rows keep their order. The time is the greatest, other columns are from the first row."""
    columns = PartialAggregates({"result": aggregate}, _VALUES, [pa.field("carried", pa.int64())])
    rows = _merged(columns, [5.0, 1.0, 4.0, 2.0, 4.0, 9.0, 0.0], [1, 2, 1, 3])
    assert columns.results(rows)["result"].to_pylist() == expected
    assert rows["timestamp_ms"].to_pylist() == [6, 5, 3, 2]
    assert rows["carried"].to_pylist() == [0, 1, 3, 4]


def test_a_single_row_is_not_merged() -> None:
    """The merge function receives only rows that share a window with another row."""
    merged_states: list[int] = []

    def merge(left: Floats, right: Floats) -> Floats:
        merged_states.append(len(left))
        return np.maximum(left, right)

    most = w.mergeable("most", "v", lift=lambda v: v, merge=merge, result=lambda states: states)
    columns = PartialAggregates({"result": most}, _VALUES)
    merged_states.clear()
    rows = _merged(columns, [float(n) for n in range(100)], [*[1] * 98, 2])
    assert columns.results(rows)["result"].to_pylist() == [*range(98), 99]
    assert merged_states == [1]


@pytest.mark.parametrize(
    ("column", "stayed"),
    [
        (pa.array([5, None, 5, 2**62, 2**62, -7, None, 2**40 + 1], pa.int64()), [-7, 2**40 + 1]),
        (pa.array([0.1, None, 0.1, 1e300, 1e300, -7.5, None, 0.25]), [-7.5, 0.25]),
    ],
    ids=["integers", "doubles"],
)
@pytest.mark.parametrize("make", [w.count, w.sum, w.avg, w.stddev])
def test_changes_of_a_table_add_up_to_its_current_rows(
    make: Callable[[str], w.Aggregate], column: pa.Array, stayed: list[float]
) -> None:
    """Old rows are subtracted from the accumulators of counts and sums, in any steps."""
    schema = pa.schema([("v", column.type)])
    changes = pa.table({
        "v": column,
        "timestamp_ms": np.arange(8),
        "partition": pa.array(np.zeros(8), pa.int32()),
        "offset": np.arange(8),
        # 0 is an old row, 1 is a new row.
        LINEAGE.name: pa.array([lineage(n) for n in (1, 1, 0, 1, 0, 1, 0, 1)], LINEAGE.type),
    })  # fmt: skip
    columns = PartialAggregates({"result": make("v").of_changes()}, schema)
    whole = columns.of(changes, Ranges.side_by_side(np.array([8])))
    steps = columns.merged(columns.of_each(changes), Ranges.side_by_side(np.array([8])))
    plain = PartialAggregates({"result": make("v")}, schema)
    rows = changes.take([5, 7])
    expected = plain.results(plain.of(rows, Ranges.side_by_side(np.array([2]))))
    assert rows["v"].to_pylist() == stayed
    assert columns.results(whole) == columns.results(steps) == expected


@pytest.mark.parametrize(
    ("aggregate", "is_subtractable"),
    [
        (w.count("v"), True),
        (w.sum("v"), True),
        (w.avg("v"), True),
        (w.stddev("v"), True),
        (w.min("v"), False),
        (w.max("v"), False),
        (w.first("v"), False),
        (w.last("v"), False),
        (w.collect_list("v"), False),
        (w.approx_quantile("v", 0.5), False),
        (w.approx_count_distinct("v"), False),
    ],
    ids=lambda aggregate: getattr(aggregate, "call", ""),
)
def test_an_aggregate_knows_whether_rows_can_be_subtracted(
    aggregate: w.Aggregate, *, is_subtractable: bool
) -> None:
    """For example, ``min`` does not know the next value after a retraction of the minimum."""
    assert aggregate.is_subtractable is is_subtractable


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [(w.first("v"), 2.0), (w.last("v"), 3.0), (w.collect_list("v"), [2.0, 1.0, 3.0])],
    ids=lambda aggregate: getattr(aggregate, "call", ""),
)
def test_join_results_of_one_record_are_in_the_order_of_their_lineage(
    aggregate: w.Aggregate, expected: object
) -> None:
    """The results of one record have one source offset, so the other records decide."""
    columns = PartialAggregates({"result": aggregate.with_lineage()}, _VALUES)
    rows = columns.of_each(
        pa.table({
            "v": [1.0, 2.0, 3.0],
            "timestamp_ms": [5, 5, 5],
            "partition": pa.array([0, 0, 0], pa.int32()),
            "offset": [9, 9, 9],
            LINEAGE.name: pa.array([lineage(0, n) for n in (2, 1, 3)], LINEAGE.type),
        })
    )  # fmt: skip
    merged = columns.merged(rows, Ranges.side_by_side(np.array([3])))
    assert columns.results(merged)["result"].to_pylist() == [expected]


def test_two_aggregates_with_one_name_and_other_functions_are_rejected() -> None:
    """Their accumulators would share a column of the state."""
    one, other = (
        w.mergeable("most", "v", lift=lambda v: v, merge=merge, result=lambda states: states)
        for merge in (np.maximum, np.minimum)
    )
    assert PartialAggregates({"a": one, "b": one}, _VALUES).fields
    with pytest.raises(IllegalArgument, match=r"two different aggregates have the name most\(v\)"):
        PartialAggregates({"a": one, "b": other}, _VALUES)


@pytest.mark.parametrize(
    "aggregates",
    [
        {"values": w.collect_list("v")},
        {"total": w.sum("v")},
        {"values": w.collect_list("v"), "total": w.sum("v")},
    ],
    ids=["lists", "accumulators", "both"],
)
def test_a_window_in_pieces_has_the_aggregates_of_its_members(
    aggregates: dict[str, w.Aggregate],
) -> None:
    """Sums are merged from the pieces, and lists are created from all members."""
    rows = pa.table({
        "v": [1.0, 2.0, 4.0],
        "timestamp_ms": [0, 1, 2],
        "partition": pa.array([0, 0, 0], pa.int32()),
        "offset": [0, 1, 2],
    })  # fmt: skip

    def pieces(window: list[int], row: list[int], sizes: list[int]) -> Pieces:
        return Pieces(np.array(window), np.array(row), Ranges.side_by_side(np.array(sizes)))

    found = aggregates_of_pieces(
        aggregates,
        rows,
        [pieces([0, 1], [0, 1, 1], [2, 1]), pieces([1], [2], [1])],
        [pieces([0, 1], [0, 1, 1, 2], [2, 2])],
    )
    expected = {"values": [[1.0, 2.0], [2.0, 4.0]], "total": [3.0, 6.0]}
    assert {name: column.to_pylist() for name, column in found.items()} == {
        name: expected[name] for name in aggregates
    }
