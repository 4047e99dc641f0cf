"""The updates of tables joined by a foreign key: the joined row after each record (KIP-213).

Three operators follow each other, like the processors of Kafka Streams. They forward each record,
unlike the operators of ``subscriptions``, whose results depend only on the logs:

    SubscriptionUpdatesEngine   by left key: a row with a changed foreign key unsubscribes from the
                                old right key and subscribes to the new one
    ResponseUpdatesEngine       by right key: a new subscriber gets the current right row, and a
                                right record is sent to all current subscribers
    ForeignUpdatesEngine        by left key: left rows are joined with responses

All three have one apply order: stream time, log, partition, offset, with the left logs first. The
response to a left record has its record id and log, and is applied before it. A response to a right
record has the record id of the right record, and updates one row. So the rule of ``updates`` holds:
the cut of the two topics into batches matters, and the cut of one topic does not. (If a table
references rows of its own topic, that is both.)

If the left input is joined tables, the foreign key can be a column of the first table. Then only
this table is read for subscriptions, and a response can have no left row.

Kafka Streams' rule decides which records have an update (``ForeignUpdatesEngine``). Its tasks are
independent, so it drops a response if the left row has changed. Here, no response is outdated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys, run_ends, run_starts
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.changes import TableChangesEngine
from oriel.pipeline.windows.joins.foreign_keys.response_updates import LEAVES, SUBSCRIBED
from oriel.pipeline.windows.joins.foreign_keys.subscriptions import FOREIGN_KEY, SUBSCRIBER, differ
from oriel.pipeline.windows.joins.inputs import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputLogs,
    InputRows,
)
from oriel.pipeline.windows.joins.tables import TableJoin, has_joined_row
from oriel.pipeline.windows.joins.updates import ForwardedUpdates, Histories, TableUpdatesEngine
from oriel.pipeline.windows.records import (
    LINEAGE,
    Lineage,
    are_retractions,
    arrival_keys,
    update_keys,
    with_column,
)


class SubscriptionUpdatesEngine(TableChangesEngine):
    """The subscriptions of each record of a left table.

    The messages are the changes of the table. If a row references another key than the row before,
    the old row becomes a message to its right key to unsubscribe, and the new row becomes a message
    to its right key to subscribe. If there is no new row or no new key, the old right key responds
    (``LEAVES``). Otherwise the new right key responds.
    """

    is_between_tables = True
    # Another input of the join reads and counts the same records.
    counts_records = False

    def __init__(self, carried: pa.Schema | None = None, rows: InputRows = RECORDS) -> None:
        """Read a table with the rows ``rows``. See ``JoinEngine`` for ``carried``."""
        super().__init__(LEFT, [pa.schema([FOREIGN_KEY])], carried, rows=[rows])
        # A join has one row of a key for all partitions.
        self._by_partition = False
        self.result_schema = pa.schema([*RESULT_FIELDS, SUBSCRIBER, LEAVES])

    def _results(self, histories: Histories, forwarded: ForwardedUpdates) -> tuple[pa.Table, Flags]:
        named = histories.records[FOREIGN_KEY.name]
        old, new = (
            named.take(pa.array(rows, mask=rows < 0))
            for rows in (histories.before[LEFT], histories.after[LEFT])
        )
        # Kafka Streams also sends a message if the foreign key is unchanged, because its last
        # processor does not keep right rows. Here it keeps them, so it needs no response.
        forwarded = replace(forwarded, is_forwarded=forwarded.is_forwarded & differ(old, new))
        changes, is_forwarded = super()._results(histories, forwarded)
        changes = changes.filter(changes[FOREIGN_KEY.name].is_valid())
        # Both changes of a record are adjacent, first the old row.
        is_last = run_ends(run_starts(*update_keys(changes)))
        columns = {
            "key": changes[FOREIGN_KEY.name],
            SUBSCRIBER.name: changes["key"],
            LEAVES.name: pa.array(are_retractions(changes) & is_last),
        }
        names = self.result_schema.names
        messages = [columns[name] if name in columns else changes[name] for name in names]
        return pa.table(messages, self.result_schema), is_forwarded


class ForeignUpdatesEngine(TableUpdatesEngine):
    """The updates of a table joined with the rows that it references.

    The left input is the table with ``FOREIGN_KEY``, the right input is responses
    (``ResponseUpdatesEngine``). A left record is joined with the row of its foreign key. It has an
    update, as in Kafka Streams:

        inner  if the right row exists, or if it does not exist but the left row before had another
               foreign key, or if the left row has no foreign key or is deleted and had one before
        left   if a left row exists or existed before

    The time of the update is the greatest time of both rows. If the left row has no foreign key any
    more, the right row is the one that it referenced. An update by a right record has the time of
    the right record.
    """

    def __init__(
        self,
        how: Literal["inner", "left"],
        tables: tuple[pa.Schema, pa.Schema],
        carried: pa.Schema | None,
        rows: tuple[InputRows, InputRows],
        naming_logs: int = 1,
    ) -> None:
        """Join the rows of a table with responses.

        Args:
            how: The kind of the join.
            tables: The value columns of both inputs.
            carried: Further columns of the records (see ``JoinEngine``).
            rows: The rows of both inputs.
            naming_logs: The number of logs of the table with the foreign key. They are the first
                logs of the left input and of the responses.

        Raises:
            IllegalArgument: Two columns have one name.
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

    def _side_logs(self, lineages: Sequence[Lineage]) -> InputLogs:
        return _ForeignLogs(lineages, self._naming_logs)

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """Return the histories, in which a left record and the response to it are applied together.

        A left row is not joined with a right row that it does not reference.
        """
        histories = super()._histories(old_rows, batch)
        before, after = (
            self._named(histories.records, of_tables)
            for of_tables in (histories.before, histories.after)
        )
        is_response = self._are_responses(histories.records)[histories.new]
        # A response is directly before its left record, which has the same keys.
        # The first key, ``is_left``, is the only one in which a response differs from its left
        # record.
        _, *place = self._logs.apply_order_keys(histories.records)
        (key_code,), _ = coded_keys(histories.records["key"])
        of_place = [column[histories.new] for column in (key_code, *place)]
        met = np.flatnonzero(is_response & ~run_ends(run_starts(*of_place)))
        # Both are one change. The response has already replaced the right row of the old foreign
        # key, which belongs to the row before the left record.
        before[:, met + 1] = before[:, met]
        return replace(histories, before=before, after=after)

    def _named(self, records: pa.Table, of_tables: Ints) -> Ints:
        """Return rows by [table, row], without right rows that the left rows don't reference."""
        left, right = of_tables
        named = records[FOREIGN_KEY.name].take(pa.array(left, mask=left < 0))
        subscribed = records[SUBSCRIBED.name].take(pa.array(right, mask=right < 0))
        # A null foreign key equals no key.
        is_named = np.asarray(pc.fill_null(pc.equal(named, subscribed), fill_value=False))
        return np.stack([left, np.where(is_named, right, -1)])

    def _are_responses(self, records: pa.Table) -> Flags:
        """Return which records are responses to a left record."""
        is_of_left = self._logs.log_of(records) < self._logs.lineages[LEFT].logs
        is_response: Flags = (np.asarray(records[SIDE.name]) == RIGHT) & is_of_left
        return is_response

    def _forwarded_by(
        self, histories: Histories, part: TableJoin | int, *, needs_old_rows: bool
    ) -> ForwardedUpdates:
        """Follow the instructions and times of Kafka's ``SubscriptionSendProcessorSupplier``."""
        del part, needs_old_rows
        records, new = histories.records, histories.new
        times_ms = np.append(np.asarray(records["timestamp_ms"]), -1)
        had, has = histories.before >= 0, histories.after >= 0
        old_key, new_key = (
            records[FOREIGN_KEY.name].take(pa.array(rows[LEFT], mask=rows[LEFT] < 0))
            for rows in (histories.before, histories.after)
        )
        had_key, has_key = np.asarray(old_key.is_valid()), np.asarray(new_key.is_valid())
        met = histories.after[RIGHT]
        # This is the rule of a left join. The rule of an inner join does not read the old right
        # row, because this processor of Kafka Streams only knows left rows.
        is_forwarded = had[LEFT] | has[LEFT]
        if self._how == "inner":
            is_forwarded = np.where(
                has_key, has[RIGHT] | (had_key & differ(old_key, new_key)), had_key
            )
            met = np.where(has_key, met, histories.before[RIGHT])
        own_ms = times_ms[new]
        of_right = np.asarray(records[SIDE.name])[new] == RIGHT
        return ForwardedUpdates(
            had=has_joined_row(self._how, had[LEFT], had[RIGHT]),
            has=has_joined_row(self._how, has[LEFT], has[RIGHT]),
            # A response to a left record has no update, because the left record directly after it
            # has one. A response to a right record has one if its left row exists.
            is_forwarded=np.where(
                of_right, ~self._are_responses(records)[new] & has[LEFT], is_forwarded
            ),
            time_ms=np.where(of_right, own_ms, np.maximum(own_ms, times_ms[met])),
        )


