"""Members of sliding windows with much disorder, and the memory that they need."""

import tracemalloc
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from oriel import SlidingWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import NEVER_CLOSED_MS, Ints, Ranges, Times, engine_for
from oriel.pipeline.windows.aggregates import Members, mergeable
from oriel.pipeline.windows.engines.sliding import members as members_module
from oriel.pipeline.windows.engines.sliding.members import SlidingEntries, WindowMembers
from tests.windows.engine_runs import AGGREGATES, VALUES

#: ``gcd`` merges whole numbers in any order and grouping.
_GCD, _UNION = (
    mergeable(
        "merged",
        "i",
        lift=lambda values: values,
        merge=merge,
        result=lambda states: states,
        returns="BIGINT",
    )
    for merge in (np.gcd, np.bitwise_or)
)
_ALL = {**AGGREGATES, "gcd": _GCD, "union": _UNION}


def _disordered(length: int, disorder_ms: int, seed: int, keys: int = 1) -> tuple[Ints, Ints, Ints]:
    """Return key code, time and stream time of two records per ms with this disorder."""
    random = np.random.default_rng(seed)
    time_ms = 4 * disorder_ms + np.arange(length) // 2 - random.integers(0, disorder_ms + 1, length)
    return random.integers(0, keys, length), time_ms, np.maximum.accumulate(time_ms)


def _records(
    length: int, disorder_ms: int, difference_ms: int, seed: int, keys: int = 1
) -> pa.Table:
    """Return accepted records without grace, with values of all types and nulls."""
    code, time_ms, close_ms = _disordered(length, disorder_ms, seed, keys)
    random = Random(seed)

    def column(values: tuple[object, ...], of_type: pa.DataType) -> pa.Array:
        return pa.array([random.choice((None, *values)) for _ in range(length)], of_type)

    table = pa.table({
        "key": pa.array([f"k{number}" for number in code.tolist()]),
        "timestamp_ms": time_ms,
        "partition": pa.array(np.zeros(length, dtype=np.int32)),
        "offset": np.arange(length),
        "close_ms": close_ms,
        "v": column((0.5, -2.0, 1e9, 0.1), pa.float64()),
        "x": column((1e300, -1e300, 3e-9, float("inf")), pa.float64()),
        "i": column((2**62, -6, 4, 10), pa.int64()),
        "j": column((1, 2, 3), pa.int32()),
        "s": column(("b", "ä", "", "a"), pa.string()),
    })  # fmt: skip
    return table.filter(pa.array(time_ms + difference_ms >= close_ms))


