"""What rows of a left table name by a foreign key, in two steps as in Kafka Streams (KIP-213).

A left row *subscribes* to the key of the right table that its foreign key says. The tasks of left
keys tell those of right keys who subscribes (``SubscriptionsEngine``). These know the subscribers
of each right key, and send them the row that it has (``ResponsesEngine``), whenever one subscribes
and whenever the row changes. Behind them a response is a row of the subscriber's own key, and the
joined table is a join by key (``TableRowsEngine``).

A batch goes through the steps one behind the other, each as a whole. So when tasks of right keys
respond, they know of all that left rows did in this batch; who unsubscribed gets no response from
its old key any more, only the word that it left. Hence at most one task responds to a left key in
a batch, a response of a later batch is newer, and none is out of date when it arrives. (Kafka's
tasks run each at its own pace. There a response carries a hash of the left row that it is for, and
is dropped if the row is another by then.)

Which left row subscribes and which right row is sent is a property of the records alone (see
``sides``), and so is what comes of both.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys
from oriel.pipeline.windows.definitions import RIGHT
from oriel.pipeline.windows.engines import StateReader, Times
from oriel.pipeline.windows.joins.sides import (
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    TABLE_FIELDS,
    JoinEngine,
    JoinResult,
    SideRows,
    TableRecords,
    in_effect_order,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.joins.tables import LEFT_BEHIND, WITH_ROW, WITHOUT_ROW
from oriel.pipeline.windows.records import NO_STREAM_TIME_MS, NULL_VALUE, SUBORDER

#: The key of the right table that a left row names; null: none.
FOREIGN_KEY = pa.field("__foreign_key", pa.string())
#: The key of the left row that subscribes.
SUBSCRIBER = pa.field("__subscriber", pa.string())

#: The suborders of messages to right keys.
_UNSUBSCRIBES, _SUBSCRIBES = 0, 1


class SubscriptionsEngine(JoinEngine):
    """Whom the left rows subscribe to: messages to the keys that they name, and that they named.

    It reads one table. The state is its records (``TableRecords.newest``), of whose values only
    the foreign key is there. A message has the foreign key as its key, and the place and time of
    the left record that counts. Of what a batch does to a left key, the outcome is told.
    """

    is_between_tables = True
    # Another input of the join reads and counts the same records.
    counts_records = False

    def __init__(self, carried: pa.Schema | None = None) -> None:
        beside = (NULL_VALUE, *(carried or ()), FOREIGN_KEY)
        self.record_schema = pa.schema([*SIDE_FIELDS, *beside])
        self.state_schema = pa.schema([*TABLE_FIELDS, *(carried or ()), FOREIGN_KEY])
        self.result_schema = pa.schema([*RESULT_FIELDS, SUBSCRIBER])

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Tell of the left rows whose foreign key is another one; clocks don't matter."""
        del times
        arrived = self._read(batch).select(self.state_schema.names)
        other_keys, touched = split_by_key(state, arrived["key"])
        records = TableRecords.of(pa.concat_tables([touched, arrived]))
        newest = records.newest()
        before, after = (records.counting(rows, 1)[0] for rows in (np.arange(len(touched)), newest))
        old, new = (_foreign_keys(records, counting) for counting in (before, after))
        changed = differ(old, new)
        messages = [
            self._messages(records, after, foreign_key, changed, suborder)
            for foreign_key, suborder in ((old, _UNSUBSCRIBES), (new, _SUBSCRIBES))
        ]
        state = pa.concat_tables([other_keys, records.take(newest)]).combine_chunks()
        return JoinResult(state, messages)

    def _messages(
        self,
        records: TableRecords,
        counting: Ints,
        foreign_key: pa.Array,
        changed: Flags,
        suborder: int,
    ) -> pa.Table:
        """One message for each left key that ``changed`` and has such a foreign key."""
        codes = np.flatnonzero(changed & np.asarray(foreign_key.is_valid()))
        rows = counting[codes]
        columns = [
            foreign_key.take(pa.array(codes)),
            pa.array(records.timestamp_ms[rows]),
            pa.array(records.partition[rows]),
            pa.array(records.offset[rows]),
            pa.repeat(suborder, len(rows)),
            pa.array(records.timestamp_ms[rows]),
            records.keys.take(pa.array(codes)),
        ]
        return pa.table(columns, names=self.result_schema.names).cast(self.result_schema)


