"""The updates of sessions (KIP-94).

A record joins sessions of its pair (key, partition), which makes one of them and of itself
(``engines.sessions``). It tells that each of these is gone, in the order of their ends, and then
the one that there is now; only where that is the record's own ms alone, none has gone. So Kafka
Streams forwards it (semantics section 4, steps 5 and 6), also for a record that changes no bounds.

Where a key has records of several partitions, the rows are the sessions of the store: of partition
sessions those are one whose intervals from reach to end overlap (decision 0009).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine, Updates
from oriel.pipeline.windows.aggregate_updates.versions import (
    ColumnVersions,
    FoldVersions,
    Versions,
)
from oriel.pipeline.windows.aggregates import Aggregate, PartColumns
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, coded_keys
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
from oriel.pipeline.windows.functions import Fold
from oriel.pipeline.windows.joins import RECORDS, STREAM_TIME, SideRows
from oriel.pipeline.windows.records import rows_schema


@dataclass
class _Sessions:
    """Partition sessions by the number of their version, those of the state first, as flat lists.

    A version beside them has its record's number behind those of the state; it is there if the
    record is ``taken``, and ``stays`` unless a function has removed it. ``joined`` has the
    versions, by end, that a record has ended, if any.
    """

    partition: list[int]
    start_ms: list[int]
    end_ms: list[int]
    reach_ms: list[int]
    taken: list[bool]
    stays: list[bool]
    joined: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, state: pa.Table, batch: pa.Table) -> Self:
        """Those of ``state``, and room for one version for each record of ``batch``."""
        room = [0] * len(batch)
        names = ("window_start_ms", "window_end_ms", "reach_ms")
        partition = state["partition"].to_pylist() + batch["partition"].to_pylist()
        start_ms, end_ms, reach_ms = (state[name].to_pylist() + room for name in names)
        is_old = [True] * len(state) + [False] * len(batch)
        return cls(partition, start_ms, end_ms, reach_ms, is_old, [True] * len(is_old))

    def linked(self, versions: Iterable[int]) -> list[tuple[int, ...]]:
        """Versions of a key as sessions of the store, by end; of each its versions by end."""
        linked: list[list[int]] = []
        highest_ms = -1
        for version in sorted(versions, key=self.reach_ms.__getitem__):
            if linked and self.reach_ms[version] <= highest_ms:
                linked[-1].append(version)
            else:
                linked.append([version])
            highest_ms = max(highest_ms, self.end_ms[version])
        return [tuple(sorted(each, key=self._order)) for each in linked]

    def bounds(self, session: Sequence[int]) -> tuple[int, int]:
        """Start and end of a session of the store."""
        return min(self.start_ms[each] for each in session), self.end_ms[session[-1]]

    def _order(self, version: int) -> tuple[int, int, int]:
        """Decision 0009 merges the aggregates of several partitions in this order."""
        return self.end_ms[version], self.start_ms[version], self.partition[version]


class _Rows(NamedTuple):
    """Rows that are told: number of the record, bounds in ms, how many versions; 0: it is gone.

    ``versions`` are those of all rows, one behind the other.
    """

    record: Ints
    start_ms: Ints
    end_ms: Ints
    sizes: Ints
    versions: Ints

    def followed_by(self, others: "_Rows") -> "_Rows":
        """These rows, and others behind them."""
        return _Rows(*(np.concatenate(columns) for columns in zip(self, others, strict=True)))

    def take(self, rows: Ints) -> "_Rows":
        """The rows with these numbers."""
        ranges = Ranges.side_by_side(self.sizes)
        versions = self.versions[Ranges(ranges.low[rows], ranges.high[rows]).rows()[1]]
        bounds = self.start_ms[rows], self.end_ms[rows]
        return _Rows(self.record[rows], *bounds, self.sizes[rows], versions)


class SessionUpdatesEngine(AggregateUpdatesEngine):
    """The updates of sessions; the state has partition sessions, as that of ``SessionEngine``."""

    windows: SessionWindows
    # A session of the store closes with the last of its partition sessions.
    rows_leave_when_due = False

    def __init__(
        self,
        windows: SessionWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        kept: Iterable[pa.Field],
        carried: pa.Schema | None,
        *,
        sides: Sequence[SideRows],
    ) -> None:
        """See ``AggregateUpdatesEngine``; ``kept`` are what a session has of aggregates."""
        state_schema = rows_schema(SESSION_FIELDS, carried or (), kept)
        super().__init__(windows, values, types, state_schema, carried, sides=sides)

    @abstractmethod
    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        """What makes the versions of the sessions of ``state``, with the records of ``batch``."""

    def due_ms(self, state: pa.Table) -> Ints:
        """See ``SessionEngine``."""
        return self.windows.rule.last_ms(np.asarray(state["window_end_ms"]))

    def _updated(self, state: pa.Table, batch: pa.Table, close_ms: int) -> Updates:
        (state_code, code), keys = coded_keys(state["key"], batch["key"])
        partition = np.concatenate([np.asarray(rows["partition"]) for rows in (state, batch)])
        partitions, place = np.unique(partition, return_inverse=True)
        pair = np.concatenate([state_code, code]) * max(len(partitions), 1) + place
        state_pair, batch_pair = np.split(pair, [len(state)])
        own_close_ms = np.asarray(batch[STREAM_TIME.name]) - self.windows.close_delay_ms
        records = SessionRecords.of(
            batch.append_column("close_ms", pa.array(own_close_ms)), batch_pair, self.windows
        )
        old = SessionBounds.of_state(state, state_pair)
        versions, sessions = self._versions(state, batch), _Sessions.of(state, batch)
        newest, late, rejected = self._merged(old, records, sessions, versions)

        # Which keys have sessions of several partitions: those of others are the store's.
        pairs = np.unique(pair) // max(len(partitions), 1)
        is_several = np.bincount(pairs, minlength=len(keys)) > 1
        rows = _rows_of(sessions, state_code, code, is_several)
        untouched = np.flatnonzero(~np.isin(state_pair, batch_pair))
        chosen = np.flatnonzero(np.isin(state_code, code))
        return Updates(
            state=self._state_of([*untouched.tolist(), *newest], sessions, versions, close_ms),
            record=rows.record,
            start_ms=rows.start_ms,
            end_ms=rows.end_ms,
            columns=versions.results(rows.versions, rows.sizes),
            # A session's time is its end (KIP-259), also that of one that is gone.
            timestamp_ms=rows.end_ms,
            gone=rows.sizes == 0,
            late=np.array(late, dtype=np.int64),
            rejected=rejected,
            before=self._rows_before(state, state_code, chosen, (sessions, versions)),
        )

    def _merged(
        self,
        old: SessionBounds,
        records: SessionRecords,
        sessions: _Sessions,
        versions: Versions,
    ) -> tuple[list[int], list[int], dict[int, str]]:
        """Take the records into the sessions of their pairs.

        Returns the versions that the pairs' sessions have then, and who is late or rejected.
        """
        first = len(old)

        def taken(joined: Sequence[PartitionSession], record: Arrival) -> int | None:
            version = first + record.row
            start_ms = end_ms = record.time_ms
            reach_ms = record.reach_ms
            own: tuple[int, ...] = tuple([session.aggregate for session in joined])
            for session in joined:
                start_ms, end_ms = min(start_ms, session.start_ms), max(end_ms, session.end_ms)
                reach_ms = min(reach_ms, session.reach_ms)
            stays = versions.make(record.row, own)
            sessions.start_ms[version], sessions.end_ms[version] = start_ms, end_ms
            sessions.reach_ms[version] = reach_ms
            sessions.taken[version], sessions.stays[version] = True, stays
            if own:
                sessions.joined[record.row] = own
            return version if stays else None

        has_records = np.flatnonzero(np.isin(old.pair, records.pair))
        sessions_of = old.sessions_by(old.pair, has_records, range(first))
        newest: list[int] = []
        late: list[int] = []
        rejected: dict[int, str] = {}
        gap_ms = self.windows.inactivity_gap_ms
        of_pairs = records.in_arrival_order_by(records.pair, np.arange(len(records.pair)))
        for pair, arrivals in of_pairs:
            result = merge_in_arrival_order(sessions_of.get(pair, []), arrivals, gap_ms, taken)
            newest += [session.aggregate for session in result.sessions]
            late += result.late
            rejected |= {row: self._reason(reason) for row, reason in result.rejected}
        return newest, late, rejected

    def _reason(self, reason: str) -> str:
        """In which words a record is rejected."""
        return reason

    def _state_of(
        self, newest: Sequence[int], sessions: _Sessions, versions: Versions, close_ms: int
    ) -> pa.Table:
        """The newest versions as rows, without those of sessions that are closed for all."""
        version = np.array(newest, dtype=np.int64)
        kept = versions.rows(version)
        start_ms, end_ms, reach_ms, partition = (
            np.array(column, dtype=np.int64)[version]
            for column in (
                sessions.start_ms, sessions.end_ms, sessions.reach_ms, sessions.partition
            )
        )  # fmt: skip
        columns = {
            **{name: kept[name] for name in kept.column_names},
            "window_start_ms": start_ms,
            "window_end_ms": end_ms,
            "reach_ms": reach_ms,
            "partition": partition,
            "timestamp_ms": end_ms,
        }
        names = self.state_schema.names
        rows = pa.table([columns[name] for name in names], names=names).cast(self.state_schema)
        (code,), _ = coded_keys(rows["key"])
        order, linked = overlapping(code, reach_ms, end_ms)
        is_open = np.empty(len(rows), dtype=np.bool_)
        has_open = linked.any_of(self.windows.rule.is_open(end_ms[order], close_ms))
        is_open[order] = has_open[linked.owners]
        return rows.filter(pa.array(is_open)).combine_chunks()

    def _rows_before(
        self, state: pa.Table, code: Ints, chosen: Ints, known: tuple[_Sessions, Versions]
    ) -> pa.Table | None:
        """The ``chosen`` rows of the state as those of the store, if somebody behind asks."""
        if not self.tells_before:
            return None
        sessions, versions = known
        by_key: dict[int, list[int]] = {}
        for version in chosen.tolist():
            by_key.setdefault(int(code[version]), []).append(version)
        linked = [each for of_key in by_key.values() for each in sessions.linked(of_key)]
        start_ms, end_ms = np.array([sessions.bounds(each) for each in linked]).reshape(-1, 2).T
        first = pa.array([each[0] for each in linked], pa.int64())
        sizes = np.array([len(each) for each in linked], dtype=np.int64)
        named = {
            "key": state["key"].take(first),
            "timestamp_ms": end_ms,
            "window_start_ms": start_ms,
            "window_end_ms": end_ms,
            **versions.results(np.array(list(chain(*linked)), dtype=np.int64), sizes),
        }
        schema = pa.schema([each for each in self.result_schema if each.name in named])
        return pa.table([named[name] for name in schema.names], schema)


def _rows_of(sessions: _Sessions, state_code: Ints, code: Ints, is_several: Flags) -> _Rows:
    """The rows that records tell, in their order.

    ``state_code`` has the key of each session in the state, ``code`` that of each record, and
    ``is_several`` says of each key whether it has sessions of several partitions.
    """
    first = len(state_code)
    start_ms, end_ms = np.array(sessions.start_ms), np.array(sessions.end_ms)
    is_taken = np.array(sessions.taken[first:], dtype=np.bool_)
    record = np.flatnonzero(is_taken & ~is_several[code])
    # Of the record's ms alone nothing has gone, if it is there once more.
    told = record[start_ms[first + record] != end_ms[first + record]].tolist()
    joined = [sessions.joined.get(each, ()) for each in told]
    gone = np.array(list(chain(*joined)), dtype=np.int64)
    of_gone = np.repeat(np.array(told, dtype=np.int64), [len(each) for each in joined])
    version = np.concatenate([gone, first + record])
    sizes = np.zeros(len(version), dtype=np.int64)
    sizes[len(gone) :] = np.array(sessions.stays, dtype=np.int64)[first + record]
    bounds = start_ms[version], end_ms[version]
    rows = _Rows(np.concatenate([of_gone, record]), *bounds, sizes, version[sizes > 0])
    rows = rows.followed_by(_linked_rows(sessions, state_code, code, is_several))
    # By record; each tells first what is gone.
    return rows.take(np.argsort(rows.record, kind="stable"))


def _linked_rows(sessions: _Sessions, state_code: Ints, code: Ints, is_several: Flags) -> _Rows:
    """The rows that are told of keys with sessions of several partitions."""
    first = len(state_code)
    parts_of: dict[int, set[int]] = {int(key): set() for key in np.flatnonzero(is_several)}
    for version in np.flatnonzero(is_several[state_code]).tolist():
        parts_of[int(state_code[version])].add(version)
    rows: list[tuple[int, int, int, tuple[int, ...]]] = []
    for record in np.flatnonzero(is_several[code]).tolist():
        version = first + record
        if not sessions.taken[version]:
            continue
        parts = parts_of[int(code[record])]
        known = sessions.linked(parts)
        parts.difference_update(sessions.joined.get(record, ()))
        parts |= {version} if sessions.stays[version] else set()
        now = sessions.linked(parts)
        # By their parts: what stays as it was is not told.
        after = [(*sessions.bounds(each), each) for each in now if each not in known]
        hull = sessions.start_ms[version], sessions.end_ms[version]
        after = after or [(*hull, ())]
        if [each[:2] for each in after] != [(hull[0], hull[0])]:
            gone = (each for each in known if each not in now)
            rows += [(record, *sessions.bounds(each), ()) for each in gone]
        rows += [(record, *each) for each in after]
    records, start_ms, end_ms = (
        np.array([row[n] for row in rows], dtype=np.int64) for n in range(3)
    )
    sizes = np.array([len(row[3]) for row in rows], dtype=np.int64)
    versions = np.array(list(chain(*(row[3] for row in rows))), dtype=np.int64)
    return _Rows(records, start_ms, end_ms, sizes, versions)


class SessionColumnUpdatesEngine(SessionUpdatesEngine):
    """The updates of sessions by declarative aggregates."""

    def __init__(
        self,
        windows: SessionWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        sides: Sequence[SideRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values``, by ``aggregates`` that fit rows of such ``sides``.

        Raises:
            IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
        """
        self._columns = columns = PartColumns(aggregates, values, carried)
        types = columns.aggregate_types
        super().__init__(windows, values, types, columns.fields, carried, sides=sides)

    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        return ColumnVersions(self._columns, state, batch)


class SessionFoldUpdatesEngine(SessionUpdatesEngine):
    """The updates of sessions by a user's functions."""

    def __init__(
        self,
        windows: SessionWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        sides: Sequence[SideRows] = (RECORDS,),
        reason: Callable[[str], str] = str,
    ) -> None:
        """Aggregate ``values`` by ``fold``; ``reason`` says in which words a record is rejected.

        Raises:
            IllegalArgument: an aggregate has a name that is taken.
        """
        fields = pa.schema(fold.types)
        super().__init__(windows, values, fold.types, fields, carried, sides=sides)
        self._fold, self._values, self._words = fold, values, reason

    def _reason(self, reason: str) -> str:
        return self._words(reason)

    def _versions(self, state: pa.Table, batch: pa.Table) -> Versions:
        carried = ["key", *(field.name for field in self._carried)]
        return FoldVersions(self._fold, self._values, carried, state, batch)
