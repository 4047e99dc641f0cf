"""The updates of tables joined by a foreign key: the joined row after each record (KIP-213).

Three engines stand behind each other, as Kafka Streams' processors do, and tell each other of each
record, not of each batch (as ``subscriptions`` do, behind which rows follow from the logs alone):

    SubscriptionUpdatesEngine   by left key: a left row that names another key than before tells
                                the old key that it leaves, and the new one that it subscribes
    ResponseUpdatesEngine       by right key: a new subscriber is sent the row that there is then,
                                and of each right record all who subscribe then
    ForeignUpdatesEngine        by left key: left rows meet the responses, and tell joined rows

All three let records take effect in one order: stream time, log, partition, offset; left logs come
first. Responses to a left record have its place and log, and stand in front of it: it meets them.
Those that a right record makes have its place, and tell a row each. So what ``updates`` says of
batches holds here: cuts of both topics against each other matter, those of one don't.

Which records tell an update is Kafka's rule (``ForeignUpdatesEngine``). Kafka's own tasks run each
at its own pace, and drop a response if the left row is another by then; here none is.
"""

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Timeline, coded_keys, heads
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.changes import TableChangesEngine
from oriel.pipeline.windows.joins.places import Places
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    TableJoin,
    has_joined_row,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.joins.subscriptions import FOREIGN_KEY, SUBSCRIBER, differ
from oriel.pipeline.windows.joins.updates import Histories, TableUpdatesEngine, Told
from oriel.pipeline.windows.records import (
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
    arrival_keys,
    takes_away,
)

#: The key of the right table that a response is of.
SUBSCRIBED = pa.field("__subscribed", pa.string())

#: One right record is told to fewer subscribers than this, each of which has a number.
_MOST_SUBSCRIBERS = 2**32
#: When what was there before the batch took effect, as a position in the batch.
_BEFORE = -1


class SubscriptionUpdatesEngine(TableChangesEngine):
    """Whom each record of a left table subscribes to.

    Messages are changes of the table: where a row names another key than the row before, the old
    row becomes a message to its key (the subscriber leaves), the new one a message to its own.
    """

    def __init__(self, carried: pa.Schema | None = None, rows: SideRows = RECORDS) -> None:
        """``carried`` as ``JoinEngine`` says; ``rows`` is what the table's records are."""
        super().__init__(LEFT, [pa.schema([FOREIGN_KEY])], carried, rows=[rows])
        # Who joins meets one row of a key, whatever partition it is of.
        self._by_partition = False
        self.result_schema = pa.schema([*RESULT_FIELDS, SUBSCRIBER])

    def _results(self, histories: Histories, told: Told) -> tuple[pa.Table, Flags]:
        named = histories.records[FOREIGN_KEY.name]
        old, new = (
            named.take(pa.array(rows, mask=rows < 0))
            for rows in (histories.before[LEFT], histories.after[LEFT])
        )
        told = replace(told, tells=told.tells & differ(old, new))
        changes, tells = super()._results(histories, told)
        changes = changes.filter(changes[FOREIGN_KEY.name].is_valid())
        columns = {"key": changes[FOREIGN_KEY.name], SUBSCRIBER.name: changes["key"]}
        names = self.result_schema.names
        messages = [columns[name] if name in columns else changes[name] for name in names]
        return pa.table(messages, self.result_schema), tells


