"""The state of distinct records in files: what a batch reads, when rows expire, and their number.

``tests/testing/test_driver_distinct.py`` compares the results with a slow model.
"""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from oriel.pipeline.windows import LEFT, DistinctEngine, IllegalArgument, Times
from tests.campaigns import cases
from tests.models.joins import Arrived
from tests.windows.join_batches import random_logs, to_table
from tests.windows.state_in_files import StateInFiles, rows_not_read

_VALUES = pa.schema([("l", pa.string())])
_CARRIED = pa.schema([("key_group", pa.int32())])


def _engine(by: tuple[str, ...], within_ms: int, grace_ms: int) -> DistinctEngine:
    return DistinctEngine(_VALUES, _CARRIED, by=by, within_ms=within_ms, grace_ms=grace_ms)


def _in_files(seed: int, directory: Path) -> int:
    """Compare the whole state in memory with files. Return the number of rows not read."""
    random = Random(seed)
    logs = random_logs(random, "l", 0.1)
    # Few different values, so that records of a key have duplicates with ``by``.
    logs = {p: [(k, ms, v and v[-1]) for k, ms, v in log] for p, log in logs.items()}
    engine = _engine(
        random.choice(((), ("l",))), random.choice((0, 2, 10)), random.choice((0, 2, 10))
    )
    return rows_not_read(engine, logs, random, directory)


@cases(40, 1_000)
def test_a_batch_reads_only_the_spans_of_its_records(number: int, tmp_path: Path) -> None:
    """With the state in files, results and rows are those of the whole state in memory."""
    not_read = 0
    for seed in range(number):
        directory = tmp_path / str(seed)
        directory.mkdir()
        not_read += _in_files(seed, directory)
    assert not_read > 0


@pytest.mark.parametrize("by", [(), ("l",)])
def test_the_state_stays_flat_with_new_ids(by: tuple[str, ...], tmp_path: Path) -> None:
    """After 300 batches with new ids, the state has only ids that can have duplicates."""
    engine = _engine(by, within_ms=20, grace_ms=10)
    state = StateInFiles(engine, tmp_path, (-1,))
    rows, sizes = list[int](), list[int]()
    for number in range(300):
        records = [
            Arrived(f"k{n % 5}" if by else f"k{n}", n, 0, n, f"id{n}", n)
            for n in range(number * 10, number * 10 + 10)
        ]
        batch = to_table(engine.record_schema, records, "l", side=LEFT)
        result = state.apply(batch, (records[-1].time,))
        assert len(result.results) == 10
        rows.append(state.rows)
        sizes.append(sum((tmp_path / name).stat().st_size for name in state.files))
    # A record at t can have a duplicate until stream time t + 20 + 10.
    assert set(rows[10:]) == {31}
    assert max(sizes[200:]) <= 2 * max(sizes[50:100])


def test_one_key_with_many_records_has_one_row() -> None:
    """Records that are at most 2 W + 1 apart are one span, however many there are."""
    engine = _engine((), within_ms=2, grace_ms=1_000_000)
    records = [Arrived("a", n * 5, 0, n, None, n * 5) for n in range(1_000)]
    records.append(Arrived("a", 5_001, 0, 1_000, None, 5_001))
    batch = to_table(engine.record_schema, records, "l", side=LEFT)
    result = engine.apply(engine.empty_state(), batch, Times.at((5_001,)))
    spans = [(row["oriel.first_ms"], row["oriel.last_ms"]) for row in result.state.to_pylist()]
    assert spans == [(0, 4_995), (5_001, 5_001)]
    assert len(result.results) == 1_001


def test_invalid_columns_are_named() -> None:
    """A message names a missing column and the columns that exist, or a type without a text."""
    with pytest.raises(IllegalArgument, match=r"no column 'id'\. The columns are l"):
        _engine(("id",), 1, 1)
    values = pa.schema([("l", pa.list_(pa.int64()))])
    with pytest.raises(IllegalArgument, match="'l' is an array, a struct or a map"):
        DistinctEngine(values, _CARRIED, by=("l",), within_ms=1, grace_ms=1)
