"""The records of a windowed stream that missed a window, because it was closed at their arrival.

``c`` is the close time of a record: the stream time of its partition at its arrival, less the grace
and, for sessions, the gap. A record misses each closed window that contains its time:

    tumbling, hopping    the windows ``[s, s + size)`` with ``s + size <= c``
    sliding              the windows ``[s, s + D]`` with ``s + D < c``, from its left window on
    session              ``[t, t]``, if the record joins no open session and ``t < c``

A record that misses all of its windows is late. A record that misses only the first ones is partly
late, and also counts in the others (semantics.md#2-3). These are the rules of the engines of
stores, so a store with the same windows counts the same late records. The rules do not depend on
batches, because they only use the log of the record's partition.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Ints, coded_keys, lexsort
from oriel.pipeline.windows.definitions import (
    LEFT,
    IllegalArgument,
    SessionWindows,
    TimeWindows,
    Windows,
)
from oriel.pipeline.windows.engines import (
    SESSION_FIELDS,
    SessionBounds,
    SessionRecords,
    Times,
    WindowGrid,
    assign_records,
)
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    slowest_stream_time,
    value_fields,
)
from oriel.pipeline.windows.records import LINEAGE, arrival_keys

#: The columns of a result after the value: its record id, and the windows that it missed.
LATE_COLUMNS = (
    pa.field("record_topic", pa.string()),
    pa.field("record_partition", pa.int32()),
    pa.field("record_offset", pa.int64()),
    pa.field("late_by_ms", pa.int64()),
    pa.field("partly_late", pa.bool_()),
    pa.field("first_missed_start_ms", pa.int64()),
    pa.field("first_missed_end_ms", pa.int64()),
    pa.field("last_missed_start_ms", pa.int64()),
    pa.field("last_missed_end_ms", pa.int64()),
)


class _Starts(NamedTuple):
    """The starts of windows of each record: the first one, the first open one, and the last one.

    The first open one is after the last one if all windows are closed.
    """

    first: Ints
    first_open: Ints
    last: Ints


class LateRecordsEngine(JoinEngine):
    """The late and the partly late records of one stream, for time windows and sliding windows.

    It has no state. The other records are filtered.
    """

    by_partition = LEFT
    keeps_records = keeps_order = owns_stream_time = True
    #: The columns of the state in addition to the key.
    _state_fields: tuple[pa.Field, ...] = ()

    def __init__(
        self,
        windows: Windows,
        topic: str,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: InputRows = RECORDS,
    ) -> None:
        """Read records of ``topic`` with the columns ``values``.

        Raises:
            IllegalArgument: A column has a name of ``LATE_COLUMNS``, or another name that the
                operator needs.
        """
        added = [field.name for field in LATE_COLUMNS]
        taken = next((name for name in values.names if name.lower() in added), None)
        if taken is not None:
            message = (
                f"a late record has a column {taken!r} of its own. Rename the column of the stream "
                "before the grouping with map_values(other=...)"
            )
            raise IllegalArgument(message)
        self._windows, self._topic = windows, topic
        self._carried = list(carried or ())
        self.takes_null_values = windows.rule.takes_null_values
        late = pa.schema(LATE_COLUMNS)
        columns = value_fields((*RESULT_FIELDS, SIDE), carried, [values, late])
        own = (*INPUT_FIELDS, *rows.lineage.fields)
        self.record_schema = pa.schema([*own, *self._carried, *columns[: len(values)]])
        # Keyed state is stored by key, so even an empty schema has the key.
        self.state_schema = pa.schema([INPUT_FIELDS[0], *self._state_fields, *self._carried])
        # A null value becomes a value, whose own columns are null.
        self.result_schema = pa.schema([*RESULT_FIELDS, *columns])

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:
        # No key has a state, so a batch writes none.
        return batch["key"].slice(0, 0)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the late and the partly late records in the order of arrival."""
        batch = self._read(batch)
        batch = batch.take(pa.array(lexsort(arrival_keys(batch)))).combine_chunks()
        close_ms = np.asarray(batch[STREAM_TIME.name]) - self._windows.close_delay_ms
        state, starts = self._starts(state, batch, close_ms, times)
        missed = np.flatnonzero(starts.first_open > starts.first)
        late = _Starts(*(column[missed] for column in starts))
        results = self._results(batch.take(pa.array(missed)), close_ms[missed], late)
        return JoinResult(state, [results], filtered=(len(batch) - len(missed),))

    def _starts(
        self,
        state: pa.Table,
        batch: pa.Table,
        close_ms: Ints,
        times: Times,  # noqa: ARG002
    ) -> tuple[pa.Table, _Starts]:
        """Return the next state, and the starts of the windows of each record."""
        windows, time_ms = self._windows, np.asarray(batch["timestamp_ms"])
        if isinstance(windows, TimeWindows):
            grid = WindowGrid(windows)
            indexes = (
                grid.first_windows(time_ms),
                grid.first_open_windows(time_ms, close_ms),
                grid.last_windows(time_ms),
            )
            return state, _Starts(*map(grid.starts, indexes))
        # No window starts below 0, so early records share the window [0, D] (semantics.md#2-4).
        first = np.maximum(time_ms - windows.length_ms, 0)
        first_open = windows.rule.first_open_end_ms(close_ms) - windows.length_ms
        return state, _Starts(first, np.maximum(first, first_open), time_ms)

    def _results(self, batch: pa.Table, close_ms: Ints, starts: _Starts) -> pa.Table:
        """Return late records with their columns ``LATE_COLUMNS``."""
        windows = self._windows
        # A sliding window can start at each ms, and a session is the record itself.
        advance_ms = windows.advance_ms if isinstance(windows, TimeWindows) else 1
        length_ms = 0 if isinstance(windows, SessionWindows) else windows.length_ms
        first_end_ms = starts.first + length_ms
        last_missed = np.minimum(starts.first_open - advance_ms, starts.last)
        values = (
            pa.repeat(pa.scalar(self._topic), len(batch)),
            batch["partition"],
            batch["offset"],
            pa.array(close_ms - windows.rule.last_ms(first_end_ms)),
            pa.array(starts.first_open <= starts.last),
            pa.array(starts.first),
            pa.array(first_end_ms),
            pa.array(last_missed),
            pa.array(last_missed + length_ms),
        )
        late = {field.name: value for field, value in zip(LATE_COLUMNS, values, strict=True)}
        # This null is replaced if the rows of the input have a lineage.
        late[LINEAGE.name] = pa.nulls(len(batch), LINEAGE.type)
        columns = {**late, **dict(zip(batch.column_names, batch.columns, strict=True))}
        names = self.result_schema.names
        return pa.table([columns[name] for name in names], self.result_schema)


