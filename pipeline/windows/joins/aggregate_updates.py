"""The updates of an aggregation as a stream: after each record the rows that it has changed.

What goes on is the record itself, with the aggregates in place of its values and with the row's
time, which is the greatest of the row's records: what Kafka Streams sends behind an aggregation
whose updates no cache holds back. In hopping windows a record changes several rows, and goes on as
so many elements, in the order of windows.

Records of a key take effect in the order (stream time, partition, offset). So a key that comes
from one partition has updates that follow from the log alone, in any cut into batches. Of a key
that comes from several, the last update of a batch is the same in any cut, and which ones stand in
between follows from the batches, as in Kafka from arrival (behind a repartition topic).
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, coded_keys, heads, pair_order
from oriel.pipeline.windows.definitions import LEFT, NoWindows, TimeWindows
from oriel.pipeline.windows.engines import Due, WindowGrid
from oriel.pipeline.windows.functions import Fold, Rejected, fold_values, in_partition_order
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE_FIELDS,
    Clocks,
    JoinEngine,
    JoinResult,
    values_beside,
)
from oriel.pipeline.windows.records import (
    EFFECT,
    NULL_VALUE,
    SUBORDER,
    arrival_keys,
    rows_schema,
    takes_away,
)

#: Of which window a result is.
_BOUNDS = (pa.field("window_start_ms", pa.int64()), pa.field("window_end_ms", pa.int64()))
#: Why a record has no part in any row, null in a row.
_REASON = pa.field("reason", pa.string())


@dataclass(frozen=True)
class StreamRows:
    """What the rows of a stream are beside records.

    ``share_places``: they have a suborder, as elements, pairs and changes have. ``have_effect``:
    they come of joined tables, and take effect in an order of their own (``EFFECT``).
    ``are_changes``: of a table, whose suborder says which take a row away.
    """

    share_places: bool = False
    have_effect: bool = False
    are_changes: bool = False


RECORDS = StreamRows()


class _Entries(NamedTuple):
    """A batch's records in the order of effect, and the windows that take each of them.

    ``windows`` has the range of windows, by their numbers, of each record of ``batch``; an entry
    is one of these. ``record`` is the record's number of each entry, ``start_ms`` its window's.
    """

    batch: pa.Table
    windows: Ranges
    record: Ints
    start_ms: Ints


class _Updates(NamedTuple):
    """What a batch makes: the next state, and the rows after some of the entries.

    ``entries`` are the numbers of these, ``columns`` the aggregates, ``timestamp_ms`` the rows'.
    ``gone`` says of which none is left. ``rejected`` has by a record's number why it has no part in
    any row.
    """

    state: pa.Table
    entries: Ints
    columns: Mapping[str, pa.Array]
    timestamp_ms: Ints
    gone: Flags
    rejected: Mapping[int, str] = {}


class AggregateUpdatesEngine(JoinEngine):
    """The updates of an aggregation by tumbling, hopping or no windows.

    Its one side is the stream, grouped by key, or a table's changes. A result has the place and the
    stream time of its record, and its suborder; in hopping windows that counts the record's rows.
    Where a function leaves no row it tells that (``null_value``). A change that takes a row away
    and one that puts another there, both of a group, are one update, as in Kafka.

    The state has rows of windows like that of ``TimeWindowEngine``. They leave when no partition
    can bring a record for them any more.
    """

    rows_leave_when_due = True
    rows_never_change = False

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        values: pa.Schema,
        types: Mapping[str, pa.DataType],
        state_fields: tuple[list[pa.Field], list[pa.Field]],
        carried: pa.Schema | None,
        *,
        rows: StreamRows,
    ) -> None:
        """Read ``values`` of a record, give aggregates of ``types``.

        ``state_fields`` are what tells the rows of a window apart, and what they have of
        aggregates. ``rows`` says what the stream's rows are.

        Raises:
            IllegalArgument: an aggregate has a name that the join needs.
        """
        self._windows, self._grid = windows, WindowGrid(windows)
        self._rows = rows
        self._carried = list(carried or ())
        place, aggregates = state_fields
        bounds = () if windows.kind == "none" else _BOUNDS
        given = pa.schema([*types.items(), *bounds])
        own = (*RESULT_FIELDS, NULL_VALUE, _REASON)
        results = values_beside(own, carried, [given])
        beside = [NULL_VALUE]
        beside += [SUBORDER] if rows.share_places else []
        beside += [EFFECT] if rows.have_effect else []
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside, *self._carried, *values])
        self.state_schema = rows_schema([_BOUNDS[0], *place], self._carried, aggregates)
        self.result_schema = pa.schema([*own, *results])

    def units(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.units(_starts(state))

    def touched_units(self, batch: pa.Table) -> Ranges:
        """See ``WindowEngine``."""
        return self._grid.touched_units(np.asarray(batch["timestamp_ms"]))

    def due_ms(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.last_ms(_starts(state))

    def unit_due_ms(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.unit_last_ms(_starts(state))

    def due(self, previous_close_ms: int, close_ms: int) -> tuple[Due, ...]:
        """See ``WindowEngine``; what leaves is looked at to be counted."""
        return (Due(previous_close_ms, close_ms),)

    def close_ms(self, clocks: Clocks) -> int:
        """Up to when windows are closed, by the slowest partition's stream time."""
        return clocks[LEFT] - self._windows.close_delay_ms

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Let the records take effect, each behind those before it.

        ``state`` may be a part, see ``WindowEngine``: at least the rows of the units that
        ``touched_units`` and ``due`` name.
        """
        entries = self._entries(self._read(batch))
        updates = self._updated(state.combine_chunks(), entries)
        is_open = self._grid.is_open(_starts(updates.state), self.close_ms(clocks))
        rejected = np.array(list(updates.rejected), dtype=np.int64)
        rows = self._results(entries, updates, entries.record[updates.entries])
        told = len(np.unique(entries.record[updates.entries]))
        hops = self._windows.kind == "hopping"
        return JoinResult(
            updates.state.filter(pa.array(is_open)).combine_chunks(),
            [rows, self._rejected(entries.batch.take(pa.array(rejected)), updates)],
            late=len(batch) - len(entries.batch),
            filtered=len(entries.batch) - told - len(rejected),
            flattened=told if hops else 0,
            elements=len(rows) if hops else 0,
        )

    def _entries(self, batch: pa.Table) -> _Entries:
        """The records in the order of effect that some open window takes."""
        effect = batch[EFFECT.name if self._rows.have_effect else "stream_time_ms"]
        order = np.lexsort((*arrival_keys(batch), np.asarray(effect)))
        batch = batch.take(pa.array(order)).combine_chunks()
        time_ms = np.asarray(batch["timestamp_ms"])
        # Rule 2: by the record's own times, as decision 0001 says of all windows.
        close_ms = np.asarray(batch["stream_time_ms"]) - self._windows.close_delay_ms
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        windows = Ranges(first_open, self._grid.last_windows(time_ms) + 1)
        batch, windows = batch.filter(pa.array(~windows.empty)), windows.keep(~windows.empty)
        return _Entries(batch, windows, windows.owners, self._grid.starts(windows.rows()[1]))

    @abstractmethod
    def _updated(self, state: pa.Table, entries: _Entries) -> _Updates:
        """Let the entries, one behind the other, change the rows of their windows."""

    def _changes(self, batch: pa.Table) -> tuple[Flags, Flags]:
        """Which records of ``batch`` take a row away, and of these which another one completes.

        That has the next place in the order of effect: the same record's, of the same group.
        """
        if not self._rows.are_changes:
            none = np.zeros(len(batch), dtype=np.bool_)
            return none, none
        (key_code,), _ = coded_keys(batch["key"])
        # Of joined tables suborders tell of which one a record is.
        table = np.asarray(batch[SUBORDER.name]) // 2
        places = key_code, table, np.asarray(batch["partition"]), np.asarray(batch["offset"])
        old = takes_away(batch)
        is_completed = np.zeros(len(batch), dtype=np.bool_)
        is_completed[:-1] = old[:-1] & ~old[1:] & ~heads(*places)[1:]
        return old, is_completed

    def _results(self, entries: _Entries, updates: _Updates, record: Ints) -> pa.Table:
        """The rows as results; ``record`` is the number of the record that each follows."""
        records, start_ms = entries.batch.take(pa.array(record)), entries.start_ms[updates.entries]
        suborder: pa.Array | Ints = pa.nulls(len(records), SUBORDER.type)
        if self._windows.kind == "hopping":
            suborder = updates.entries - np.searchsorted(entries.record, record)
        elif self._rows.share_places:
            suborder = records[SUBORDER.name]
        columns = {
            **{field.name: records[field.name] for field in SIDE_FIELDS},
            "timestamp_ms": pa.array(updates.timestamp_ms),
            SUBORDER.name: suborder,
            "window_start_ms": start_ms,
            "window_end_ms": self._grid.ends(start_ms),
            NULL_VALUE.name: updates.gone,
            _REASON.name: pa.nulls(len(records), _REASON.type),
            **updates.columns,
        }
        names = self.result_schema.names
        return pa.table([columns[name] for name in names], self.result_schema)

    def _rejected(self, records: pa.Table, updates: _Updates) -> pa.Table:
        """The records that a function raised on as results, with the reason and without a row."""
        columns = {field.name: records[field.name] for field in SIDE_FIELDS}
        columns[_REASON.name] = pa.array(list(updates.rejected.values()), _REASON.type)
        columns[NULL_VALUE.name] = pa.repeat(pa.scalar(value=False), len(records))
        if self._rows.share_places:
            columns[SUBORDER.name] = records[SUBORDER.name]
        return pa.table(
            [columns.get(f.name, pa.nulls(len(records), f.type)) for f in self.result_schema],
            self.result_schema,
        )


class ColumnUpdatesEngine(AggregateUpdatesEngine):
    """The updates of declarative aggregates; the state has the parts of each window's."""

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        aggregates: Mapping[str, Aggregate],
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: StreamRows = RECORDS,
    ) -> None:
        """Aggregate columns of ``values``; see ``AggregateUpdatesEngine``.

        Raises:
            IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
        """
        kept = {n: a.of_changes() if rows.are_changes else a for n, a in aggregates.items()}
        self._columns = PartColumns(kept, values, carried)
        super().__init__(
            windows, values, self._columns.aggregate_types, ([], self._columns.fields), carried,
            rows=rows,
        )  # fmt: skip

    def _updated(self, state: pa.Table, entries: _Entries) -> _Updates:
        (state_code, code), keys = coded_keys(state["key"], entries.batch["key"])
        ones = np.ones(len(entries.batch), dtype=np.int64)
        alone = self._columns.of(entries.batch, Ranges.side_by_side(ones))
        alone = alone.append_column("key", keys.take(pa.array(code)))
        alone = alone.take(pa.array(entries.record)).append_column(
            _BOUNDS[0], pa.array(entries.start_ms)
        )
        rows = pa.concat_tables([state, alone.select(state.column_names).cast(state.schema)])
        # A window's row of the state stands in front of its entries, which keep their order.
        codes = np.concatenate([state_code, code[entries.record]])
        start_ms = _starts(rows)
        order = pair_order(codes, start_ms)
        head = heads(codes[order], start_ms[order])
        running = _running(self._columns, rows.take(pa.array(order)), head)
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows))
        _, is_completed = self._changes(entries.batch)
        told = np.flatnonzero(~is_completed[entries.record])
        after = running.take(pa.array(place[len(state) + told])).combine_chunks()
        is_last = np.append(head[1:], True)[: len(head)]
        return _Updates(
            running.filter(pa.array(is_last)),
            told,
            self._columns.results(after),
            np.asarray(after["timestamp_ms"]),
            np.zeros(len(told), dtype=np.bool_),
        )


