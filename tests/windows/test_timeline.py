"""The axis of keys and times, also if the range of times does not fit into one integer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import MAX_TIMESTAMP_MS
from oriel.pipeline.windows.arrays import (
    Timeline,
    lexsort,
    pair_order,
    positions_in_runs,
    run_ends,
    run_starts,
    running_max,
)

_PAIRS = st.lists(
    st.tuples(st.integers(0, 3) | st.just(40_000), st.integers(0, 9) | st.just(MAX_TIMESTAMP_MS)),
    max_size=30,
)


@given(_PAIRS, _PAIRS)
def test_search_finds_the_first_record_at_or_after(
    records: list[tuple[int, int]], searched: list[tuple[int, int]]
) -> None:
    """Both searches return the number of smaller records, also for a long range of times."""
    code, time = (np.array([r[i] for r in records], dtype=np.int64) for i in range(2))
    order = pair_order(code, time)
    assert [records[i] for i in order] == sorted(records)
    timeline = Timeline(code[order], time[order])
    known = [pair for pair in searched if pair[0] in set(code.tolist())]
    keys, times = (np.array([r[i] for r in known], dtype=np.int64) for i in range(2))
    at_or_after = timeline.first_at_or_after(keys, times).tolist()
    assert at_or_after == [sum(r < pair for r in records) for pair in known]
    after = timeline.first_after(keys, times).tolist()
    assert after == [sum(r <= pair for r in records) for pair in known]


_EXTREMES = (-(2**63), -1, 0, 1, 5, MAX_TIMESTAMP_MS, 2**58, 2**62, 2**63 - 1)


@given(
    st.lists(st.sampled_from(_EXTREMES), min_size=3, max_size=3, unique=True),
    st.integers(1, 3),
    st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=20),
)
def test_a_packed_order_equals_the_order_of_numpy(
    values: list[int], width: int, rows: list[tuple[int, int, int]]
) -> None:
    """Equal rows keep their order, also if key and row index do not fit into one integer."""
    picked = np.array(rows, dtype=np.int64).reshape(-1, 3)[:, :width]
    # Booleans and integers of 32 bits are also sort keys.
    for key_type in (np.int64, np.int32, np.bool_):
        last = picked[:, -1].astype(key_type)
        keys = [*(np.array(values)[picked[:, k]] for k in range(width - 1)), last]
        assert lexsort(keys).tolist() == np.lexsort(keys).tolist()


_WIDE = st.sampled_from(_EXTREMES) | st.integers(-9, 9)


@given(st.lists(st.tuples(st.booleans(), _WIDE), min_size=1, max_size=20))
def test_the_greatest_value_so_far_of_each_run(rows: list[tuple[bool, int]]) -> None:
    """The first row starts a run. The difference of values does not matter."""
    head = np.array([True, *(is_head for is_head, _ in rows[1:])])
    values = np.array([value for _, value in rows], dtype=np.int64)
    expected: list[int] = []
    for begins, value in zip(head.tolist(), values.tolist(), strict=True):
        expected.append(value if begins else max(value, expected[-1]))
    assert running_max(values, head).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=20))
def test_runs_of_equal_rows_begin_and_end(rows: list[tuple[int, int]]) -> None:
    """Runs have a start and an end, and each row has its position in its run."""
    first, second = (np.array([row[i] for row in rows], dtype=np.int64) for i in range(2))
    head = run_starts(first, second)
    begins = [n == 0 or row != rows[n - 1] for n, row in enumerate(rows)]
    assert head.tolist() == begins
    assert run_ends(head).tolist() == [*begins[1:], True][: len(rows)]
    places: list[int] = []
    for is_head in begins:
        places.append(0 if is_head else places[-1] + 1)
    assert positions_in_runs(head).tolist() == places