class LateSessionRecordsEngine(LateRecordsEngine):
    """The late records of one stream, for sessions.

    A record that is older than the close time is not late if it joins an open session
    (semantics.md#0-6). The state therefore has the open sessions of each key and partition. A
    session is dropped when it is closed for all partitions with a record.
    """

    _windows: SessionWindows
    _state_fields = SESSION_FIELDS
    rows_leave_when_due = True

    def changing(self, batch: pa.Table) -> pa.ChunkedArray | None:  # noqa: ARG002
        # All sessions of the working set.
        return None

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last stream time at which each session is open."""
        due_ms: Ints = np.asarray(state["window_end_ms"]) + self._windows.close_delay_ms
        return due_ms

    def close_ms(self, times: InputStreamTimes) -> int:
        """Return the least stream time of partitions with a record. Rows due before it expire."""
        return slowest_stream_time(times)

    def _starts(
        self, state: pa.Table, batch: pa.Table, close_ms: Ints, times: Times
    ) -> tuple[pa.Table, _Starts]:
        columns = ("key", "partition", *(field.name for field in self._carried))
        both = pa.concat_tables([state.select(columns), batch.select(columns)])
        (key_code,), _ = coded_keys(both["key"])
        partitions, place = np.unique(np.asarray(both["partition"]), return_inverse=True)
        # A (key, partition) pair is one integer.
        pair = key_code * max(len(partitions), 1) + place
        of_state, of_batch = np.split(pair, [len(state)])
        records = batch.append_column("close_ms", pa.array(close_ms))
        assigned = assign_records(
            SessionBounds.of_state(state, of_state),
            SessionRecords.of(records, of_batch, self._windows),
            self._windows.inactivity_gap_ms,
        )
        sessions = assigned.sessions
        # All rows of a pair have the same key, partition and carried columns.
        pairs, row_of_pair = np.unique(pair, return_index=True)
        kept = both.take(pa.array(row_of_pair[np.searchsorted(pairs, sessions.pair)]))
        bounds = {
            "window_start_ms": pa.array(sessions.start_ms),
            "window_end_ms": pa.array(sessions.end_ms),
            "reach_ms": pa.array(sessions.reach_ms),
        }
        own = {**bounds, **dict(zip(kept.column_names, kept.columns, strict=True))}
        names = self.state_schema.names
        state = pa.table([own[name] for name in names], self.state_schema)
        is_open = self.due_ms(state) >= self.close_ms(times.after)
        time_ms = np.asarray(batch["timestamp_ms"])
        # A late record misses its own session [t, t], and a record in time misses none.
        first_open = time_ms + (assigned.of_record < 0)
        return state.filter(pa.array(is_open)), _Starts(time_ms, first_open, time_ms)


def late_records_engine_for(
    windows: Windows,
    topic: str,
    values: pa.Schema,
    carried: pa.Schema | None = None,
    *,
    rows: InputRows = RECORDS,
) -> LateRecordsEngine:
    """Return the engine for a kind of windows. See ``LateRecordsEngine``."""
    kind = LateSessionRecordsEngine if windows.kind == "session" else LateRecordsEngine
    return kind(windows, topic, values, carried, rows=rows)