#: A window of a key, by its start in ms, and in it by partition the aggregate and its time in ms.
_Parts = dict[tuple[str, int], dict[int, tuple[Any, int]]]


class FoldUpdatesEngine(AggregateUpdatesEngine):
    """The updates of a user's functions, which are called record by record.

    The state has a row for each key, window and source partition, like that of ``TimeFoldEngine``:
    within a partition the functions see the records in offset order, and a window's row is that of
    its partitions merged. A record on which a function raises is in none of its windows.
    """

    def __init__(
        self,
        windows: TimeWindows | NoWindows,
        fold: Fold,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: StreamRows = RECORDS,
        reason: Callable[[str], str] = str,
    ) -> None:
        """Aggregate ``values`` by ``fold``; ``reason`` says in which words a record is rejected.

        Raises:
            IllegalArgument: an aggregate has a name that is taken.
        """
        fields = [pa.field("partition", pa.int32())], list(pa.schema(fold.types))
        super().__init__(
            windows, values, fold.types, fields, carried,
            rows=rows,
        )  # fmt: skip
        self._fold, self._values, self._reason = fold, values, reason

    def _updated(self, state: pa.Table, entries: _Entries) -> _Updates:
        parts = self._read_parts(state)
        told: list[tuple[int, Any, int]] = []
        rejected: dict[int, str] = {}
        batch, bounds = entries.batch, Ranges.side_by_side(entries.windows.sizes).pairs()
        names = ("key", "partition", "timestamp_ms")
        columns = (batch[name].to_pylist() for name in names)
        records = zip(*columns, fold_values(batch, self._values), bounds, strict=True)
        starts = entries.start_ms.tolist()
        subtracts, is_completed = (flags.tolist() for flags in self._changes(batch))
        # Of a row that was removed within the update of a table's row: nothing, but its time.
        removed = none = None, -1
        for number, (key, own_partition, time_ms, value, (low, high)) in enumerate(records):
            partition = self._fold.fold_partition(own_partition)
            changed: dict[int, tuple[Any, int]] = {}
            try:
                for entry in range(low, high):
                    own = parts.get((key, starts[entry]), {})
                    aggregate, newest_ms = own.get(partition, removed)
                    if subtracts[number]:
                        after = self._fold.subtracted(key, value, aggregate)
                    else:
                        after = self._fold.applied(0, key, value, aggregate)
                    changed[entry] = after, max(newest_ms, time_ms)
            except Rejected as error:
                rejected[number] = self._reason(str(error))
                continue
            removed = none
            for entry, part in changed.items():
                own = parts.setdefault((key, starts[entry]), {})
                own[partition] = part
                if part[0] is None:
                    # A removed row leaves nothing behind, neither its time (semantics section 9),
                    # which stands only for the row that comes in its place.
                    del own[partition]
                    removed = part if is_completed[number] else none
                if not is_completed[number]:
                    by_partition = [(place, aggregate) for place, (aggregate, _) in own.items()]
                    row = in_partition_order(self._fold, key, by_partition)
                    newest_ms = max((newest_ms for _, newest_ms in own.values()), default=part[1])
                    told.append((entry, row, newest_ms))
        return _Updates(
            self._state_rows(parts, state, batch),
            np.array([entry for entry, _, _ in told], dtype=np.int64),
            self._fold.columns([row for _, row, _ in told]),
            np.array([time_ms for _, _, time_ms in told], dtype=np.int64),
            np.array([row is None for _, row, _ in told], dtype=np.bool_),
            rejected,
        )

    def _read_parts(self, state: pa.Table) -> _Parts:
        parts: _Parts = {}
        names = ("key", _BOUNDS[0].name, "partition", "timestamp_ms")
        columns = (state[name].to_pylist() for name in names)
        for key, start_ms, partition, time_ms, aggregate in zip(
            *columns, self._fold.read(state), strict=True
        ):
            parts.setdefault((key, start_ms), {})[partition] = aggregate, time_ms
        return parts

    def _state_rows(self, parts: _Parts, state: pa.Table, batch: pa.Table) -> pa.Table:
        """The next state; what is carried of a key, each of its records has."""
        names = ["key", *(field.name for field in self._carried)]
        both = pa.concat_tables([state.select(names), batch.select(names)])
        carried = {row["key"]: row for row in both.to_pylist()}
        rows = [
            (key, start_ms, place, *part)
            for (key, start_ms), own in parts.items()
            for place, part in own.items()
        ]
        columns = {
            "key": [key for key, *_ in rows],
            _BOUNDS[0].name: [start_ms for _, start_ms, *_ in rows],
            "partition": [place for _, _, place, *_ in rows],
            **{name: [carried[key][name] for key, *_ in rows] for name in names[1:]},
            **self._fold.columns([aggregate for *_, aggregate, _ in rows]),
            "timestamp_ms": [time_ms for *_, time_ms in rows],
        }
        return pa.table(columns, schema=self.state_schema)


