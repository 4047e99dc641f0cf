"""Subscriptions and responses of a foreign-key join, as in Kafka Streams (KIP-213).

A left row *subscribes* to the right key that its foreign key references. The tasks of left keys
send subscriptions to the tasks of right keys (``SubscriptionsEngine``). These tasks keep the
subscribers of each right key. They send the right row to a subscriber when it subscribes and when
the row changes (``ResponsesEngine``). A response has the left key as its key, so the downstream
join of both tables is a join by key (``TableRowsEngine``).

Each step processes a whole batch before the next step. So the tasks of right keys know all
subscriptions of the batch. A left row that unsubscribes receives no more rows of its old key, only
the confirmation. Therefore at most one task responds to a left key in a batch, a response of a
later batch is newer, and no response is outdated. (The tasks of Kafka Streams are independent.
There a response has a hash of its left row, and is dropped if the row has changed.)

Subscriptions and responses depend only on the records (see ``inputs``), and so does the joined
table.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import RIGHT
from oriel.pipeline.windows.engines import StateReader, Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    TABLE_FIELDS,
    InputRows,
    JoinEngine,
    JoinResult,
    TableRecords,
    in_apply_order,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.joins.tables import RESPONSES, UNSUBSCRIBED, WITH_ROW, WITHOUT_ROW
from oriel.pipeline.windows.records import LINEAGE, NO_STREAM_TIME_MS, NULL_VALUE, encoded

#: The right key that a left row references. Null: none.
FOREIGN_KEY = pa.field("__foreign_key", pa.string())
#: The key of the left row that subscribes.
SUBSCRIBER = pa.field("__subscriber", pa.string())

#: The last index in the lineage of a message to a right key.
_UNSUBSCRIBES, _SUBSCRIBES = 0, 1


class SubscriptionsEngine(JoinEngine):
    """The subscriptions of left rows: messages to the keys that they reference and referenced.

    It reads one table. The state is its records (``TableRecords.newest``) with the foreign key as
    the only value. A message has the foreign key as its key, and the record id and the time of the
    current left record. A batch has at most one change of the subscription of each left key.
    """

    is_between_tables = True
    # Another input of the join reads and counts the same records.
    counts_records = False

    def __init__(self, carried: pa.Schema | None = None) -> None:
        other_columns = (NULL_VALUE, *(carried or ()), FOREIGN_KEY)
        self.record_schema = pa.schema([*INPUT_FIELDS, *other_columns])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), FOREIGN_KEY])
        self.result_schema = pa.schema([*RESULT_FIELDS, SUBSCRIBER])

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return messages for left rows with a changed foreign key. Times don't matter."""
        del times
        arrived = self._read(batch).select(self.state_schema.names)
        other_keys, working_set = split_by_key(state, arrived["key"])
        records = TableRecords.of(pa.concat_tables([working_set, arrived]))
        newest = records.newest()
        # The rows of the state are first, so the same indexes are valid before and after the batch.
        before, after = (
            records.counting(rows, 1)[0] for rows in (np.arange(len(working_set)), newest)
        )
        # The foreign key of each left key's row, null without a row or without a reference.
        old, new = (
            records.rows[FOREIGN_KEY.name].take(pa.array(rows, mask=~records.has_row(rows)))
            for rows in (before, after)
        )
        changed = differ(old, new)
        messages = [
            self._messages(records, after, foreign_key, changed, kind)
            for foreign_key, kind in ((old, _UNSUBSCRIBES), (new, _SUBSCRIBES))
        ]
        state = pa.concat_tables([other_keys, records.take(newest)]).combine_chunks()
        return JoinResult(state, messages)

    def _messages(
        self,
        records: TableRecords,
        counting: Ints,
        foreign_key: pa.Array,
        changed: Flags,
        kind: int,
    ) -> pa.Table:
        """Return one message for each left key that ``changed`` and has the foreign key."""
        # A null foreign key references no row (KIP-213), so no right key receives a message.
        codes = np.flatnonzero(changed & np.asarray(foreign_key.is_valid()))
        rows = counting[codes]
        columns = [
            foreign_key.take(pa.array(codes)),
            pa.array(records.timestamp_ms[rows]),
            pa.array(records.partition[rows]),
            pa.array(records.offset[rows]),
            encoded(np.full((len(rows), 1), kind)),
            pa.array(records.timestamp_ms[rows]),
            records.keys.take(pa.array(codes)),
        ]
        return pa.table(columns, names=self.result_schema.names).cast(self.result_schema)


