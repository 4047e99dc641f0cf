"""What the subscribers of right keys are sent, record by record; see ``updates``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Timeline,
    coded_keys,
    heads,
    places_in_runs,
    tails,
)
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.foreign_keys.subscriptions import (
    SUBSCRIBER,
    SubscribedTableEngine,
)
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    JoinResult,
    SideLogs,
    SideRows,
    split_by_key,
    values_beside,
)
from oriel.pipeline.windows.records import (
    NULL_VALUE,
    PLACE_FIELDS,
    SUBORDER,
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
#: When what was there before the batch took effect, as a position in the batch; and when what
#: stays ends.
_BEFORE = -1
_NEVER = 2**62


class ResponseUpdatesEngine(SubscribedTableEngine):
    """What the subscribers of right keys are sent, record by record.

    The left side are messages (``SubscriptionUpdatesEngine``), the right side is the right table,
    whose keys are the keys here. The state is the right table's newest row of each key, and a row
    for each subscriber of a key, told apart by ``side``.

    A response has the subscriber as its key. One to a message has the place and the stream time of
    the left record, one that a right record makes that record's; in which log it is, its suborder
    says, left logs first. ``timestamp_ms`` is the right record's. Responses without a value say
    that there is no row. Those of one right record are in the order of subscribers.
    """

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
        self._logs = self._sides.merged.places
        numbers = max((each.places.fields for each in rows), key=len)
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, NULL_VALUE, LEAVES, *beside])
        self.state_schema = pa.schema([*PLACE_FIELDS[:2], SIDE, *beside])
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, SUBSCRIBED, *values])

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """The right table's own keys: all their subscribers hear of it."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Let subscriptions and right records take effect, and respond; clocks don't matter.

        ``state`` may be a part, as of ``ResponsesEngine``.
        """
        del times
        batch = self._read(batch)
        # From here on the number of a row of the batch is the position at which it takes effect.
        batch = batch.take(pa.array(np.lexsort(self._sides.effect_keys(batch))))
        other_keys, touched = split_by_key(state, batch["key"])
        (old_code, code), _ = coded_keys(touched["key"], batch["key"])
        rights = _RightRows.of(touched, old_code, batch, code)
        of_left = np.flatnonzero(np.asarray(batch[SIDE.name]) == LEFT)
        messages = batch.take(pa.array(of_left))
        subscriptions = _Subscriptions.of(touched, old_code, messages, code[of_left], of_left)

        leaves = np.asarray(messages[LEAVES.name]).astype(np.bool_)
        is_answered = leaves | ~takes_away(messages)
        messages = messages.filter(pa.array(is_answered))
        answered, leaves = of_left[is_answered], leaves[is_answered]
        # A message's own number is twice that of its left record.
        own, log = self._sides.own_numbers(messages) // 2, self._sides.numbers(messages)
        answers = self._responses(
            messages,
            rights,
            np.where(leaves, -1, rights.at(code[answered], answered)),
            messages[SUBSCRIBER.name],
            self._sides.numbered(own, log),
        )
        heard, hearer, rank = self._heard(rights, subscriptions)
        causes = batch.take(pa.array(rights.since[heard]))
        first = self._sides.update_numbers(causes)[:, 0]
        of_changes = self._responses(
            causes,
            rights,
            heard,
            subscriptions.subscriber.take(pa.array(hearer)),
            self._logs.numbers_of_rows(first, rank, self._most),
        )
        stays = np.flatnonzero(subscriptions.end == _NEVER)
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
        return rows[listed], hearer, places_in_runs(heads(listed))

    def _responses(
        self,
        causes: pa.Table,
        rights: "_RightRows",
        row: Ints,
        subscriber: pa.ChunkedArray,
        suborder: Ints,
    ) -> pa.Table:
        """Responses of right rows with these numbers (-1: none), each with the place of a cause."""
        has_row = np.append(rights.has, False)[row]
        values = rights.rows.take(pa.array(row, mask=~has_row))
        time_ms = np.append(np.asarray(rights.rows["timestamp_ms"]), 0)[row]
        columns = {
            "key": subscriber,
            "timestamp_ms": np.where(row < 0, np.asarray(causes["timestamp_ms"]), time_ms),
            "partition": causes["partition"],
            "offset": causes["offset"],
            SUBORDER.name: suborder,
            STREAM_TIME.name: causes[STREAM_TIME.name],
            NULL_VALUE.name: ~has_row,
            SUBSCRIBED.name: causes["key"],
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
        return self.rows.filter(pa.array(tails(self._head) & self.has)).select(schema.names)


class _Subscriptions:
    """Who subscribes to which key, from the position ``begin`` to ``end``; by key and subscriber.

    ``end`` is ``_NEVER`` where nobody has left.
    """

    def __init__(self, rows: pa.Table, code: Ints, begin: Ints, end: Ints) -> None:
        self.rows, self.code, self.begin, self.end = rows, code, begin, end
        self.subscriber = rows[SUBSCRIBER.name]

    @classmethod
    def of(
        cls,
        state: pa.Table,
        old_code: Ints,
        messages: pa.Table,
        code: Ints,
        position: Ints,
    ) -> "_Subscriptions":
        """Those of the state and of messages at these positions."""
        old = np.flatnonzero(np.asarray(state[SIDE.name]) == LEFT)
        names = state.column_names
        rows = pa.concat_tables([state.take(pa.array(old)), messages.select(names)])
        begins = np.concatenate([np.ones(len(old), dtype=np.bool_), ~takes_away(messages)])
        since = np.concatenate([np.full(len(old), _BEFORE), position])
        key_code = np.concatenate([old_code[old], code])
        (subscriber,), _ = coded_keys(rows[SUBSCRIBER.name])
        order = np.lexsort((since, subscriber, key_code))
        # Who has subscribed leaves before subscribing to the key again: what comes next is the end.
        is_last = tails(heads(key_code[order], subscriber[order]))
        end = np.where(is_last, _NEVER, np.roll(since[order], -1))
        is_begun = begins[order]
        chosen = order[is_begun]
        return cls(rows.take(pa.array(chosen)), key_code[chosen], since[chosen], end[is_begun])
