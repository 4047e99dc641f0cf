"""What the subscribers of right keys are sent, record by record; see ``foreign_updates``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import Flags, Ints, Timeline, coded_keys, heads
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.places import Places
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinEngine,
    JoinResult,
    SideLogs,
    SideRows,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.joins.subscriptions import SUBSCRIBER
from oriel.pipeline.windows.records import (
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
    arrival_keys,
    takes_away,
)

#: Whether a subscriber that leaves a key subscribes to no other one.
LEAVES = pa.field("__leaves", pa.bool_())
#: The key of the right table that a response is of.
SUBSCRIBED = pa.field("__subscribed", pa.string())

#: One right record is told to fewer subscribers than this, each of which has a number: where it is
#: not told itself of a join by a foreign key, and where it is. So three of them, one behind the
#: other, leave 23 bits of 63 to the first one's subscribers and to logs.
_MOST_SUBSCRIBERS = 2**32
_MOST_OF_TOLD = 2**20
#: When what was there before the batch took effect, as a position in the batch.
_BEFORE = -1


class ResponseUpdatesEngine(JoinEngine):
    """What the subscribers of right keys are sent, record by record.

    The left side are messages (``SubscriptionUpdatesEngine``), the right side is the right table,
    whose keys are the keys here. The state is the right table's newest row of each key, and a row
    for each subscriber of a key, told apart by ``side``.

    A response has the subscriber as its key. One to a message has the place and the stream time of
    the left record, one that a right record makes that record's; in which log it is, its suborder
    says, left logs first. ``timestamp_ms`` is the right record's. Responses without a value say
    that there is no row. Those of one right record are in the order of subscribers.
    """

    member = SUBSCRIBER.name

    def __init__(
        self,
        right: pa.Schema,
        carried: pa.Schema | None,
        rows: tuple[SideRows, SideRows],
        *,
        is_filtered: bool = False,
        is_told: bool = False,
    ) -> None:
        """``right`` are the right table's value columns, ``rows`` what both sides' records are.

        ``is_filtered``: the right table has a filter, so records of keys that have no row and had
        none are not told (see ``TableUpdatesEngine``). ``is_told``: it tells rows of a join by a
        foreign key itself.

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE, SUBSCRIBER, LEAVES, SUBSCRIBED)
        values = values_beside(own, carried, (right,))
        beside = (*(carried or ()), SUBSCRIBER, *values)
        self._values = right.names
        self._is_filtered = is_filtered
        self._most = _MOST_OF_TOLD if is_told else _MOST_SUBSCRIBERS
        self._sides = SideLogs([each.places for each in rows])
        self._logs = Places(1, self._sides.count, of_tables=self._sides.count)
        numbers = max((each.places.fields for each in rows), key=len)
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, NULL_VALUE, LEAVES, *beside])
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

        of_left = np.flatnonzero(np.asarray(batch[SIDE.name]) == LEFT)
        messages = batch.take(pa.array(of_left))
        leaves = np.asarray(messages[LEAVES.name]).astype(np.bool_)
        is_answered = leaves | ~takes_away(messages)
        answered, leaves = of_left[is_answered], leaves[is_answered]
        answers = self._responses(
            batch,
            rights,
            np.where(leaves, -1, rights.at(code[answered], answered)),
            answered,
            batch[SUBSCRIBER.name].take(pa.array(answered)),
            # A message's own number is twice that of its left record.
            self._sides.numbered(self._sides.own_numbers(batch)[answered] // 2, logs[answered]),
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
            self._logs.numbers_of_rows(first, rank, self._most),
        )
        stays = np.flatnonzero(subscriptions.end == len(batch))
        subscribers = subscriptions.rows.take(pa.array(stays))
        state = [other_keys, rights.newest(self.state_schema), subscribers]
        return JoinResult(
            pa.concat_tables(
                rows.select(self.state_schema.names).cast(self.state_schema) for rows in state
            ).combine_chunks(),
            [answers, of_changes],
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