class SubscribedTableEngine(JoinEngine):
    """The base of operators of a right table, whose state has a row per subscriber of a key."""

    member = SUBSCRIBER.name
    is_between_tables = True

    def ends_records(self, side: int) -> bool:
        # The messages of subscriptions are not records.
        return side == RIGHT

    def reads_table(self, side: int) -> bool:  # noqa: ARG002
        return True

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:  # noqa: ARG002
        return state.touched_members(batch, self.whole(batch))

    @abstractmethod
    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the keys whose rows ``batch`` needs for all subscribers."""


class ResponsesEngine(SubscribedTableEngine):
    """What the subscribers of right keys are sent: the right row, or that there is none.

    The left side are messages (``SubscriptionsEngine``), the right side is the right table, whose
    keys are the keys here. The state is the right table's records (``TableRecords.newest``), and
    a row for each subscriber of a key, told apart by ``side``.

    A response has the subscriber as its key, and the place and time of the right record that
    counts, a deletion's too; a time before all others where there is none. Its suborder says what
    it is.
    """

    def __init__(
        self, right: pa.Schema, carried: pa.Schema | None = None, rows: SideRows = RECORDS
    ) -> None:
        """``right`` are the right table's value columns, ``rows`` what its records are.

        ``carried`` as ``JoinEngine`` says.

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE, SUBSCRIBER)
        values = values_beside(own, carried, (right,))
        beside = (*(carried or ()), SUBSCRIBER, *values)
        self._values = right.names
        self._tells_rows = rows.tell_rows
        order = dict.fromkeys((SUBORDER, *rows.order_fields))
        self.record_schema = pa.schema([*SIDE_FIELDS, *order, NULL_VALUE, *beside])
        self.state_schema = pa.schema([*TABLE_FIELDS, SIDE, *beside])
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """The right table's own keys: all their subscribers hear of it."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Note who subscribes and what right rows there are, then respond; clocks don't matter.

        ``state`` may be a part: of each key in ``batch`` the right rows, the subscribers that
        ``batch`` names, and all of those of the keys ``whole``.
        """
        del times
        batch = self._read(batch)
        messages, arrived = _by_side(batch)
        subscribers, rows = _by_side(state)

        if self._tells_rows:
            rows, arrived = in_effect_order(rows, arrived)
        records = TableRecords.of(pa.concat_tables([rows, arrived.select(self.state_schema.names)]))
        newest = records.newest()
        before, counting = (
            records.counting(numbers)[RIGHT] for numbers in (np.arange(len(rows)), newest)
        )
        changed = records.keys.take(pa.array(np.flatnonzero(before != counting)))

        is_new = pc.equal(messages[SUBORDER.name], _SUBSCRIBES)
        new = messages.filter(is_new).select(self.state_schema.names)
        left = messages.filter(pc.invert(is_new))[SUBSCRIBER.name]
        stayed = _without(subscribers, messages)
        hears = stayed.filter(pc.is_in(stayed["key"], value_set=changed))
        responses = [
            self._responses(records, counting, pa.concat_tables([hears, new])),
            self._farewells(left),
        ]
        state = pa.concat_tables([records.take(newest), stayed, new]).combine_chunks()
        return JoinResult(state, responses)

    def _responses(self, records: TableRecords, counting: Ints, subscribers: pa.Table) -> pa.Table:
        """What each of ``subscribers`` finds under its foreign key, which is its ``key`` here."""
        code = pc.fill_null(pc.index_in(subscribers["key"], value_set=records.keys), -1)
        # The last entry stands for keys of which the right table has no record.
        row = np.append(counting, -1)[np.asarray(code)]
        has_row = records.has_row(row)

        def of_record(numbers: Ints, without: int) -> Ints:
            found: Ints = np.append(numbers, without)[row]
            return found

        columns = {
            "key": subscribers[SUBSCRIBER.name],
            "timestamp_ms": of_record(records.timestamp_ms, NO_STREAM_TIME_MS),
            "partition": of_record(records.partition, 0),
            "offset": of_record(records.offset, 0),
            SUBORDER.name: np.where(has_row, WITH_ROW, WITHOUT_ROW),
            "stream_time_ms": of_record(records.timestamp_ms, NO_STREAM_TIME_MS),
            **{n: records.rows[n].take(pa.array(row, mask=~has_row)) for n in self._values},
        }
        return pa.table(columns).cast(self.result_schema)

    def _farewells(self, subscribers: pa.ChunkedArray) -> pa.Table:
        """For those that left a key: the row from there is theirs no more."""
        none = pa.repeat(NO_STREAM_TIME_MS, len(subscribers))
        zero = pa.repeat(0, len(subscribers))
        columns = {
            "key": subscribers, "timestamp_ms": none, "partition": zero, "offset": zero,
            SUBORDER.name: pa.repeat(LEFT_BEHIND, len(subscribers)), "stream_time_ms": none,
            **{n: pa.nulls(len(subscribers)) for n in self._values},
        }  # fmt: skip
        return pa.table(columns).cast(self.result_schema)


def _foreign_keys(records: TableRecords, counting: Ints) -> pa.ChunkedArray:
    """The foreign key of each left key's row; null where it has no row, or names none."""
    has_row = records.has_row(counting)
    return records.rows[FOREIGN_KEY.name].take(pa.array(counting, mask=~has_row))


def differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Flags:
    """Where two columns of texts differ; null is a text of its own."""
    same = pc.fill_null(pc.equal(old, new), pc.and_(old.is_null(), new.is_null()))
    differ: Flags = ~np.asarray(same)
    return differ


def _by_side(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows of the left side, and those of the right one."""
    of_right = pc.equal(rows[SIDE.name], RIGHT)
    return rows.filter(pc.invert(of_right)), rows.filter(of_right)


def _without(subscribers: pa.Table, messages: pa.Table) -> pa.Table:
    """The subscribers of which no message says anything, told apart by key and left key."""
    # A right row that changed may have very many: only those that are named are looked at.
    is_named = pc.is_in(subscribers[SUBSCRIBER.name], value_set=messages[SUBSCRIBER.name])
    rows = np.flatnonzero(np.asarray(is_named))
    named = subscribers.take(pa.array(rows))
    (key, of_message), _ = coded_keys(named["key"], messages["key"])
    (left, left_of_message), left_keys = coded_keys(
        named[SUBSCRIBER.name], messages[SUBSCRIBER.name]
    )
    gone = np.isin(key * len(left_keys) + left, of_message * len(left_keys) + left_of_message)
    stays = np.ones(len(subscribers), dtype=np.bool_)
    stays[rows[gone]] = False
    return subscribers.filter(pa.array(stays))