def _starts(rows: pa.Table) -> Ints:
    """The starts of the windows of rows of state, in ms."""
    starts: Ints = np.asarray(rows[_BOUNDS[0].name])
    return starts


def _running(columns: PartColumns, rows: pa.Table, head: Flags) -> pa.Table:
    """For each row of state all rows of its group up to it, merged; ``head`` begins each group.

    Neighbours are merged into pairs, of which half as many rows the same is found out; a row is
    then the pairs in front of it, and perhaps itself. Twice as many merges as rows, however many
    of them are one key's.
    """
    number = np.arange(len(rows))
    of_group = number - np.maximum.accumulate(np.where(head, number, 0))
    if not of_group.any():
        return rows
    begins = of_group % 2 == 0
    pair = np.cumsum(begins) - 1
    pairs = _running(columns, columns.merged(rows, Ranges.of_runs(begins)), head[begins])
    # Of a row that begins a pair: the pairs before, if there are any, and itself.
    has_before = begins & (of_group > 0)
    sizes = 1 + has_before
    source = np.where(begins, len(pairs) + number, pair).repeat(sizes)
    parts = Ranges.side_by_side(sizes)
    source[parts.low[has_before]] = pair[has_before] - 1
    return columns.merged(pa.concat_tables([pairs, rows]).take(pa.array(source)), parts)