class ResponseUpdatesEngine(JoinEngine):
    """What the subscribers of right keys are sent, record by record.

    The left side are messages (``SubscriptionUpdatesEngine``), the right side is the right table,
    whose keys are the keys here. The state is the right table's newest row of each key, and a row
    for each subscriber of a key, told apart by ``side``.

    A response has the subscriber as its key. One to a subscription has the place and the stream
    time of the left record, one that a right record makes that record's; in which log it is, its
    suborder says, left logs first. ``timestamp_ms`` is the right record's. Responses without a
    value say that there is no row. Those of one right record are in the order of subscribers.
    """

    member = SUBSCRIBER.name

    def __init__(
        self,
        right: pa.Schema,
        carried: pa.Schema | None,
        rows: tuple[SideRows, SideRows],
        *,
        is_filtered: bool,
    ) -> None:
        """``right`` are the right table's value columns, ``rows`` what both sides' records are.

        ``is_filtered``: the right table has a filter, so records of keys that have no row and had
        none are not told (see ``TableUpdatesEngine``).

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE, SUBSCRIBER, SUBSCRIBED)
        values = values_beside(own, carried, (right,))
        beside = (*(carried or ()), SUBSCRIBER, *values)
        self._values = right.names
        self._is_filtered = is_filtered
        self._sides = SideLogs([each.places for each in rows])
        self._left_logs = rows[LEFT].places.logs
        self._logs = Places(1, self._sides.count, of_tables=self._sides.count)
        self._right_numbers = rows[RIGHT].places.numbers
        numbers = max((each.places.fields for each in rows), key=len)
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, NULL_VALUE, *beside])
        self.state_schema = pa.schema([*PLACE_FIELDS[:2], SIDE, *beside])
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, SUBSCRIBED, *values])

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """The right table's own keys: all their subscribers hear of it."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Let subscriptions and right records take effect, and respond; clocks don't matter.

        ``state`` may be a part, as of ``ResponsesEngine``.
        """
        del clocks
        batch = self._read(batch)
        logs = self._sides.numbers(batch)
        order = np.lexsort((*arrival_keys(batch), logs, np.asarray(batch[STREAM_TIME.name])))
        # From here on the number of a row of the batch is the position at which it takes effect.
        batch, logs = batch.take(pa.array(order)), logs[order]
        other_keys, touched = split_by_key(state, batch["key"])
        (old_code, code), _ = coded_keys(touched["key"], batch["key"])
        rights = _RightRows.of(touched, old_code, batch, code)
        subscriptions = _Subscriptions.of(touched, old_code, batch, code)

        begun = np.flatnonzero(subscriptions.begin > _BEFORE)
        position = subscriptions.begin[begun]
        # A message's number is twice that of its left record, whose own one is in front of its log.
        record_numbers = np.asarray(batch[SUBORDER.name])[position] // 2 // self._left_logs
        to_subscriptions = self._responses(
            batch,
            rights,
            rights.at(subscriptions.code[begun], position),
            position,
            subscriptions.subscriber.take(pa.array(begun)),
            record_numbers * self._sides.count + logs[position],
        )
        heard, hearer, rank = self._heard(rights, subscriptions)
        position = rights.since[heard]
        first = self._sides.suborders(batch.take(pa.array(position)))
        of_changes = self._responses(
            batch,
            rights,
            heard,
            position,
            subscriptions.subscriber.take(pa.array(hearer)),
            self._logs.numbers_of_rows(first, rank, _MOST_SUBSCRIBERS),
        )
        stays = np.flatnonzero(subscriptions.end == len(batch))
        subscribers = subscriptions.rows.take(pa.array(stays))
        state = [other_keys, rights.newest(self.state_schema), subscribers]
        return JoinResult(
            pa.concat_tables(
                rows.select(self.state_schema.names).cast(self.state_schema) for rows in state
            ).combine_chunks(),
            [to_subscriptions, of_changes],
        )

    def _heard(
        self, rights: "_RightRows", subscriptions: "_Subscriptions"
    ) -> tuple[Ints, Ints, Ints]:
        """The right rows that came, the subscriptions that hear of each, and each one's rank."""
        told = rights.since > _BEFORE
        if self._is_filtered:
            told &= rights.had | rights.has
        rows = np.flatnonzero(told)
        timeline = Timeline(rights.code[rows], rights.since[rows])
        ranges = timeline.within(subscriptions.code, subscriptions.begin + 1, subscriptions.end - 1)
        _, listed = ranges.rows()
        hearer = ranges.owners
        # Subscriptions are by key and subscriber, of whom one hears at a time.
        order = np.lexsort((hearer, listed))
        listed, hearer = listed[order], hearer[order]
        number = np.arange(len(listed))
        rank = number - np.maximum.accumulate(np.where(heads(listed), number, 0))
        return rows[listed], hearer, rank

    def _responses(
        self,
        batch: pa.Table,
        rights: "_RightRows",
        row: Ints,
        position: Ints,
        subscriber: pa.ChunkedArray,
        suborder: Ints,
    ) -> pa.Table:
        """Responses of right rows with these numbers (-1: none) at places of the batch."""
        cause = batch.take(pa.array(position))
        has_row = np.append(rights.has, False)[row]
        values = rights.rows.take(pa.array(row, mask=~has_row))
        time_ms = np.append(np.asarray(rights.rows["timestamp_ms"]), 0)[row]
        columns = {
            "key": subscriber,
            "timestamp_ms": np.where(row < 0, np.asarray(cause["timestamp_ms"]), time_ms),
            "partition": cause["partition"],
            "offset": cause["offset"],
            SUBORDER.name: suborder,
            STREAM_TIME.name: cause[STREAM_TIME.name],
            NULL_VALUE.name: ~has_row,
            SUBSCRIBED.name: cause["key"],
            **{name: values[name] for name in self._values},
        }
        return pa.table(columns).cast(self.result_schema)


