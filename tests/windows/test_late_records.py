"""The state of late records of sessions in files: what a batch reads, and when sessions expire.

``tests/testing/test_driver_late_records.py`` compares the results with a slow model.
"""

from pathlib import Path
from random import Random

import pyarrow as pa

from oriel.pipeline.windows import (
    LEFT,
    LateRecordsEngine,
    SessionWindows,
    late_records_engine_for,
)
from tests.campaigns import cases
from tests.models.joins import Arrived
from tests.windows.join_batches import random_logs, to_table
from tests.windows.state_in_files import StateInFiles, rows_not_read

_VALUES = pa.schema([("l", pa.string())])


def _engine(gap_ms: int, grace_ms: int) -> LateRecordsEngine:
    windows = SessionWindows.of_inactivity_gap_and_grace(gap_ms, grace_ms)
    return late_records_engine_for(windows, "t", _VALUES, pa.schema([("key_group", pa.int32())]))


@cases(40, 1_000)
def test_a_batch_reads_only_the_sessions_of_its_keys(number: int, tmp_path: Path) -> None:
    """With the state in files, results and sessions are those of the whole state in memory."""
    not_read = 0
    for seed in range(number):
        random, directory = Random(seed), tmp_path / str(seed)
        directory.mkdir()
        engine = _engine(random.choice((0, 2, 10)), random.choice((0, 2, 10)))
        not_read += rows_not_read(engine, random_logs(random, "l", 0.1), random, directory)
    assert not_read > 0


def test_the_state_has_only_open_sessions(tmp_path: Path) -> None:
    """After 100 batches with new keys, the state has the sessions that a record can still join."""
    engine = _engine(20, 10)
    state = StateInFiles(engine, tmp_path, (-1,))
    rows = list[int]()
    for number in range(100):
        records = [
            Arrived(f"k{n}", n, 0, n, f"v{n}", n) for n in range(number * 10, number * 10 + 10)
        ]
        batch = to_table(engine.record_schema, records, "l", side=LEFT)
        result = state.apply(batch, (records[-1].time,))
        assert (len(result.results), result.filtered) == (0, (10,))
        rows.append(state.rows)
    # A session that ends at t is open until stream time t + 20 + 10.
    assert set(rows[10:]) == {31}
