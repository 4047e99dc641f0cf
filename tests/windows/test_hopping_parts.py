"""Partly late records of hopping windows with a large overlap."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from oriel import TimeWindows
from oriel.pipeline import windows as w
from oriel.pipeline.windows import NEVER_CLOSED_MS, Times, engine_for
from oriel.pipeline.windows.engines.grid import declarative
from tests.campaigns import cases
from tests.windows.test_time_window_properties import FIRST_SEED, check_case, time_case


@pytest.mark.slow
@cases(10, 25)
def test_rows_are_spread_as_they_are_copied(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Windows have the same rows in steps and by copying. The other tests check the copies."""
    monkeypatch.setattr(declarative, "_MAX_COPIES", 0)
    marks: set[str] = set()
    for seed in range(FIRST_SEED + 1_003, FIRST_SEED + 1_003 + number):
        marks |= check_case(time_case(seed))
    assert "partly late" in marks


def test_partly_late_records_need_memory_only_for_windows_and_records() -> None:
    """The limit fails a copy of each record per window, which needs 100 MB."""
    length, size_ms = 1_000, 2_000
    random = np.random.default_rng(1)
    time_ms = 10_000 + np.arange(length) - random.integers(0, size_ms, length)
    batch = pa.table({
        "key": pa.repeat("k", length),
        "timestamp_ms": time_ms,
        "partition": pa.array(np.zeros(length, dtype=np.int32)),
        "offset": np.arange(length),
        "close_ms": 10_000 + np.arange(length),
        "v": random.integers(0, 1_000, length) / 4,
    })  # fmt: skip
    windows = TimeWindows.of_size_with_no_grace(size_ms).advance_by(1)
    aggregates = {"n": w.count(), "mean": w.avg("v"), "least": w.min("v")}
    engine = engine_for(windows, aggregates, pa.schema([("v", pa.float64())]))
    tracemalloc.start()
    try:
        result = engine.apply(
            engine.empty_state(), batch, Times.closing(NEVER_CLOSED_MS, NEVER_CLOSED_MS)
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    sizes = np.asarray(result.changes["n"])
    copies = np.minimum(time_ms + size_ms, 12_000 + np.arange(length)) - (
        10_000 + np.arange(length)
    )
    assert sizes.sum() == copies.sum()
    assert len(sizes) < 4 * length
    assert peak < 10_000_000