class ForeignUpdatesEngine(TableUpdatesEngine):
    """The updates of a table joined with the rows that it names.

    The left side is the table, with ``FOREIGN_KEY`` beside its values, the right side are responses
    (``ResponseUpdatesEngine``). A left record meets the row of the key that it names. It tells an
    update, as in Kafka Streams,

        inner  if there is such a row; or if there is none, but the row before named another key; or
               if it names none, or deletes the row, which named one
        left   if there is a row, or was one

    with the greatest time of both; one that names no key any more with that of the row that it
    named. What a right record changes is told with its own time.
    """

    def __init__(
        self,
        how: Literal["inner", "left"],
        tables: tuple[pa.Schema, pa.Schema],
        carried: pa.Schema | None,
        rows: tuple[SideRows, SideRows],
    ) -> None:
        """``tables`` are the value columns of both sides, ``rows`` what their records are.

        Raises:
            IllegalArgument: two columns have one name.
        """
        super().__init__(TableJoin(how, LEFT, RIGHT), tables, carried, rows=rows)
        self._how: Literal["inner", "left"] = how
        hidden = {FOREIGN_KEY.name, SUBSCRIBED.name}
        self._values_of = [[n for n in table.names if n not in hidden] for table in tables]
        self.row_schema, self.result_schema = (
            pa.schema([field for field in schema if field.name not in hidden])
            for schema in (self.row_schema, self.result_schema)
        )
        self._joined_schema = self.result_schema

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """As of joined tables; a response to a left record takes effect with it."""
        histories = super()._histories(old_rows, batch)
        before = histories.before
        joins_next = self._answers(histories)[:-1]
        before[:, 1:] = np.where(joins_next, before[:, :-1], before[:, 1:])
        return histories

    def _standing(self, records: pa.Table, of_tables: Ints) -> Ints:
        """Without the right rows of keys that the left rows don't name (any more)."""
        left, right = of_tables
        named = records[FOREIGN_KEY.name].take(pa.array(left, mask=left < 0))
        subscribed = records[SUBSCRIBED.name].take(pa.array(right, mask=right < 0))
        is_named = np.asarray(pc.fill_null(pc.equal(named, subscribed), fill_value=False))
        return np.stack([left, np.where(is_named, right, -1)])

    def _effect_keys(self, records: pa.Table) -> tuple[Ints, ...]:
        """Sort keys of the order of effect, in which the answer to a left record is ahead of it."""
        log, of_right = self._effect_logs(records)
        number, *place = arrival_keys(records)
        # A response has its cause's number in front of its log.
        number = np.where(of_right, number // self._logs.places[RIGHT].logs, number)
        return (~of_right, number, *place, log, np.asarray(records[STREAM_TIME.name]))

    def _effect_logs(self, records: pa.Table) -> tuple[Ints, Flags]:
        """In which log the record is that each follows, left ones first; and which are responses.

        The responses' logs are those of the left side, and behind them the right table's.
        """
        of_right = np.asarray(records[SIDE.name]) == RIGHT
        log = self._logs.numbers(records)
        return np.where(of_right, log - self._logs.places[LEFT].logs, log), of_right

    def _answers(self, histories: Histories) -> Flags:
        """Which of the new records are responses to a left record, which stands behind."""
        log, of_right = self._effect_logs(histories.records.take(pa.array(histories.new)))
        answers: Flags = of_right & (log < self._logs.places[LEFT].logs)
        return answers

    def _told_by(self, histories: Histories, part: TableJoin | int, *, asked: bool) -> Told:
        del part, asked
        records, new = histories.records, histories.new
        times_ms = np.append(np.asarray(records["timestamp_ms"]), -1)
        had, has = histories.before >= 0, histories.after >= 0
        old_key, new_key = (
            records[FOREIGN_KEY.name].take(pa.array(rows[LEFT], mask=rows[LEFT] < 0))
            for rows in (histories.before, histories.after)
        )
        named, names = np.asarray(old_key.is_valid()), np.asarray(new_key.is_valid())
        met = histories.after[RIGHT]
        tells = had[LEFT] | has[LEFT]
        if self._how == "inner":
            tells = np.where(names, has[RIGHT] | (named & differ(old_key, new_key)), named)
            met = np.where(names, met, histories.before[RIGHT])
        own_ms = times_ms[new]
        of_right = np.asarray(records[SIDE.name])[new] == RIGHT
        return Told(
            had=has_joined_row(self._how, had[LEFT], had[RIGHT]),
            has=has_joined_row(self._how, has[LEFT], has[RIGHT]),
            tells=np.where(of_right, ~self._answers(histories) & has[LEFT], tells),
            time_ms=np.where(of_right, own_ms, np.maximum(own_ms, times_ms[met])),
        )


class _RightRows:
    """The versions of right rows, by key and the position at which they took effect.

    ``rows`` has ``NULL_VALUE``; ``has`` says of which there is a row, ``had`` of which there was
    one before.
    """

    def __init__(self, rows: pa.Table, code: Ints, since: Ints) -> None:
        order = np.lexsort((since, code))
        self.rows, self.code, self.since = rows.take(pa.array(order)), code[order], since[order]
        self.has: Flags = ~np.asarray(self.rows[NULL_VALUE.name]).astype(np.bool_)
        self._head = heads(self.code)
        self.had: Flags = np.append(False, self.has[:-1])[: len(self.has)] & ~self._head
        self._timeline = Timeline(self.code, self.since)

    @classmethod
    def of(cls, state: pa.Table, old_code: Ints, batch: pa.Table, code: Ints) -> "_RightRows":
        old, new = (np.flatnonzero(np.asarray(rows[SIDE.name]) == RIGHT) for rows in (state, batch))
        # What is in the state is there; so null there means that it is no deletion.
        rows = pa.concat_tables(
            [
                state.take(pa.array(old)).append_column(
                    NULL_VALUE, pa.array(np.zeros(len(old), dtype=np.bool_))
                ),
                batch.take(pa.array(new)).select([*state.column_names, NULL_VALUE.name]),
            ]
        )
        since = np.concatenate([np.full(len(old), _BEFORE), new])
        return cls(rows, np.concatenate([old_code[old], code[new]]), since)

    def at(self, code: Ints, position: Ints) -> Ints:
        """The number of the last version of each key before a position; -1: there is none."""
        last = self._timeline.first_at_or_after(code, position) - 1
        is_own = last >= 0
        is_own[is_own] = self.code[last[is_own]] == code[is_own]
        return np.where(is_own, last, -1)

    def newest(self, schema: pa.Schema) -> pa.Table:
        """The last version of each key, where it is a row."""
        is_last = np.append(self._head[1:], True)[: len(self.has)]
        return self.rows.filter(pa.array(is_last & self.has)).select(schema.names)


class _Subscriptions:
    """Who subscribes to which key, from the position ``begin`` to ``end``; by key and subscriber.

    ``end`` is the length of the batch where nobody has left.
    """

    def __init__(self, rows: pa.Table, code: Ints, begin: Ints, end: Ints) -> None:
        self.rows, self.code, self.begin, self.end = rows, code, begin, end
        self.subscriber = rows[SUBSCRIBER.name]

    @classmethod
    def of(cls, state: pa.Table, old_code: Ints, batch: pa.Table, code: Ints) -> "_Subscriptions":
        old, new = (np.flatnonzero(np.asarray(rows[SIDE.name]) == LEFT) for rows in (state, batch))
        names = state.column_names
        messages = batch.take(pa.array(new))
        rows = pa.concat_tables([state.take(pa.array(old)), messages.select(names)])
        begins = np.concatenate([np.ones(len(old), dtype=np.bool_), ~takes_away(messages)])
        since = np.concatenate([np.full(len(old), _BEFORE), new])
        key_code = np.concatenate([old_code[old], code[new]])
        (subscriber,), _ = coded_keys(rows[SUBSCRIBER.name])
        order = np.lexsort((since, subscriber, key_code))
        # Who has subscribed leaves before subscribing to the key again: what comes next is the end.
        goes_on = ~heads(key_code[order], subscriber[order])
        end = np.append(np.where(goes_on[1:], since[order][1:], len(batch)), len(batch))
        chosen = order[begins[order]]
        return cls(
            rows.take(pa.array(chosen)), key_code[chosen], since[chosen],
            end[: len(order)][begins[order]],
        )  # fmt: skip
