"""Operations on index ranges equal plain Python."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import Ranges

_FLAGS = st.lists(st.booleans(), min_size=1, max_size=12)


def _ranges(*pairs: tuple[int, int]) -> Ranges:
    return Ranges(*(np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(2)))


@pytest.mark.parametrize("head", [[], [True], [True, False, True, True, False]])
def test_runs_go_from_mark_to_mark(head: list[bool]) -> None:
    """Each marked row starts a run. The last run ends with the last row."""
    bounds = [*(i for i, begins in enumerate(head) if begins), len(head)]
    ranges = Ranges.of_runs(np.array(head, dtype=np.bool_))
    assert ranges.pairs() == list(pairwise(bounds))


@pytest.mark.parametrize(
    ("sizes", "pairs"), [([], []), ([2, 0, 3], [(0, 2), (2, 2), (2, 5)]), ([1], [(0, 1)])]
)
def test_ranges_of_sizes_follow_each_other(sizes: list[int], pairs: list[tuple[int, int]]) -> None:
    """A range starts at the end of the previous one, also if it is empty."""
    assert Ranges.side_by_side(np.array(sizes, dtype=np.int64)).pairs() == pairs


def test_rows_and_their_owners() -> None:
    """Rows are listed by range, with the index of the range. A row in two ranges occurs twice."""
    ranges = _ranges((3, 5), (4, 4), (0, 4))
    assert ranges.rows()[1].tolist() == [3, 4, 0, 1, 2, 3]
    assert ranges.owners.tolist() == [0, 0, 2, 2, 2, 2]


@given(_FLAGS, st.data())
def test_flags_and_totals_of_ranges(flags: list[bool], data: st.DataObject) -> None:
    """Totals, flags in a range and the range of flagged rows equal those of plain lists."""
    low = data.draw(st.integers(0, len(flags)))
    high = data.draw(st.integers(low, len(flags)))
    ranges, mask = _ranges((low, high), (0, 0)), np.array(flags)
    numbers = np.arange(len(flags)) - 3
    assert ranges.totals(numbers).tolist() == [int(numbers[low:high].sum()), 0]
    assert ranges.any_of(mask).tolist() == [any(flags[low:high]), False]
    ((mask_low, mask_high), _) = ranges.among(mask).pairs()
    rows = np.flatnonzero(mask)[mask_low:mask_high].tolist()
    assert rows == [row for row in range(low, high) if flags[row]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.integers(1, 7))
def test_pieces_are_the_rows_cut(pairs: list[tuple[int, int]], length: int) -> None:
    """All pieces have this length, except the last one, and together they are ``rows``."""
    ranges = _ranges(*((low, low + size) for low, size in pairs))
    rows: list[int] = []
    owners: list[int] = []
    sizes = []
    for first, piece in ranges.pieces(length):
        rows += piece.rows()[1].tolist()
        owners += (first + piece.owners).tolist()
        sizes.append(int(piece.sizes.sum()))
    assert (rows, owners) == (ranges.rows()[1].tolist(), ranges.owners.tolist())
    assert sizes[:-1] == [length] * len(sizes[:-1])
    assert [size for size in sizes if not 1 <= size <= length] == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3))))
def test_a_row_in_a_range_is_marked(pairs: list[tuple[int, int]]) -> None:
    """A row is marked if at least one range contains it."""
    ranges = _ranges(*((low, low + size) for low, size in pairs))
    held = set(ranges.rows()[1].tolist())
    assert ranges.contained(13).tolist() == [row in held for row in range(13)]