@pytest.mark.parametrize("seed", range(6))
def test_every_aggregate_equals_the_aggregate_of_the_listed_members(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows in pieces have the same bits as windows with lists of their members."""
    monkeypatch.setattr(members_module, "LISTED_RECORDS", 1_000)
    windows = SlidingWindows.of_time_difference_with_no_grace(60)
    records = _records(400, disorder_ms=50, difference_ms=60, seed=seed, keys=3)
    engine = engine_for(windows, _ALL, VALUES)
    changes = engine.apply(engine.empty_state(), records, Times.closing(NEVER_CLOSED_MS, 0)).changes

    ordered = records.sort_by([(name, "ascending") for name in ("timestamp_ms", "offset")])
    key, time_ms, close_ms = (
        np.asarray(ordered[name]) for name in ("key", "timestamp_ms", "close_ms")
    )
    listed, in_bounds = [], 0
    for row in changes.select(["key", "window_start_ms", "window_end_ms"]).to_pylist():
        start_ms, end_ms = row["window_start_ms"], row["window_end_ms"]
        inside = (key == row["key"]) & (time_ms >= start_ms) & (time_ms <= end_ms)
        in_bounds += int(inside.sum())
        listed.append(np.flatnonzero(inside & (close_ms <= end_ms)))
    sizes = np.array([len(rows) for rows in listed])
    assert sizes.min() > 0
    assert in_bounds > 1.1 * sizes.sum(), "few windows have holes"
    members = Members(ordered.take(pa.array(np.concatenate(listed))), Ranges.side_by_side(sizes))
    for name, aggregate in _ALL.items():
        # The text differs for 0.0 and -0.0, which compare equal, and is equal for NaN.
        assert str(changes[name].to_pylist()) == str(aggregate.of(members).to_pylist()), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_pieces_hold_each_member_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a window are few ascending runs of rows, and together its members."""
    difference_ms = 300
    code, time_ms, close_ms = _disordered(3_000, 250, seed, keys=2)
    order = np.lexsort((time_ms, code))
    code, time_ms, close_ms = code[order], time_ms[order], close_ms[order]
    end_ms = time_ms + Random(seed).choice((0, 40))
    # Keys and times on one axis.
    axis, end = code * 10**6 + time_ms, code * 10**6 + end_ms
    in_bounds = Ranges(
        np.searchsorted(axis, end - difference_ms, side="left"),
        np.searchsorted(axis, end, side="right"),
    )
    entries = SlidingEntries(code, time_ms, np.maximum(time_ms, close_ms))
    members = WindowMembers.of(entries, code, end_ms, in_bounds)
    holed = members.keep(members.holed)
    assert len(holed.hole) > 1_000

    found: list[list[int]] = [[] for _ in holed.hole]
    runs = np.zeros(len(found), dtype=np.int64)
    for pieces in holed.pieces():
        for window, (low, high) in zip(pieces.window, pieces.ranges.pairs(), strict=True):
            rows = pieces.row[low:high]
            assert rows.tolist() == np.unique(rows).tolist(), "not ascending"
            found[window] += rows.tolist()
            runs[window] += 1
    assert runs.max() <= 2 * int(holed.in_bounds.sizes.max()).bit_length()
    monkeypatch.setattr(members_module, "LISTED_RECORDS", 5_000)
    listed = [
        pieces.row[low:high].tolist()
        for pieces in holed.listed()
        for low, high in pieces.ranges.pairs()
    ]
    chosen = np.arange(len(code)) % 7 == 0
    last, last_chosen = holed.last_of(), holed.last_of(chosen)
    for window, (low, high) in enumerate(holed.in_bounds.pairs()):
        rows = np.arange(low, high)
        wanted = rows[close_ms[rows] <= holed.end_ms[window]]
        assert sorted(found[window]) == wanted.tolist() == listed[window]
        assert last[window] == max(wanted, default=-1)
        assert last_chosen[window] == max(wanted[chosen[wanted]], default=-1)


def _in_order_but_few(length: int) -> tuple[Ints, Ints]:
    """Return times and close times of two records per ms. Ten records are 2 ms late."""
    time_ms = 20_000 + np.arange(length) // 2
    time_ms[length // 2 :: length // 20] -= 2
    return time_ms, np.maximum.accumulate(time_ms)


@pytest.mark.parametrize("kind", ["few", "all"])
def test_windows_with_holes_need_memory_only_for_the_records(kind: str) -> None:
    """A copy of the members per window would need 100 MB here, for 3,000 records.

    In windows of 10 s, ten records are 2 ms late, or all records are up to 5 s late.
    """
    length, difference_ms = 3_000, 10_000
    time_ms, close_ms = (
        _in_order_but_few(length) if kind == "few" else _disordered(length, 5_000, seed=1)[1:]
    )
    engine = engine_for(
        SlidingWindows.of_time_difference_with_no_grace(difference_ms),
        {"n": w.count(), "mean": w.avg("v"), "least": w.min("v")},
        pa.schema([("v", pa.float64())]),
    )
    batch = pa.table({
        "key": pa.repeat("k", length),
        "timestamp_ms": time_ms,
        "partition": pa.array(np.zeros(length, dtype=np.int32)),
        "offset": np.arange(length),
        "close_ms": close_ms,
        "v": np.arange(length) / 4,
    })  # fmt: skip
    tracemalloc.start()
    try:
        changes = engine.apply(
            engine.empty_state(), batch, Times.closing(NEVER_CLOSED_MS, 0)
        ).changes
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(changes) >= 1_000
    assert peak < 4_000 * length
