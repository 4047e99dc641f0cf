"""State rows of one window are put together, and all others left as they are."""

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline import windows as w
from oriel.pipeline.windows import Ranges
from oriel.pipeline.windows.aggregates import PartColumns
from oriel.pipeline.windows.arrays import Floats

_VALUES = pa.schema([("v", pa.float64())])


def _merged(columns: PartColumns, values: list[float], sizes: list[int]) -> pa.Table:
    """Merge one state row a value, so many to a range; ``carried`` is the row's number."""
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
    """Alone or with others, in their places; the time is the greatest, the rest the first's."""
    columns = PartColumns({"result": aggregate}, _VALUES, [pa.field("carried", pa.int64())])
    rows = _merged(columns, [5.0, 1.0, 4.0, 2.0, 4.0, 9.0, 0.0], [1, 2, 1, 3])
    assert columns.results(rows)["result"].to_pylist() == expected
    assert rows["timestamp_ms"].to_pylist() == [6, 5, 3, 2]
    assert rows["carried"].to_pylist() == [0, 1, 3, 4]


def test_a_row_that_is_alone_is_not_merged() -> None:
    """The merging is called for those that share a window, however many others there are."""
    merged_states: list[int] = []

    def merge(left: Floats, right: Floats) -> Floats:
        merged_states.append(len(left))
        return np.maximum(left, right)

    most = w.mergeable("most", "v", lift=lambda v: v, merge=merge, result=lambda states: states)
    columns = PartColumns({"result": most}, _VALUES)
    merged_states.clear()
    rows = _merged(columns, [float(n) for n in range(100)], [*[1] * 98, 2])
    assert columns.results(rows)["result"].to_pylist() == [*range(98), 99]
    assert merged_states == [1]
