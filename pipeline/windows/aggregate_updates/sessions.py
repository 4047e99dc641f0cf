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
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregate_updates.contract import AggregateUpdatesEngine, Updates
from oriel.pipeline.windows.aggregate_updates.versions import (
    ColumnVersions,
    FoldVersions,
    Versions,
)
from oriel.pipeline.windows.aggregates import Aggregate, PartColumns
from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
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


class _Part(NamedTuple):
    """A partition session: bounds and reach in ms, partition, and the number of its version."""

    end_ms: int
    start_ms: int
    partition: int
    reach_ms: int
    version: int


class _Change(NamedTuple):
    """What a record does: the sessions that it joins, by end, and theirs with it, if it stays."""

    joined: list[_Part]
    hull: _Part
    stays: bool


class _Row(NamedTuple):
    """A row that is told: number of the record, bounds in ms, parts; without any it is gone."""

    record: int
    start_ms: int
    end_ms: int
    parts: tuple[_Part, ...]


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
        parts = _parts_of(state)
        versions = self._versions(state, batch)
        changes, sessions, late, rejected = self._merged(old, parts, records, batch, versions)

        # Which keys have sessions of several partitions: those of others are the store's.
        pairs = np.unique(pair) // max(len(partitions), 1)
        is_several = np.bincount(pairs, minlength=len(keys)) > 1
        rows = list(_rows_of(changes, code, parts, state_code, is_several))
        columns = versions.results([[part.version for part in row.parts] for row in rows])
        untouched = [parts[n] for n in np.flatnonzero(~np.isin(state_pair, batch_pair)).tolist()]
        numbers = ("record", "start_ms", "end_ms")
        record, start_ms, end_ms = (
            np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in numbers
        )
        before = self._rows_before(state, state_code, np.unique(code), versions)
        return Updates(
            state=self._state_of([*untouched, *sessions], versions, state, batch, close_ms),
            record=record,
            start_ms=start_ms,
            end_ms=end_ms,
            columns=columns,
            # A session's time is its end (KIP-259), also that of one that is gone.
            timestamp_ms=end_ms,
            gone=np.array([not row.parts for row in rows], dtype=np.bool_),
            late=np.array(late, dtype=np.int64),
            rejected=rejected,
            before=before,
        )

    def _merged(
        self,
        old: SessionBounds,
        parts: Sequence[_Part],
        records: SessionRecords,
        batch: pa.Table,
        versions: Versions,
    ) -> tuple[dict[int, _Change], list[_Part], list[int], dict[int, str]]:
        """Take the records into the sessions of their pairs.

        Returns what each record changes, the pairs' sessions then, and who is late or rejected.
        """
        partition = batch["partition"].to_pylist()
        changes: dict[int, _Change] = {}

        def taken(joined: Sequence[PartitionSession], record: Arrival) -> _Part | None:
            own: list[_Part] = [session.aggregate for session in joined]
            start_ms = end_ms = record.time_ms
            reach_ms = record.reach_ms
            for part in own:
                start_ms, end_ms = min(start_ms, part.start_ms), max(end_ms, part.end_ms)
                reach_ms = min(reach_ms, part.reach_ms)
            stays = versions.make(record.row, [part.version for part in own])
            version = len(parts) + record.row
            hull = _Part(end_ms, start_ms, partition[record.row], reach_ms, version)
            changes[record.row] = _Change(own, hull, stays)
            return hull if stays else None

        has_records = np.flatnonzero(np.isin(old.pair, records.pair))
        sessions_of = old.sessions_by(old.pair, has_records, parts)
        sessions: list[_Part] = []
        late: list[int] = []
        rejected: dict[int, str] = {}
        of_pairs = records.in_arrival_order_by(records.pair, np.arange(len(batch)))
        for pair, arrivals in of_pairs:
            result = merge_in_arrival_order(
                sessions_of.get(pair, []), arrivals, self.windows.inactivity_gap_ms, taken
            )
            sessions += [session.aggregate for session in result.sessions]
            late += result.late
            rejected |= {row: self._reason(reason) for row, reason in result.rejected}
        return changes, sessions, late, rejected

    def _reason(self, reason: str) -> str:
        """In which words a record is rejected."""
        return reason

    def _state_of(
        self,
        parts: Sequence[_Part],
        versions: Versions,
        state: pa.Table,
        batch: pa.Table,
        close_ms: int,
    ) -> pa.Table:
        """The partition sessions as rows, without those of sessions that are closed for all."""
        version = np.array([part.version for part in parts], dtype=np.int64)
        both = pa.concat_tables([rows.select(["key"]) for rows in (state, batch)])
        kept = versions.rows(version)
        columns = {name: kept[name] for name in kept.column_names}
        columns["key"] = both["key"].take(pa.array(version))
        for name, of in _COLUMNS.items():
            columns[name] = pa.array([getattr(part, of) for part in parts], pa.int64())
        names = self.state_schema.names
        rows = pa.table([columns[name] for name in names], names=names).cast(self.state_schema)
        rows = rows.combine_chunks()
        (code,), _ = coded_keys(rows["key"])
        end_ms = np.asarray(rows["window_end_ms"])
        order, linked = overlapping(code, np.asarray(rows["reach_ms"]), end_ms)
        is_open = np.empty(len(rows), dtype=np.bool_)
        is_open[order] = linked.any_of(self.windows.rule.is_open(end_ms[order], close_ms))[
            linked.owners
        ]
        return rows.filter(pa.array(is_open))

    def _rows_before(
        self, state: pa.Table, code: Ints, chosen: Ints, versions: Versions
    ) -> pa.Table | None:
        """The rows of the ``chosen`` keys ahead of the batch, if somebody behind asks for them."""
        if not self.tells_before:
            return None
        own = np.flatnonzero(np.isin(code, chosen))
        parts = _parts_of(state.take(pa.array(own)), own.tolist())
        by_key: dict[int, list[_Part]] = {}
        for number, part in zip(code[own].tolist(), parts, strict=True):
            by_key.setdefault(number, []).append(part)
        sessions = [linked for of_key in by_key.values() for linked in _linked(of_key)]
        first = pa.array([session[0].version for session in sessions], pa.int64())
        keys = state["key"].take(first).combine_chunks()
        end_ms = [max(part.end_ms for part in session) for session in sessions]
        named = {
            "key": keys,
            "timestamp_ms": end_ms,
            "window_start_ms": [min(part.start_ms for part in session) for session in sessions],
            "window_end_ms": end_ms,
            **versions.results([[part.version for part in each] for each in sessions]),
        }
        schema = pa.schema([each for each in self.result_schema if each.name in named])
        return pa.table([named[name] for name in schema.names], schema)


