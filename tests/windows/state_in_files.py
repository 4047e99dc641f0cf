"""An operator of one stream with its state in files, compared with its state in memory."""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from oriel.pipeline.state import KeyedState, Layout
from oriel.pipeline.windows import LEFT, LINEAGE, JoinEngine, JoinResult, Times
from tests.models.joins import Logs
from tests.windows.join_batches import (
    batches,
    random_cuts,
    saved_and_loaded,
    stream_times_of,
    to_table,
)


@dataclass
class StateInFiles:
    """The state of an operator after some batches, in one task."""

    engine: JoinEngine
    directory: Path
    stream_times: tuple[int, ...]
    files: list[str] = field(default_factory=list)
    #: The number of rows in the files, and of rows that the last batch read.
    rows: int = 0
    rows_read: int = 0
    _batches: int = 0

    def _opened(self) -> KeyedState:
        layout = Layout.of(self.engine)
        return KeyedState.of_task(self.directory, {0: self.files}, (0, 1), layout)

    def apply(self, records: pa.Table, after: tuple[int, ...]) -> JoinResult:
        """Apply a batch, after which the partitions have these stream times."""
        state, times = self._opened(), Times(self.stream_times, after)
        needed = self.engine.needed_state(state, records, times)
        result = self.engine.apply(needed.rows, records, times)
        self._batches += 1
        version = state.replaced(needed, result.state, f"{self._batches}", sync=False)
        self.files, self.rows, self.stream_times = list(version.names), version.rows, after
        self.rows_read = len(needed.rows)
        return result

    def all_rows(self) -> pa.Table:
        """Return the rows that have not expired."""
        return self._opened().all_rows(self.engine.close_ms(self.stream_times))


def rows_not_read(engine: JoinEngine, logs: Logs, random: Random, directory: Path) -> int:
    """Compare random batches with the state in files and in memory.

    The results have different record ids.

    Returns:
        The number of rows that batches did not read from the files.
    """
    whole, not_read = engine.empty_state(), 0
    record_ids: list[Any] = []
    state = StateInFiles(engine, directory, tuple(-1 for _ in logs))
    for batch in batches((logs, {}), random_cuts((logs, {}), random)):
        records = to_table(engine.record_schema, batch.new[LEFT], "l", side=LEFT)
        after = stream_times_of(logs, batch.so_far[LEFT])
        expected = engine.apply(whole, records, Times(state.stream_times, after))
        result = state.apply(records, after)
        assert result.results.equals(expected.results)
        assert (result.late, result.filtered) == (expected.late, expected.filtered)
        record_ids += result.results.select(["partition", "offset", LINEAGE.name]).to_pylist()
        whole = saved_and_loaded(expected.state)
        assert _texts(state.all_rows()) == _texts(whole)
        assert state.rows == len(whole)
        not_read += len(whole) - state.rows_read
    assert len({tuple(one.values()) for one in record_ids}) == len(record_ids)
    return not_read


def _texts(state: pa.Table) -> list[tuple[str, ...]]:
    return sorted(tuple(map(str, row.values())) for row in state.to_pylist())
