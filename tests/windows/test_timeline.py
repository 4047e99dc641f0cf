"""The axis for all keys, also where times are spread too far for one integer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oriel.pipeline.windows import MAX_TIMESTAMP_MS
from oriel.pipeline.windows.arrays import Timeline, pair_order

_PAIRS = st.lists(
    st.tuples(st.integers(0, 3) | st.just(40_000), st.integers(0, 9) | st.just(MAX_TIMESTAMP_MS)),
    max_size=30,
)


@given(_PAIRS, _PAIRS)
def test_search_finds_the_first_record_at_or_after(
    records: list[tuple[int, int]], searched: list[tuple[int, int]]
) -> None:
    """Both searches agree with counting the smaller records, however far times are apart."""
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
