"""The updates of an aggregation as a stream: after each record the rows that it has changed.

What goes on is the record itself, with the aggregates in place of its values and with the row's
time, which is the greatest of the row's records: what Kafka Streams sends behind an aggregation
whose updates no cache holds back. In hopping windows a record changes several rows, and goes on as
so many elements, in the order of windows.

Records of a key take effect in the order (stream time, partition, offset). So a key that comes
from one partition has updates that follow from the log alone, in any cut into batches. Of a key
that comes from several, the last update of a batch is the same in any cut, and which ones stand in
between follows from the batches, as in Kafka from arrival (behind a repartition topic).

Merged streams have several sides, and their records become those of one stream, in the order
(stream time, log, partition, offset); each keeps its own clock (decision 0059).
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.aggregates import Aggregate, PartColumns
from oriel.pipeline.windows.arrays import Flags, Ints, Ranges, coded_keys, heads, pair_order
from oriel.pipeline.windows.definitions import LEFT, NoWindows, TimeWindows
from oriel.pipeline.windows.engines import Due, WindowGrid
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    effect_order,
    replaced,
    values_beside,
)
from oriel.pipeline.windows.records import (
    EFFECT,
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
    rows_schema,
    takes_away,
)

#: Of which window a result is.
WINDOW_BOUNDS = (pa.field("window_start_ms", pa.int64()), pa.field("window_end_ms", pa.int64()))
#: Why a record has no part in any row, null in a row.
_REASON = pa.field("reason", pa.string())


class Entries(NamedTuple):
    """A batch's records in the order of effect, and the windows that take each of them.

    ``windows`` has the range of windows, by their numbers, of each record of ``batch``; an entry
    is one of these. ``record`` is the record's number of each entry, ``start_ms`` its window's.
    """

    batch: pa.Table
    windows: Ranges
    record: Ints
    start_ms: Ints


class Updates(NamedTuple):
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

    Its side is the stream, grouped by key, or a table's changes; of merged streams each is one. A
    result has the place and the stream time of its record, and its suborder; in hopping windows
    that counts the record's rows. Where a function leaves no row it tells that (``null_value``). A
    change that takes a row away and one that puts another there, both of a group, are one update,
    as in Kafka.

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
        sides: Sequence[SideRows],
    ) -> None:
        """Read ``values`` of a record, give aggregates of ``types``.

        ``state_fields`` are what tells the rows of a window apart, and what they have of
        aggregates. ``sides`` say what the rows of the stream are, or of each of merged ones.

        Raises:
            IllegalArgument: an aggregate has a name that the join needs.
        """
        self._windows, self._grid = windows, WindowGrid(windows)
        self._sides, self._logs = len(sides), SideLogs([each.places for each in sides])
        self._rows = rows = sides[LEFT] if len(sides) == 1 else self._logs.merged
        self._place_fields = (*SIDE_FIELDS, *rows.places.fields)
        self._carried = list(carried or ())
        place, aggregates = state_fields
        bounds = () if windows.kind == "none" else WINDOW_BOUNDS
        given = pa.schema([*types.items(), *bounds])
        # Rows behind have a suborder in any case.
        numbers = rows.places.fields or [SUBORDER]
        own = (*PLACE_FIELDS, *numbers, STREAM_TIME, NULL_VALUE, _REASON)
        results = values_beside(own, carried, [given])
        # Merged streams get an order here.
        numbers = max((side.places.fields for side in sides), key=len)
        order = rows.order_fields if len(sides) == 1 else numbers
        beside = [*order, NULL_VALUE, *self._carried]
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside, *values])
        self.state_schema = rows_schema([WINDOW_BOUNDS[0], *place], self._carried, aggregates)
        self.row_schema = pa.schema(types.items())
        self.result_schema = pa.schema([*own, *results])

    def units(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.units(starts_of(state))

    def touched_units(self, batch: pa.Table) -> Ranges:
        """See ``WindowEngine``."""
        return self._grid.touched_units(np.asarray(batch["timestamp_ms"]))

    def due_ms(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.last_ms(starts_of(state))

    def unit_due_ms(self, state: pa.Table) -> Ints:
        """See ``WindowEngine``."""
        return self._grid.unit_last_ms(starts_of(state))

    def due(self, previous_close_ms: int, close_ms: int) -> tuple[Due, ...]:
        """See ``WindowEngine``; what leaves is looked at to be counted."""
        return (Due(previous_close_ms, close_ms),)

    def close_ms(self, clocks: Clocks) -> int:
        """Up to when windows are closed, by the slowest partition's stream time."""
        slowest_ms = clocks[LEFT] if self._sides == 1 else min(clocks)
        return slowest_ms - self._windows.close_delay_ms

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Let the records take effect, each behind those before it.

        ``state`` may be a part, see ``WindowEngine``: at least the rows of the units that
        ``touched_units`` and ``due`` name.
        """
        batch = self._of_one_stream(self._read(batch))
        entries = self._entries(batch)
        updates = self._updated(state.combine_chunks(), entries)
        is_open = self._grid.is_open(starts_of(updates.state), self.close_ms(clocks))
        before = None
        if self.tells_before:
            of_keys = pc.is_in(state["key"], value_set=entries.batch["key"].unique())
            before = self._rows_of(state.filter(of_keys).combine_chunks())
        rejected = np.array(list(updates.rejected), dtype=np.int64)
        rows = self._results(entries, updates, entries.record[updates.entries])
        pieces = [rows, self._rejected(entries.batch.take(pa.array(rejected)), updates)]
        if self._sides > 1:
            pieces = [
                replaced(piece, {"partition": np.asarray(piece["partition"]) // self._sides})
                for piece in pieces
            ]
        goes_on = np.zeros(len(entries.batch), dtype=np.bool_)
        goes_on[entries.record[updates.entries]] = True
        told = int(goes_on.sum())
        goes_on[rejected] = True
        came, accepted = self._by_side(batch), self._by_side(entries.batch)
        hops = self._windows.kind == "hopping"
        return JoinResult(
            updates.state.filter(pa.array(is_open)).combine_chunks(),
            pieces,
            late=tuple((came - accepted).tolist()),
            filtered=tuple(self._by_side(entries.batch.filter(pa.array(~goes_on))).tolist()),
            flattened=told if hops else 0,
            elements=len(rows) if hops else 0,
            before=before,
        )

    def _of_one_stream(self, batch: pa.Table) -> pa.Table:
        """Records of merged streams as those of one: partitions of each stream, order, numbers."""
        if self._sides == 1:
            return batch
        logs, stream_time_ms = self._logs.count, np.asarray(batch[STREAM_TIME.name])
        partition = np.asarray(batch["partition"]).astype(np.int64)
        values = {
            "partition": partition * self._sides + np.asarray(batch[SIDE.name]),
            SUBORDER.name: self._logs.suborders(batch),
            EFFECT.name: stream_time_ms * logs + self._logs.numbers(batch),
        }
        for field in (SUBORDER, EFFECT):
            if field.name not in batch.column_names:
                batch = batch.append_column(field, pa.nulls(len(batch), field.type))
        return replaced(batch, values)

    def _by_side(self, records: pa.Table) -> Ints:
        """How many records are of each side."""
        return np.bincount(np.asarray(records[SIDE.name]), minlength=self._sides)

    def _rows_of(self, state: pa.Table) -> pa.Table:
        """The rows that a state has: key, time, bounds of windows, aggregates."""
        keys, start_ms, columns, timestamp_ms = self._rows_in(state)
        bounds = {"window_start_ms": start_ms, "window_end_ms": self._grid.ends(start_ms)}
        named = {"key": keys, "timestamp_ms": timestamp_ms, **bounds, **columns}
        schema = pa.schema([field for field in self.result_schema if field.name in named])
        return pa.table([named[name] for name in schema.names], schema)

    @abstractmethod
    def _rows_in(self, state: pa.Table) -> tuple[pa.Array, Ints, Mapping[str, pa.Array], Ints]:
        """Of each row in a state key, window's start, aggregates and time."""

    def _entries(self, batch: pa.Table) -> Entries:
        """The records in the order of effect that some open window takes."""
        batch = batch.take(pa.array(effect_order(batch))).combine_chunks()
        time_ms = np.asarray(batch["timestamp_ms"])
        # Rule 2: by the record's own times, as decision 0001 says of all windows.
        close_ms = np.asarray(batch["stream_time_ms"]) - self._windows.close_delay_ms
        first_open = self._grid.first_open_windows(time_ms, close_ms)
        windows = Ranges(first_open, self._grid.last_windows(time_ms) + 1)
        batch, windows = batch.filter(pa.array(~windows.empty)), windows.keep(~windows.empty)
        return Entries(batch, windows, windows.owners, self._grid.starts(windows.rows()[1]))

    @abstractmethod
    def _updated(self, state: pa.Table, entries: Entries) -> Updates:
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

    def _results(self, entries: Entries, updates: Updates, record: Ints) -> pa.Table:
        """The rows as results; ``record`` is the number of the record that each follows."""
        records, start_ms = entries.batch.take(pa.array(record)), entries.start_ms[updates.entries]
        suborder: pa.Array | Ints = pa.nulls(len(records), SUBORDER.type)
        if self._windows.kind == "hopping":
            suborder = updates.entries - np.searchsorted(entries.record, record)
        columns = {
            SUBORDER.name: suborder,
            **{field.name: records[field.name] for field in self._place_fields},
            "timestamp_ms": pa.array(updates.timestamp_ms),
            "window_start_ms": start_ms,
            "window_end_ms": self._grid.ends(start_ms),
            NULL_VALUE.name: updates.gone,
            _REASON.name: pa.nulls(len(records), _REASON.type),
            **updates.columns,
        }
        names = self.result_schema.names
        return pa.table([columns[name] for name in names], self.result_schema)

    def _rejected(self, records: pa.Table, updates: Updates) -> pa.Table:
        """The records that a function raised on as results, with the reason and without a row."""
        columns = {field.name: records[field.name] for field in self._place_fields}
        columns[_REASON.name] = pa.array(list(updates.rejected.values()), _REASON.type)
        columns[NULL_VALUE.name] = pa.repeat(pa.scalar(value=False), len(records))
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
        sides: Sequence[SideRows] = (RECORDS,),
    ) -> None:
        """Aggregate columns of ``values``, by ``aggregates`` that fit rows of such ``sides``.

        Raises:
            IllegalArgument: an aggregate does not fit ``values``, or has a name that is taken.
        """
        self._columns = PartColumns(aggregates, values, carried)
        super().__init__(
            windows, values, self._columns.aggregate_types, ([], self._columns.fields), carried,
            sides=sides,
        )  # fmt: skip

    def _rows_in(self, state: pa.Table) -> tuple[pa.Array, Ints, Mapping[str, pa.Array], Ints]:
        columns = self._columns.results(state)
        return state["key"], starts_of(state), columns, np.asarray(state["timestamp_ms"])

    def _updated(self, state: pa.Table, entries: Entries) -> Updates:
        (state_code, code), keys = coded_keys(state["key"], entries.batch["key"])
        ones = np.ones(len(entries.batch), dtype=np.int64)
        alone = self._columns.of(entries.batch, Ranges.side_by_side(ones))
        alone = alone.append_column("key", keys.take(pa.array(code)))
        alone = alone.take(pa.array(entries.record)).append_column(
            WINDOW_BOUNDS[0], pa.array(entries.start_ms)
        )
        rows = pa.concat_tables([state, alone.select(state.column_names).cast(state.schema)])
        # A window's row of the state stands in front of its entries, which keep their order.
        codes = np.concatenate([state_code, code[entries.record]])
        start_ms = starts_of(rows)
        order = pair_order(codes, start_ms)
        head = heads(codes[order], start_ms[order])
        running = _running(self._columns, rows.take(pa.array(order)), head)
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows))
        _, is_completed = self._changes(entries.batch)
        told = np.flatnonzero(~is_completed[entries.record])
        after = running.take(pa.array(place[len(state) + told])).combine_chunks()
        is_last = np.append(head[1:], True)[: len(head)]
        return Updates(
            running.filter(pa.array(is_last)),
            told,
            self._columns.results(after),
            np.asarray(after["timestamp_ms"]),
            np.zeros(len(told), dtype=np.bool_),
        )


def starts_of(rows: pa.Table) -> Ints:
    """The starts of the windows of rows of state, in ms."""
    starts: Ints = np.asarray(rows[WINDOW_BOUNDS[0].name])
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