class SubscribedTableEngine(JoinEngine):
    """The base of operators of a right table, whose state has a row per subscriber of a key."""

    sub_key = SUBSCRIBER.name
    is_between_tables = True

    def ends_records(self, side: int) -> bool:
        # The messages of subscriptions are not records.
        return side == RIGHT

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:  # noqa: ARG002
        return state.working_set_of_sub_keys(batch, self.whole(batch))

    @abstractmethod
    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the keys whose rows ``batch`` needs for all subscribers."""


class ResponsesEngine(SubscribedTableEngine):
    """The responses to the subscribers of right keys: the right row, or that it does not exist.

    The left input is messages (``SubscriptionsEngine``). The right input is the right table, whose
    keys are the keys here. The state is the records of the right table (``TableRecords.newest``)
    and one row per subscriber of a key, with the input in ``side``.

    A response has the subscriber as its key, and the record id and the time of the current right
    record, which can be a tombstone. Without a right record, its time is before all others. Its
    lineage is the kind of the response (``RESPONSES``).
    """

    def __init__(
        self, right: pa.Schema, carried: pa.Schema | None = None, rows: InputRows = RECORDS
    ) -> None:
        """Read a right table.

        Args:
            right: The value columns of the right table.
            carried: Further columns of the records (see ``JoinEngine``).
            rows: The rows of the right table.

        Raises:
            IllegalArgument: A column has a name that the join needs.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE, SUBSCRIBER)
        values = value_fields(own, carried, (right,))
        other_columns = (*(carried or ()), SUBSCRIBER, *values)
        self._values = right.names
        self._are_table_updates = rows.are_table_updates
        order = dict.fromkeys((LINEAGE, *rows.order_fields))
        self.record_schema = pa.schema([*INPUT_FIELDS, *order, NULL_VALUE, *other_columns])
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *other_columns])
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the keys of the right table's records, whose subscribers all get responses."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply subscriptions and right records, then return responses. Times don't matter.

        ``state`` can be a part of the state, which has for each key in ``batch`` the right rows and
        the subscribers in ``batch``, and all subscribers of the keys of ``whole``.
        """
        del times
        batch = self._read(batch)
        messages, arrived = _by_side(batch)
        subscribers, rows = _by_side(state)

        if self._are_table_updates:
            rows, arrived = in_apply_order(rows, arrived)
        records = TableRecords.of(pa.concat_tables([rows, arrived.select(self.state_schema.names)]))
        newest = records.newest()
        before, counting = (
            records.counting(numbers)[RIGHT] for numbers in (np.arange(len(rows)), newest)
        )
        changed = records.keys.take(pa.array(np.flatnonzero(before != counting)))

        is_new = pa.array(RESPONSES.read(messages)[:, 0] == _SUBSCRIBES)
        new = messages.filter(is_new).select(self.state_schema.names)
        unsubscribed = messages.filter(pc.invert(is_new))[SUBSCRIBER.name]
        # A message removes the row of its subscriber, and a subscription adds one. So a key has one
        # row per subscriber.
        stayed = _without(subscribers, messages)
        receivers = stayed.filter(pc.is_in(stayed["key"], value_set=changed))
        responses = [
            self._responses(records, counting, pa.concat_tables([receivers, new])),
            self._confirmations(unsubscribed),
        ]
        state = pa.concat_tables([records.take(newest), stayed, new]).combine_chunks()
        return JoinResult(state, responses)

    def _responses(self, records: TableRecords, counting: Ints, subscribers: pa.Table) -> pa.Table:
        """Return the response to each of ``subscribers``, whose foreign key is its ``key``."""
        code = pc.fill_null(pc.index_in(subscribers["key"], value_set=records.keys), -1)
        # The last entry is for keys without a record in the right table.
        row = np.append(counting, -1)[np.asarray(code)]
        has_row = records.has_row(row)

        def of_record(values: Ints, without: int) -> Ints:
            found: Ints = np.append(values, without)[row]
            return found

        columns = {
            "key": subscribers[SUBSCRIBER.name],
            "timestamp_ms": of_record(records.timestamp_ms, NO_STREAM_TIME_MS),
            "partition": of_record(records.partition, 0),
            "offset": of_record(records.offset, 0),
            LINEAGE.name: encoded(np.where(has_row, WITH_ROW, WITHOUT_ROW)[:, np.newaxis]),
            "stream_time_ms": of_record(records.timestamp_ms, NO_STREAM_TIME_MS),
            **{n: records.rows[n].take(pa.array(row, mask=~has_row)) for n in self._values},
        }
        return pa.table(columns).cast(self.result_schema)

    def _confirmations(self, subscribers: pa.ChunkedArray) -> pa.Table:
        """Return the responses to subscribers that unsubscribed from a key, without a row."""
        none = pa.repeat(NO_STREAM_TIME_MS, len(subscribers))
        zero = pa.repeat(0, len(subscribers))
        columns = {
            "key": subscribers, "timestamp_ms": none, "partition": zero, "offset": zero,
            LINEAGE.name: encoded(np.full((len(subscribers), 1), UNSUBSCRIBED)),
            "stream_time_ms": none,
            **{n: pa.nulls(len(subscribers)) for n in self._values},
        }  # fmt: skip
        return pa.table(columns).cast(self.result_schema)


def differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Flags:
    """Return where two columns of strings differ. Null is a value of its own."""
    # In Arrow, a comparison with null is null. Two nulls are the same here: both rows reference
    # nothing.
    same = pc.fill_null(pc.equal(old, new), pc.and_(old.is_null(), new.is_null()))
    differ: Flags = ~np.asarray(same)
    return differ


def _by_side(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the rows of the left and of the right input."""
    of_right = pc.equal(rows[SIDE.name], RIGHT)
    return rows.filter(pc.invert(of_right)), rows.filter(of_right)


def _without(subscribers: pa.Table, messages: pa.Table) -> pa.Table:
    """Return the subscribers without a message, which a key and a left key identify."""
    # A right row can have many subscribers, so only subscribers with a message are compared.
    is_named = pc.is_in(subscribers[SUBSCRIBER.name], value_set=messages[SUBSCRIBER.name])
    rows = np.flatnonzero(np.asarray(is_named))
    named = subscribers.take(pa.array(rows))
    # One integer per key and subscriber lets one search compare both columns. Each code has at most
    # 31 bits, so the product fits into 63 bits.
    (key, of_message), _ = coded_keys(named["key"], messages["key"])
    (left, left_of_message), left_keys = coded_keys(
        named[SUBSCRIBER.name], messages[SUBSCRIBER.name]
    )
    is_removed = np.isin(key * len(left_keys) + left, of_message * len(left_keys) + left_of_message)
    stays = np.ones(len(subscribers), dtype=np.bool_)
    stays[rows[is_removed]] = False
    return subscribers.filter(pa.array(stays))
