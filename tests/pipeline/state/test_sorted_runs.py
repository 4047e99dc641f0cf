"""Segments of a keyed state, and the rows that belong to a slice of a merge."""

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.state.sorted_runs import Segment

_LAST = 2**63 - 1
_HASHES = [-(2**63), -1, 5, 5, _LAST - 1, _LAST]


@pytest.mark.parametrize(
    ("from_hash", "until_hash", "expected"),
    [
        (-(2**63), None, _HASHES),
        (-(2**63), _LAST, _HASHES[:-1]),
        (-(2**63), _LAST + 1, _HASHES),
        (-1, 5, [-1]),
        (5, 6, [5, 5]),
        (6, _LAST - 1, []),
        (_LAST, _LAST + 1, [_LAST]),
        (_LAST, None, [_LAST]),
    ],
)
def test_a_slice_has_its_first_hash_and_not_the_one_where_it_ends(
    from_hash: int, until_hash: int | None, expected: list[int]
) -> None:
    """The last slice ends after the greatest hash, which no 64-bit integer follows."""
    hashes = np.array(_HASHES, dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    segment = Segment("name", 0, pa.table({"hash": hashes}), hashes, none, none)
    assert segment.rows_from_hash(from_hash, until_hash)["hash"].to_pylist() == expected
