"""The updates of tables joined by a foreign key: the joined row after each record (KIP-213).

Three engines stand behind each other, as Kafka Streams' processors do, and tell each other of each
record, not of each batch (as ``subscriptions`` do, behind which rows follow from the logs alone):

    SubscriptionUpdatesEngine   by left key: a row that names another key than before tells the
                                old key that it leaves, and the new one that it subscribes
    ResponseUpdatesEngine       by right key: a new subscriber is sent the row that there is then,
                                and of each right record all who subscribe then
    ForeignUpdatesEngine        by left key: left rows meet the responses, and tell joined rows

All three let records take effect in one order: stream time, log, partition, offset; left logs come
first. Answers to a left record have its place and log, and stand in front of it: it meets them.
Responses that a right record makes have its place, and tell a row each. So what ``updates`` says of
batches holds here: cuts of both topics against each other matter, those of one don't. (Where a
table names rows of its own topic, that is both.)

Where the left side are joined tables, the keys may be those that rows of the first one name. Then
only this one is read for subscriptions, and an answer may find no left row, as it is not joined.

Which records tell an update is Kafka's rule (``ForeignUpdatesEngine``). Kafka's own tasks run each
at its own pace, and drop a response if the left row is another by then; here none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys, heads, tails
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.changes import TableChangesEngine
from oriel.pipeline.windows.joins.foreign_keys.response_updates import LEAVES, SUBSCRIBED
from oriel.pipeline.windows.joins.foreign_keys.subscriptions import FOREIGN_KEY, SUBSCRIBER, differ
from oriel.pipeline.windows.joins.places import Places
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SideLogs,
    SideRows,
)
from oriel.pipeline.windows.joins.tables import TableJoin, has_joined_row
from oriel.pipeline.windows.joins.updates import Histories, TableUpdatesEngine, Told
from oriel.pipeline.windows.records import change_places, takes_away


class SubscriptionUpdatesEngine(TableChangesEngine):
    """Whom each record of a left table subscribes to.

    Messages are changes of the table: where a row names another key than the row before, the old
    row becomes a message to its key (the subscriber leaves), the new one a message to its own. Who
    subscribes to no other key is told by the old one that it has no row from there any more
    (``LEAVES``); else the new one answers.
    """

    is_between_tables = True
    # Another input of the join reads and counts the same records.
    counts_records = False

    def __init__(self, carried: pa.Schema | None = None, rows: SideRows = RECORDS) -> None:
        """``carried`` as ``JoinEngine`` says; ``rows`` is what the table's records are."""
        super().__init__(LEFT, [pa.schema([FOREIGN_KEY])], carried, rows=[rows])
        # Who joins meets one row of a key, whatever partition it is of.
        self._by_partition = False
        self.result_schema = pa.schema([*RESULT_FIELDS, SUBSCRIBER, LEAVES])

    def _results(self, histories: Histories, told: Told) -> tuple[pa.Table, Flags]:
        named = histories.records[FOREIGN_KEY.name]
        old, new = (
            named.take(pa.array(rows, mask=rows < 0))
            for rows in (histories.before[LEFT], histories.after[LEFT])
        )
        told = replace(told, tells=told.tells & differ(old, new))
        changes, tells = super()._results(histories, told)
        changes = changes.filter(changes[FOREIGN_KEY.name].is_valid())
        # Both changes of a record stand side by side, the old row in front.
        is_last = tails(heads(*change_places(changes)))
        columns = {
            "key": changes[FOREIGN_KEY.name],
            SUBSCRIBER.name: changes["key"],
            LEAVES.name: pa.array(takes_away(changes) & is_last),
        }
        names = self.result_schema.names
        messages = [columns[name] if name in columns else changes[name] for name in names]
        return pa.table(messages, self.result_schema), tells


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
        naming_logs: int = 1,
    ) -> None:
        """``tables`` are the value columns of both sides, ``rows`` what their records are.

        ``naming_logs``: in how many logs, the first ones of the left side, are the records that
        responses answer. The responses' own are these, and behind them the right table's.

        Raises:
            IllegalArgument: two columns have one name.
        """
        self._naming_logs = naming_logs
        super().__init__(TableJoin(how, LEFT, RIGHT), tables, carried, rows=rows)
        self._how: Literal["inner", "left"] = how
        hidden = {FOREIGN_KEY.name, SUBSCRIBED.name}
        self._values_of = [[n for n in table.names if n not in hidden] for table in tables]
        self.row_schema, self.result_schema = (
            pa.schema([field for field in schema if field.name not in hidden])
            for schema in (self.row_schema, self.result_schema)
        )
        self._joined_schema = self.result_schema

    def _side_logs(self, places: Sequence[Places]) -> SideLogs:
        return _ForeignLogs(places, self._naming_logs)

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """As of joined tables; an answer takes effect with the left record that stands behind it.

        What a left row does not name (any more) is none of its rows.
        """
        histories = super()._histories(old_rows, batch)
        before, after = (
            self._named(histories.records, of_tables)
            for of_tables in (histories.before, histories.after)
        )
        answers = self._answers(histories.records)[histories.new]
        # An answer stands right in front of its left record, if there is one: they share a place.
        _, *place = self._logs.effect_keys(histories.records)
        (key_code,), _ = coded_keys(histories.records["key"])
        of_place = [column[histories.new] for column in (key_code, *place)]
        met = np.flatnonzero(answers & ~tails(heads(*of_place)))
        before[:, met + 1] = before[:, met]
        return replace(histories, before=before, after=after)

    def _named(self, records: pa.Table, of_tables: Ints) -> Ints:
        """Rows by [side, row], without the right ones that the left rows don't name."""
        left, right = of_tables
        named = records[FOREIGN_KEY.name].take(pa.array(left, mask=left < 0))
        subscribed = records[SUBSCRIBED.name].take(pa.array(right, mask=right < 0))
        is_named = np.asarray(pc.fill_null(pc.equal(named, subscribed), fill_value=False))
        return np.stack([left, np.where(is_named, right, -1)])

    def _answers(self, records: pa.Table) -> Flags:
        """Which records are responses to a left record."""
        is_of_left = self._logs.numbers(records) < self._logs.places[LEFT].logs
        answers: Flags = (np.asarray(records[SIDE.name]) == RIGHT) & is_of_left
        return answers

    def _told_by(self, histories: Histories, part: TableJoin | int, *, asked: bool) -> Told:
        """Kafka's four instructions of ``SubscriptionSendProcessorSupplier``, and its times."""
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
            tells=np.where(of_right, ~self._answers(records)[new] & has[LEFT], tells),
            time_ms=np.where(of_right, own_ms, np.maximum(own_ms, times_ms[met])),
        )


@dataclass(frozen=True)
class _ForeignLogs(SideLogs):
    """The logs of a left table and of the right one; see ``naming_logs`` of the engine."""

    naming_logs: int

    @property
    def count(self) -> int:
        return super().count - self.naming_logs

    def numbers(self, rows: pa.Table) -> Ints:
        log, of_left = super().numbers(rows), self.places[LEFT].logs
        is_answer = (log >= of_left) & (log < of_left + self.naming_logs)
        log = np.where(is_answer, log - of_left, log)
        return np.where(log >= of_left, log - self.naming_logs, log)

    def effect_keys(self, rows: pa.Table) -> tuple[Ints, ...]:
        """The answer to a left record is ahead of it, with the same place and number."""
        is_left = np.asarray(rows[SIDE.name]) == LEFT
        _, *place = super().effect_keys(rows)
        return (is_left, self.own_numbers(rows), *place)