#: The columns of a partition session in the state, and what ``_Part`` calls them.
_COLUMNS = {
    "window_end_ms": "end_ms",
    "window_start_ms": "start_ms",
    "partition": "partition",
    "reach_ms": "reach_ms",
    "timestamp_ms": "end_ms",
}


def _parts_of(state: pa.Table, versions: Sequence[int] | None = None) -> list[_Part]:
    """The partition sessions of a state; ``versions`` are not their rows where they are given."""
    names = ("window_end_ms", "window_start_ms", "partition", "reach_ms")
    columns = (state[name].to_pylist() for name in names)
    return list(map(_Part, *columns, range(len(state)) if versions is None else versions))


def _linked(parts: Iterable[_Part]) -> list[tuple[_Part, ...]]:
    """Partition sessions of a key as sessions of the store, by end; of each the parts by end."""
    linked: list[list[_Part]] = []
    highest_ms = -1
    for part in sorted(parts, key=lambda part: part.reach_ms):
        if linked and part.reach_ms <= highest_ms:
            linked[-1].append(part)
        else:
            linked.append([part])
        highest_ms = max(highest_ms, part.end_ms)
    return [tuple(sorted(each)) for each in linked]


def _rows_of(
    changes: Mapping[int, _Change],
    code: Ints,
    old: Sequence[_Part],
    old_code: Ints,
    is_several: Flags,
) -> Iterable[_Row]:
    """The rows that the changes tell, in the order of records.

    ``code`` has the key of each record, ``old_code`` that of each session in the state, and
    ``is_several`` says of each key whether it has sessions of several partitions.
    """
    parts_of: dict[int, set[_Part]] = {int(key): set() for key in np.flatnonzero(is_several)}
    for part, key in zip(old, old_code.tolist(), strict=True):
        if key in parts_of:
            parts_of[key].add(part)
    keys = code.tolist()
    for record in sorted(changes):
        joined, hull, stays = change = changes[record]
        if keys[record] in parts_of:
            yield from _linked_rows(record, change, parts_of[keys[record]])
            continue
        # Of the record's ms alone nothing has gone, if it is there once more.
        if hull.start_ms != hull.end_ms:
            for part in joined:
                yield _Row(record, part.start_ms, part.end_ms, ())
        yield _Row(record, hull.start_ms, hull.end_ms, (hull,) if stays else ())


def _linked_rows(record: int, change: _Change, parts: set[_Part]) -> Iterable[_Row]:
    """The rows that a record tells of a key whose sessions, ``parts``, it changes."""
    joined, hull, stays = change
    known = _linked(parts)
    parts.difference_update(joined)
    parts |= {hull} if stays else set()
    now = _linked(parts)
    # By their parts: what stays as it was is not told.
    after = [session for session in now if session not in set(known)]
    bounds = [(_start_ms(session), session[-1].end_ms) for session in after]
    if not stays and not after:
        bounds, after = [(hull.start_ms, hull.end_ms)], [()]
    if bounds != [(hull.start_ms, hull.start_ms)]:
        for session in known:
            if session not in set(now):
                yield _Row(record, _start_ms(session), session[-1].end_ms, ())
    for (start_ms, end_ms), session in zip(bounds, after, strict=True):
        yield _Row(record, start_ms, end_ms, session)


def _start_ms(session: Iterable[_Part]) -> int:
    return min(part.start_ms for part in session)


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
        carried = [field.name for field in self._carried]
        return FoldVersions(self._fold, self._values, carried, state, batch)
