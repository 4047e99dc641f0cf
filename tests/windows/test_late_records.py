"""The state of late records of sessions in files: what a batch reads, and when sessions expire.

``tests/testing/test_driver_late_records.py`` compares the results with a slow model.
"""

from pathlib import Path
from random import Random

import pyarrow as pa

from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.windows import (
    LEFT,
    LateRecordsEngine,
    SessionWindows,
    Times,
    late_records_engine_for,
)
from tests.campaigns import cases
from tests.models.joins import Arrived
from tests.windows.join_batches import (
    batches,
    random_cuts,
    random_logs,
    saved_and_loaded,
    stream_times_of,
    to_table,
)

_VALUES = pa.schema([("l", pa.string())])
_CARRIED = pa.schema([("key_group", pa.int32())])


def _engine(gap_ms: int, grace_ms: int) -> LateRecordsEngine:
    windows = SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_ms)
    return late_records_engine_for(windows, "t", _VALUES, _CARRIED)


def _rows(state: pa.Table) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row.values())) for row in state.to_pylist())


def _in_files(seed: int, directory: Path) -> int:
    """Compare the whole state in memory with files. Return the number of late records."""
    random = Random(seed)
    logs = random_logs(random, "l", 0.1)
    engine = _engine(random.choice((0, 2, 10)), random.choice((0, 2, 10)))
    layout, whole, files, late = Layout.of(engine), engine.empty_state(), {0: list[str]()}, 0
    before = tuple(-1 for _ in logs)
    for number, batch in enumerate(batches((logs, {}), random_cuts((logs, {}), random))):
        records = to_table(engine.record_schema, batch.new[LEFT], "l", side=LEFT)
        times = Times(before, stream_times_of(logs, batch.so_far[LEFT]))
        expected = engine.apply(whole, records, times)
        state = KeyedState.of_task(directory, files, (0, 1), layout)
        needed = engine.needed_state(state, records, times)
        result = engine.apply(needed.rows, records, times)
        assert result.results.equals(expected.results)
        version = state.replaced(needed, result.state, f"{number}", sync=False)
        files, whole, before = {0: version.names}, saved_and_loaded(expected.state), times.after
        kept = KeyedState.of_task(directory, files, (0, 1), layout)
        assert _rows(kept.all_rows(engine.close_ms(before))) == _rows(whole)
        assert version.rows == len(whole)
        late += len(result.results)
    return late


@cases(40, 1_000)
def test_the_state_in_files_is_that_in_memory(number: int, tmp_path: Path) -> None:
    """With the state in files, results and sessions are those of the whole state in memory."""
    late = 0
    for seed in range(number):
        directory = tmp_path / str(seed)
        directory.mkdir()
        late += _in_files(seed, directory)
    assert late > 0


def test_the_state_has_only_open_sessions(tmp_path: Path) -> None:
    """After 100 batches with new keys, the state has the sessions that a record can still join."""
    engine = _engine(20, 10)
    layout, files = Layout.of(engine), {0: list[str]()}
    before: tuple[int, ...] = (-1,)
    rows = list[int]()
    for number in range(100):
        records = [
            Arrived(f"k{n}", n, 0, n, f"v{n}", n) for n in range(number * 10, number * 10 + 10)
        ]
        batch = to_table(engine.record_schema, records, "l", side=LEFT)
        times = Times(before, (records[-1].time,))
        state = KeyedState.of_task(tmp_path, files, (0, 1), layout)
        needed = engine.needed_state(state, batch, times)
        result = engine.apply(needed.rows, batch, times)
        assert (len(result.results), result.filtered) == (0, (10,))
        version = state.replaced(needed, result.state, f"{number}", sync=False)
        files, before = {0: version.names}, times.after
        rows.append(version.rows)
    # A session that ends at t is open until stream time t + 20 + 10.
    assert set(rows[10:]) == {31}
