"""The updates of sessions (KIP-94).

A record joins sessions of its (key, partition) pair (``engines.sessions``). The joined sessions and
the record become one session. The engine first emits a deletion of each joined session, in the
order of their ends, and then the new session. If the new session is ``[t, t]``, it only emits the
new session. Kafka Streams forwards the same updates (semantics.md#4-4), also if the bounds of a
session do not change.

If a key has records of several partitions, the rows are the sessions of the store. Partition
sessions are one session if their intervals from reach to end overlap (decision 0009).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine, Updates
from oriel.pipeline.windows.aggregate_updates.session_rows import Sessions, session_rows
from oriel.pipeline.windows.aggregate_updates.versions import (
    ColumnVersions,
    FunctionVersions,
    Versions,
)
from oriel.pipeline.windows.aggregates import Aggregate, PartialAggregates
from oriel.pipeline.windows.arrays import Ints, coded_keys
from oriel.pipeline.windows.definitions import SessionWindows
from oriel.pipeline.windows.engines import (
    SESSION_FIELDS,
    Arrival,
    PartitionSession,
    SessionBounds,
    SessionRecords,
    merge_in_arrival_order,
    overlapping,
)
from oriel.pipeline.windows.functions import UserFunctions
from oriel.pipeline.windows.joins import RECORDS, STREAM_TIME, InputRows
from oriel.pipeline.windows.records import rows_schema


class SessionUpdatesEngine(AggregateUpdatesEngine):
    """The updates of sessions. The state has partition sessions, as in ``SessionEngine``."""

    windows: SessionWindows
    # A partition session stays until the last partition session of the same session closes.
    rows_leave_when_due = False

    def __init__(
        self,
        windows: SessionWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        state_fields: Iterable[pa.Field],
        carried: pa.Schema | None,
        *,
        inputs: Sequence[InputRows],
    ) -> None:
        """See ``AggregateUpdatesEngine``. ``state_fields`` are the aggregates in the state."""
        super().__init__(windows, values, types, carried, inputs=inputs)
        self.state_schema = rows_schema(SESSION_FIELDS, self._carried, state_fields)

    @abstractmethod
    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        """Return the versions of the sessions of ``state`` and of the records of ``batch``."""

    def due_ms(self, state: pa.Table) -> Ints:
        return self.windows.rule.last_ms(np.asarray(state["window_end_ms"]))

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        (state_code, code), keys = coded_keys(state["key"], batch["key"])
        partition = np.concatenate([np.asarray(rows["partition"]) for rows in (state, batch)])
        partitions, place = np.unique(partition, return_inverse=True)
        # A (key, partition) pair is one integer, so one sort or one search handles all pairs.
        pair = np.concatenate([state_code, code]) * max(len(partitions), 1) + place
        state_pair, batch_pair = np.split(pair, [len(state)])
        # The close time of the record itself decides which sessions are open for it (decision
        # 0001). The argument ``close_ms`` is only for the state after the batch.
        own_close_ms = np.asarray(batch[STREAM_TIME.name]) - self.windows.close_delay_ms
        records = SessionRecords.of(
            batch.append_column("close_ms", pa.array(own_close_ms)), batch_pair, self.windows
        )
        old = SessionBounds.of_state(state, state_pair)
        versions, sessions = self._versions(state, batch), Sessions.of(state, batch)
        # The joins of all records are found first. Only then does ``versions`` compute named
        # aggregates, for all versions together.
        newest, late, rejected = self._merged(old, records, sessions, versions)

        # For a key with one partition, the partition sessions are the sessions of the store.
        pairs = np.unique(pair) // max(len(partitions), 1)
        is_several = np.bincount(pairs, minlength=len(keys)) > 1
        rows = session_rows(sessions, state_code, code, is_several)
        # A record joins only sessions of its own pair, so the sessions of other pairs keep their
        # version, which is their state row.
        without_records = np.flatnonzero(~np.isin(state_pair, batch_pair))
        chosen = np.flatnonzero(np.isin(state_code, code))
        return Updates(
            state=self._next_state(
                [*without_records.tolist(), *newest], sessions, versions, close_ms
            ),
            record=rows.record,
            start_ms=rows.start_ms,
            end_ms=rows.end_ms,
            columns=versions.results(rows.versions, rows.sizes),
            # The time of a session is its end (KIP-259), also if the session is deleted.
            timestamp_ms=rows.end_ms,
            is_deleted=rows.sizes == 0,
            late=np.array(late, dtype=np.int64),
            rejected=rejected,
            before=self._rows_before(state, state_code, chosen, (sessions, versions)),
        )

    def _merged(
        self, old: SessionBounds, records: SessionRecords, sessions: Sessions, versions: Versions
    ) -> tuple[list[int], list[int], dict[int, str]]:
        """Add the records to the sessions of their pairs.

        Returns:
            The versions of the sessions of these pairs after the batch, the late records, and the
            rejected records with the reason.
        """
        first = len(old)

        def add_record(joined: Sequence[PartitionSession], record: Arrival) -> int | None:
            version = first + record.row
            start_ms = end_ms = record.time_ms
            reach_ms = record.reach_ms
            # The aggregate of a session is the index of its version here, because named aggregates
            # are computed later, for all versions together.
            own: tuple[int, ...] = tuple([session.aggregate for session in joined])
            for session in joined:
                start_ms, end_ms = min(start_ms, session.start_ms), max(end_ms, session.end_ms)
                reach_ms = min(reach_ms, session.reach_ms)
            # This call can raise ``Rejected``. Nothing has changed before it, so a rejected record
            # is in no session.
            has_row = versions.make(record.row, own)
            sessions.start_ms[version], sessions.end_ms[version] = start_ms, end_ms
            # The reach of a session is the least reach of its records (decision 0009).
            sessions.reach_ms[version] = reach_ms
            sessions.taken[version], sessions.stays[version] = True, has_row
            if own:
                sessions.joined[record.row] = own
            # With None, the joined sessions are removed, and no session replaces them
            # (semantics.md#9).
            return version if has_row else None

        has_records = np.flatnonzero(np.isin(old.pair, records.pair))
        # State row i has the version i, so ``range`` has the version of each row.
        sessions_of = old.sessions_by(old.pair, has_records, range(first))
        newest: list[int] = []
        late: list[int] = []
        rejected: dict[int, str] = {}
        gap_ms = self.windows.inactivity_gap_ms
        of_pairs = records.in_arrival_order_by(records.pair, np.arange(len(records.pair)))
        for pair, arrivals in of_pairs:
            result = merge_in_arrival_order(sessions_of.get(pair, []), arrivals, gap_ms, add_record)
            newest += [session.aggregate for session in result.sessions]
            late += result.late
            rejected |= {
                row: self._reason(rejection_text) for row, rejection_text in result.rejected
            }
        return newest, late, rejected

    def _reason(self, rejection_text: str) -> str:
        """Return the text of the reason for which a record is rejected."""
        return rejection_text

    def _next_state(
        self, newest: Sequence[int], sessions: Sessions, versions: Versions, close_ms: int
    ) -> pa.Table:
        """Return the newest versions as state rows, without sessions that are closed for all."""
        version = np.array(newest, dtype=np.int64)
        state_fields = versions.rows(version)
        start_ms, end_ms, reach_ms, partition = (
            np.array(column, dtype=np.int64)[version]
            for column in (
                sessions.start_ms, sessions.end_ms, sessions.reach_ms, sessions.partition
            )
        )  # fmt: skip
        columns = {
            **{name: state_fields[name] for name in state_fields.column_names},
            "window_start_ms": start_ms,
            "window_end_ms": end_ms,
            "reach_ms": reach_ms,
            "partition": partition,
            "timestamp_ms": end_ms,
        }
        names = self.state_schema.names
        rows = pa.table([columns[name] for name in names], names=names).cast(self.state_schema)
        # A session of the store closes with its last partition session. Its updates need the
        # aggregates of all of its partition sessions, which therefore stay until then. For example,
        # [0, 5] of partition 0 stays as long as it is linked with [4, 90] of partition 1.
        (code,), _ = coded_keys(rows["key"])
        order, linked = overlapping(code, reach_ms, end_ms)
        is_open = np.empty(len(rows), dtype=np.bool_)
        has_open = linked.any_of(self.windows.rule.is_open(end_ms[order], close_ms))
        is_open[order] = has_open[linked.owners]
        return rows.filter(pa.array(is_open)).combine_chunks()

    def _rows_before(
        self,
        state: pa.Table,
        code: Ints,
        chosen: Ints,
        sessions_and_versions: tuple[Sessions, Versions],
    ) -> pa.Table | None:
        """Return the ``chosen`` state rows as sessions of the store.

        Return None if no downstream operator needs them (``returns_before``).
        """
        if not self.returns_before:
            return None
        sessions, versions = sessions_and_versions
        by_key: dict[int, list[int]] = {}
        for version in chosen.tolist():
            by_key.setdefault(int(code[version]), []).append(version)
        linked = [each for of_key in by_key.values() for each in sessions.linked(of_key)]
        # Without a session, the array has the shape (0,), so its shape is set before the columns
        # are separated.
        bounds = np.array([sessions.bounds(each) for each in linked], dtype=np.int64)
        start_ms, end_ms = bounds.reshape(-1, 2).T
        first = pa.array([each[0] for each in linked], pa.int64())
        sizes = np.array([len(each) for each in linked], dtype=np.int64)
        return self._rows_table({
            # All versions of a session have the same key, so the key of its first version is
            # enough.
            "key": state["key"].take(first),
            "timestamp_ms": end_ms,
            "window_start_ms": start_ms,
            "window_end_ms": end_ms,
            **versions.results(np.array(list(chain(*linked)), dtype=np.int64), sizes),
        })  # fmt: skip


class SessionColumnUpdatesEngine(SessionUpdatesEngine):
    """The updates of sessions with named aggregates."""

    def __init__(
        self,
        windows: SessionWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values`` by ``aggregates`` that fit the rows of ``inputs``.

        Raises:
            IllegalArgument: An aggregate does not fit ``values``, or has the name of a column that
                the engine needs.
        """
        self._columns = columns = PartialAggregates(aggregates, values, carried)
        types = columns.aggregate_types
        super().__init__(windows, values, types, columns.fields, carried, inputs=inputs)

    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        return ColumnVersions(self._columns, state, batch)


class SessionFunctionUpdatesEngine(SessionUpdatesEngine):
    """The updates of sessions by functions of a user."""

    def __init__(
        self,
        windows: SessionWindows,
        functions: UserFunctions,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        inputs: Sequence[InputRows] = (RECORDS,),
        rejection_text: Callable[[str], str] = str,
    ) -> None:
        """Aggregate ``values`` by the functions of ``functions``.

        ``rejection_text`` returns the text of the reason for which a record is rejected.

        Raises:
            IllegalArgument: An aggregate has the name of a column that the engine needs.
        """
        fields = pa.schema(functions.types)
        super().__init__(windows, values, functions.types, fields, carried, inputs=inputs)
        self._fold, self._values, self._words = functions, values, rejection_text

    def _reason(self, rejection_text: str) -> str:
        return self._words(rejection_text)

    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        carried = ["key", *(field.name for field in self._carried)]
        return FunctionVersions(self._fold, self._values, carried, state, batch)
