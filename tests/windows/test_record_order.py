"""Records of a window are ordered by time, then by arrival, for any order of rows."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.windows.records import window_order
from tests.windows.lineages import lineage

Place = tuple[int, int, int, int, int | None]


def records_of(places: list[Place]) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Table]:
    """Return groups, and a table of (time, partition, offset, lineage)."""
    group, time, partition, offset, index = zip(*places, strict=True) if places else [()] * 5
    return np.array(group, dtype=np.int64), pa.table({
        "timestamp_ms": pa.array(time, pa.int64()),
        "partition": pa.array(partition, pa.int32()),
        "offset": pa.array(offset, pa.int64()),
        "__lineage": pa.array([None if n is None else lineage(n) for n in index], pa.binary()),
    })  # fmt: skip


@pytest.mark.parametrize("most", [0, 1, 2, 40])
@pytest.mark.parametrize("seed", range(5))
def test_equal_times_are_ordered_by_partition_offset_and_lineage(seed: int, most: int) -> None:
    """A shuffled table is sorted as Python sorts tuples. A null lineage counts as 0."""
    random = Random(seed)
    places: list[Place] = [
        (g, t, p, o, s)
        for g in range(2)
        for t in (0, 5, 253_402_300_799_999)
        for p in range(2)
        for o in range(2)
        for s in (None, 1)
    ]
    random.shuffle(places)
    places = places[:most]
    group, table = records_of(places)
    ordered = [places[row] for row in window_order(group, table)]
    assert ordered == sorted(places, key=lambda place: (*place[:4], place[4] or 0))
