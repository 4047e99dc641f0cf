"""The state of process in files: what a batch reads, which timers it finds, and its size.

``tests/testing/test_driver_process.py`` compares the results with a slow model.
"""

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.windows import (
    LEFT,
    IllegalArgument,
    ProcessContext,
    ProcessEngine,
    ProcessFunctions,
    Times,
)
from tests.campaigns import cases
from tests.models.joins import Arrived
from tests.windows.join_batches import random_logs, to_table
from tests.windows.state_in_files import rows_not_read

_VALUES = pa.schema([("l", pa.string())])
_CARRIED = pa.schema([("key_group", pa.int32())])
_TEXTS = pa.schema([("texts", pa.list_(pa.string()))])


def _seen(_key: str, value: Any, context: ProcessContext) -> dict[str, Any]:
    """Append a value to the state, and set a timer that depends on the number of values."""
    texts = [*(context.state["texts"] if context.state else []), str(value)]
    context.state = {"texts": texts}
    context.set_timer(context.timestamp_ms + 3 * len(texts))
    return {"texts": texts}


def _ended(_key: str, context: ProcessContext) -> dict[str, Any]:
    """Emit the values since the last timer, and forget them."""
    texts = context.state["texts"] if context.state else []
    context.state = None
    return {"texts": [*texts, "end"]}


def _engine() -> ProcessEngine:
    functions = ProcessFunctions(_seen, _ended, _TEXTS, _TEXTS, "process")
    return ProcessEngine(functions, _VALUES, _CARRIED)


@cases(40, 1_000)
def test_a_batch_reads_only_its_keys_and_the_timers_that_fire(number: int, tmp_path: Path) -> None:
    """With the state in files, results and rows are those of the whole state in memory."""
    not_read = 0
    for seed in range(number):
        directory = tmp_path / str(seed)
        directory.mkdir()
        random = Random(seed)
        not_read += rows_not_read(_engine(), random_logs(random, "l", 0.1), random, directory)
    assert not_read > 0


def test_a_partition_that_is_ahead_costs_no_reads(tmp_path: Path) -> None:
    """A batch of a slow partition reads no timer between its stream time and the greatest one."""
    engine = _engine()
    layout = Layout.of(engine)
    waiting = [Arrived(f"w{n}", 1_000 + n, 0, n, "x", 1_000 + n) for n in range(100)]
    ahead = [Arrived("z", 1_102, 0, 100, "x", 1_102)]
    first = to_table(engine.record_schema, [*waiting, *ahead], "l", side=LEFT)
    times = Times((-1, -1), (1_102, 0))
    state = KeyedState.of_task(tmp_path, {0: []}, (0, 1), layout)
    needed = engine.needed_state(state, first, times)
    result = engine.apply(needed.rows, first, times)
    files = {0: state.replaced(needed, result.state, "0", sync=False).names}
    slow = [Arrived("s", 5, 1, 0, "x", 5)]
    batch = to_table(engine.record_schema, slow, "l", side=LEFT)
    times = Times(times.after, (1_102, 5))
    state = KeyedState.of_task(tmp_path, files, (0, 1), layout)
    assert 0 < len(result.state) == state.rows
    assert len(engine.needed_state(state, batch, times).rows) == 0


def test_the_state_stays_flat_with_new_keys(tmp_path: Path) -> None:
    """After 300 batches with new keys, the state has only keys whose timer has not fired."""
    engine = _engine()
    layout, files = Layout.of(engine), {0: list[str]()}
    before: tuple[int, ...] = (-1,)
    rows, sizes = list[int](), list[int]()
    for number in range(300):
        new = range(number * 10, number * 10 + 10)
        records = [Arrived(f"k{n}", n, 0, n, "x", n) for n in new]
        batch = to_table(engine.record_schema, records, "l", side=LEFT)
        times = Times(before, (records[-1].time,))
        state = KeyedState.of_task(tmp_path, files, (0, 1), layout)
        needed = engine.needed_state(state, batch, times)
        result = engine.apply(needed.rows, batch, times)
        version = state.replaced(needed, result.state, f"{number}", sync=False)
        files, before = {0: version.names}, times.after
        rows.append(version.rows)
        sizes.append(sum((tmp_path / name).stat().st_size for name in version.names))
    # A timer fires 3 ms after its record, so the last three keys have one.
    assert set(rows) == {3}
    assert max(sizes[200:]) <= 2 * max(sizes[50:100])


def test_a_name_that_the_operator_needs_is_rejected() -> None:
    """The message names the column."""
    functions = ProcessFunctions(
        _seen, _ended, pa.schema([("offset", pa.int64())]), None, "process"
    )
    with pytest.raises(IllegalArgument, match="column 'offset' exists twice"):
        ProcessEngine(functions, _VALUES, _CARRIED)