@dataclass(frozen=True)
class _ForeignLogs(InputLogs):
    """The logs of a left and of a right table. See ``naming_logs`` of ``ForeignUpdatesEngine``."""

    naming_logs: int

    @property
    def count(self) -> int:
        return super().count - self.naming_logs

    def log_of(self, rows: pa.Table) -> Ints:
        log, of_left = super().log_of(rows), self.lineages[LEFT].logs
        # Responses to left records have the logs of the table with the foreign key, which are also
        # the first logs of the left input. Such a log has one index, so that a response is next to
        # its left record in the apply order.
        is_response = (log >= of_left) & (log < of_left + self.naming_logs)
        log = np.where(is_response, log - of_left, log)
        return np.where(log >= of_left, log - self.naming_logs, log)

    def apply_order_keys(self, rows: pa.Table) -> tuple[Ints, ...]:
        """Return the sort keys of the apply order, in which a response is before its left record.

        Both have the same record id and the same lineage in their log.
        """
        is_left = np.asarray(rows[SIDE.name]) == LEFT
        in_log = with_column(rows, LINEAGE, self.in_log(rows))
        log, stream_time_ms = self.log_of(rows), np.asarray(rows[STREAM_TIME.name])
        return (is_left, *arrival_keys(in_log), log, stream_time_ms)
