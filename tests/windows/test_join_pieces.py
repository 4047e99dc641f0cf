"""A join of streams computes its results in pieces of a limited size."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from oriel.pipeline.windows import LEFT, RIGHT, Times
from oriel.pipeline.windows.joins import streams
from tests.models.joins import Span
from tests.windows.join_batches import whole
from tests.windows.test_stream_join_properties import engine_of, random_case, run_engine


def _batch(length: int) -> pa.Table:
    """Return ``length`` records of one key on each side. All match."""
    side = pa.array(np.repeat([LEFT, RIGHT], length), pa.int8())
    return pa.table({
        "key": pa.repeat("k", 2 * length),
        "timestamp_ms": np.zeros(2 * length, dtype=np.int64),
        "partition": pa.array(np.zeros(2 * length, dtype=np.int32)),
        "offset": np.tile(np.arange(length), 2),
        "stream_time_ms": np.zeros(2 * length, dtype=np.int64),
        "side": side,
        "key_group": pa.array(np.zeros(2 * length, dtype=np.int32)),
        "l": pa.repeat("left", 2 * length),
        "r": pa.repeat("right", 2 * length),
    })  # fmt: skip


def test_a_hot_key_needs_memory_only_for_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million results are computed in pieces of 10,000. All at once would need 100 MB."""
    monkeypatch.setattr(streams, "PIECE", 10_000)
    engine = engine_of("outer", Span(5, 5, 0))
    batch = _batch(1_000)
    tracemalloc.start()
    try:
        result = engine.apply(engine.empty_state(), batch, Times.at((0, 0)))
        arrow_before, arrow_most, pairs = pa.total_allocated_bytes(), 0, 0
        for piece in result.pieces:
            assert len(piece) <= 10_000
            pairs += len(piece)
            arrow_most = max(arrow_most, pa.total_allocated_bytes() - arrow_before)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pairs == 1_000_000
    assert peak + arrow_most < 10_000_000


def test_results_in_pieces_equal_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of three rows have the results of the model, matched and unmatched."""
    monkeypatch.setattr(streams, "PIECE", 3)
    for seed in range(40):
        case = random_case(seed)
        run_engine(case, whole(case.sides))


def test_few_results_are_one_table() -> None:
    """A small batch has one table, also without results."""
    engine = engine_of("inner", Span(5, 5, 0))
    result = engine.apply(engine.empty_state(), _batch(0), Times.at((0, 0)))
    assert [len(piece) for piece in result.pieces] == [0]
    result = engine.apply(engine.empty_state(), _batch(3), Times.at((0, 0)))
    assert [len(piece) for piece in result.pieces] == [9]
    more = engine.apply(result.state, _batch(2), Times.at((0, 0)))
    assert [len(piece) for piece in more.pieces] == [16]
