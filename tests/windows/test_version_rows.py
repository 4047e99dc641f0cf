"""The rows of a store of versions equal a slow model under any cut and restart (KIP-889).

The model keeps every record that is not late, sorts the versions of a key, and drops the versions
that ended before the history. It does not use the engine.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.windows import IllegalArgument, Times, VersionRowsEngine, VersionWindows
from tests.campaigns import cases
from tests.models.joins import Arrived, Logs
from tests.windows.join_batches import (
    Cut,
    batches,
    random_cuts,
    random_logs,
    stream_times_of,
    to_table,
    whole,
)
from tests.windows.random_logs import marks_reached

VALUES = pa.schema([("v", pa.string())])
CARRIED = pa.schema([("key_group", pa.int32())])
NEVER_CLOSED_MS = -(2**61)

#: Key, time -> the record with the greatest partition and offset.
Versions = dict[tuple[str, int], Arrived]
#: The rows of a table by key, start and end of the window: the value, and whether it has ended.
Rows = dict[tuple[str, int, int], tuple[str | None, bool]]


def close_times(logs: Logs, so_far: Logs, history: int) -> list[int]:
    """Return stream time - history of each partition."""
    return [time - history for time in stream_times_of(logs, so_far)]


def rows_of(versions: Versions, close_ms: int) -> Rows:
    """Return the rows of the model: the versions that were valid at the close time or later."""
    rows: Rows = {}
    for key in {key for key, _ in versions}:
        times = sorted(time for of, time in versions if of == key)
        for time, end in zip(times, [*times[1:], None], strict=True):
            value = versions[key, time].value
            stays = time >= close_ms if value is None else end is None or end > close_ms
            if stays:
                rows[key, time, time + (value is not None)] = value, end is not None
    return rows


def run(
    case: int, cuts: Sequence[Cut], logs: Logs, directory: Path | None
) -> tuple[Rows, set[str]]:
    """Apply batches, and compare the rows of the table with the model after each batch.

    With ``directory``, the state is in files, and the engine reads only some time buckets.
    """
    history = Random(case).choice((0, 2, 10, 40))
    engine = VersionRowsEngine(VersionWindows(history), VALUES, CARRIED)
    layout, files, state = Layout.of(engine), {0: list[str]()}, engine.empty_state()
    versions: Versions = {}
    table: Rows = {}
    before_ms, marks = NEVER_CLOSED_MS, set[str]()
    for number, batch in enumerate(batches((logs,), cuts)):
        close_ms = max(before_ms, min(close_times(logs, batch.so_far[0], history)))
        accepted = [
            record
            for record in batch.new[0]
            if record.time >= max(record.stream_time - history, before_ms)
        ]
        for record in accepted:
            had = versions.get((record.key, record.time))
            if had is None or (had.partition, had.offset) < (record.partition, record.offset):
                versions[record.key, record.time] = record
                marks |= {"same time"} if had is not None else set()
        records = to_table(engine.record_schema, accepted, "v")
        times = Times.closing(before_ms, close_ms)
        if directory is None:
            result = engine.apply(state, records, times)
            state = result.state
        else:
            stored = KeyedState.of_task(directory, files, (0, 1), layout)
            needed = engine.needed_state(stored, records, times)
            marks |= {"part of the state"} if len(needed.rows) < stored.rows else set()
            result = engine.apply(needed.rows, records, times)
            files = {0: stored.replaced(needed, result.state, f"{number}", sync=False).names}
        for row in result.changes.to_pylist():
            window = row["key"], row["window_start_ms"], row["window_end_ms"]
            assert row["timestamp_ms"] == row["window_start_ms"]
            if row["deleted"]:
                del table[window]
                marks.add("removed")
            else:
                table[window] = row["v"], row["final"]
                marks |= {"tombstone"} if row["v"] is None else set()
                marks |= {"inserted"} if row["final"] else set()
        expected = rows_of(versions, close_ms)
        assert table == expected, f"case {case}, batch {number}"
        before_ms = close_ms
    return table, marks


def check_case(case: int) -> set[str]:
    """Compare a case in one batch and in cuts."""
    random = Random(case)
    logs = random_logs(random, "v", 0.25)
    _, marks = run(case, whole((logs,)), logs, None)
    _, more = run(case, random_cuts((logs,), random), logs, None)
    return marks | more


@cases(40, 500)
def test_rows_equal_the_model_under_any_cut(number: int) -> None:
    """After each batch, the table has the versions of the model. Removals name existing rows."""
    reached = marks_reached(range(number), check_case)
    assert reached == {"same time", "removed", "tombstone", "inserted"}


@cases(20, 200)
def test_a_batch_reads_only_some_time_buckets(number: int, tmp_path: Path) -> None:
    """With the state in files, the rows equal the model, although batches read parts of it."""
    marks = set[str]()
    for case in range(number):
        random, directory = Random(case), tmp_path / str(case)
        directory.mkdir()
        logs = random_logs(random, "v", 0.25)
        marks |= run(case, random_cuts((logs,), random), logs, directory)[1]
    assert "part of the state" in marks


def test_the_final_rows_do_not_depend_on_the_cut() -> None:
    """One batch and many batches end with the same rows if each partition has a record early."""
    for case in range(30):
        random = Random(case)
        logs = random_logs(random, "v", 0.25)
        first: Cut = {(0, p): min(len(log), 1) for p, log in logs.items()}
        rest = {p: log[1:] for p, log in logs.items()}
        cut = run(case, [first, *random_cuts((rest,), random)], logs, None)[0]
        assert cut == run(case, [first, *whole((rest,))], logs, None)[0]


def test_a_column_cannot_have_the_name_of_a_fixed_column() -> None:
    """The names of a version's fields are rejected."""
    with pytest.raises(IllegalArgument, match="deleted"):
        VersionRowsEngine(VersionWindows(1), pa.schema([("deleted", pa.bool_())]))
