"""The responses to the subscribers of right keys after each record (see ``updates``)."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Timeline,
    coded_keys,
    positions_in_runs,
    run_ends,
    run_starts,
)
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.foreign_keys.subscriptions import (
    SUBSCRIBER,
    SubscribedTableEngine,
)
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputLogs,
    InputRows,
    JoinResult,
    split_by_key,
    value_fields,
)
from oriel.pipeline.windows.records import (
    LINEAGE,
    NULL_VALUE,
    RECORD_ID_FIELDS,
    are_retractions,
    extended_by,
    lineage_fields,
    update_lineages,
    with_column,
    with_log,
)

#: True if a subscriber unsubscribes from a key and does not subscribe to another key.
LEAVES = pa.field("__leaves", pa.bool_())
#: The right key of a response.
SUBSCRIBED = pa.field("__subscribed", pa.string())

#: The position in the batch of rows from earlier batches, and the end of rows that stay.
_BEFORE = -1
_NEVER = 2**62


class ResponseUpdatesEngine(SubscribedTableEngine):
    """The responses to the subscribers of right keys after each record.

    The left input is messages (``SubscriptionUpdatesEngine``). The right input is the right table,
    whose keys are the keys here. The state is the newest row of each right key and one row per
    subscriber of a key, with the input in ``side``.

    A response has the subscriber as its key. The response to a message has the record id, the
    stream time and the lineage of the left record. A response to a right record has the record id,
    the stream time and the lineage of the right record, with the index of the subscriber at the end
    of the lineage. ``timestamp_ms`` is the time of the right record. A response without a right row
    has a null value. The responses to one right record are in the order of subscribers.
    """

    def __init__(
        self,
        right: pa.Schema,
        carried: pa.Schema | None,
        rows: tuple[InputRows, InputRows],
        *,
        is_filtered: bool = False,
    ) -> None:
        """Read a right table.

        Args:
            right: The value columns of the right table.
            carried: Further columns of the records (see ``JoinEngine``).
            rows: The rows of both inputs.
            is_filtered: True if the right table has a filter. Then records of keys without a row
                before and after have no responses (see ``TableUpdatesEngine``).

        Raises:
            IllegalArgument: A column has a name that the join needs.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE, SUBSCRIBER, LEAVES, SUBSCRIBED)
        values = value_fields(own, carried, (right,))
        other_columns = (*(carried or ()), SUBSCRIBER, *values)
        self._values = right.names
        self._is_filtered = is_filtered
        self._logs = InputLogs([each.lineage for each in rows])
        lineage = lineage_fields(self._logs.lineages)
        self.record_schema = pa.schema(
            [*INPUT_FIELDS, *lineage, NULL_VALUE, LEAVES, *other_columns]
        )
        self.state_schema = pa.schema([*RECORD_ID_FIELDS[:2], SIDE, *other_columns])
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, SUBSCRIBED, *values])

    def whole(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the keys of the right table's records, whose subscribers all get responses."""
        return batch["key"].filter(pc.equal(batch["side"], RIGHT))

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Apply subscriptions and right records, and return responses. Times don't matter.

        ``state`` can be a part of the state, as in ``ResponsesEngine``.
        """
        del times
        batch = self._read(batch)
        # Now the index of a row of the batch is its position in the apply order.
        batch = batch.take(pa.array(np.lexsort(self._logs.apply_order_keys(batch))))
        other_keys, working_set = split_by_key(state, batch["key"])
        (old_code, code), _ = coded_keys(working_set["key"], batch["key"])
        rights = _RightRows.of(working_set, old_code, batch, code)
        of_left = np.flatnonzero(np.asarray(batch[SIDE.name]) == LEFT)
        messages = batch.take(pa.array(of_left))
        subscriptions = _Subscriptions.of(working_set, old_code, messages, code[of_left], of_left)

        leaves = np.asarray(messages[LEAVES.name]).astype(np.bool_)
        # An old row only ends a subscription, and the key of the new row responds. So a left record
        # has at most one response.
        has_response = leaves | ~are_retractions(messages)
        messages = messages.filter(pa.array(has_response))
        position, leaves = of_left[has_response], leaves[has_response]
        # A message is the old or the new row of an update of the left table.
        of_records = with_log(self._logs.log_of(messages), self._logs.in_log(messages))
        to_messages = self._responses(
            messages,
            rights,
            # A subscriber that leaves receives no row, as in Kafka Streams
            # (DELETE_KEY_AND_PROPAGATE). Any other message receives the right row of its own
            # moment.
            np.where(leaves, -1, rights.at(code[position], position)),
            messages[SUBSCRIBER.name],
            update_lineages(with_column(messages, LINEAGE, of_records)),
        )
        row, subscription, rank = self._sent_to_subscribers(rights, subscriptions)
        causes = batch.take(pa.array(rights.since[row]))
        to_right_records = self._responses(
            causes,
            rights,
            row,
            subscriptions.subscriber.take(pa.array(subscription)),
            extended_by(self._logs.merged_lineages(causes), rank),
        )
        stays = np.flatnonzero(subscriptions.end == _NEVER)
        subscribers = subscriptions.rows.take(pa.array(stays))
        state = [other_keys, rights.newest(self.state_schema), subscribers]
        return JoinResult(
            pa.concat_tables(
                rows.select(self.state_schema.names).cast(self.state_schema) for rows in state
            ).combine_chunks(),
            [to_messages, to_right_records],
        )

    def _sent_to_subscribers(
        self, rights: "_RightRows", subscriptions: "_Subscriptions"
    ) -> tuple[Ints, Ints, Ints]:
        """Return three indexes of each response to a right record, as parallel arrays.

        Returns:
            The index of the right row, the index of the subscription, and the index of the
            subscriber among the subscribers that receive this row.
        """
        # The batch that adds a right row sends it, so older rows are not sent again.
        is_sent = rights.since > _BEFORE
        if self._is_filtered:
            is_sent &= rights.had | rights.has
        rows = np.flatnonzero(is_sent)
        timeline = Timeline(rights.code[rows], rights.since[rows])
        # A message at ``begin`` already received the row of its moment, and positions are distinct.
        # So a subscription receives the right records strictly between its bounds.
        ranges = timeline.within(subscriptions.code, subscriptions.begin + 1, subscriptions.end - 1)
        _, listed = ranges.rows()
        subscription = ranges.owners
        # Subscriptions are sorted by key and subscriber. One right row has a subscriber once.
        order = np.lexsort((subscription, listed))
        listed, subscription = listed[order], subscription[order]
        return rows[listed], subscription, positions_in_runs(run_starts(listed))

    def _responses(
        self,
        causes: pa.Table,
        rights: "_RightRows",
        row: Ints,
        subscriber: pa.ChunkedArray,
        lineages: pa.ChunkedArray,
    ) -> pa.Table:
        """Return responses with right rows (-1: none), each with the record id of its cause."""
        # The index -1 reads the appended values, so it is a response without a row.
        has_row = np.append(rights.has, False)[row]
        values = rights.rows.take(pa.array(row, mask=~has_row))
        time_ms = np.append(np.asarray(rights.rows["timestamp_ms"]), 0)[row]
        columns = {
            "key": subscriber,
            "timestamp_ms": np.where(row < 0, np.asarray(causes["timestamp_ms"]), time_ms),
            "partition": causes["partition"],
            "offset": causes["offset"],
            LINEAGE.name: lineages,
            STREAM_TIME.name: causes[STREAM_TIME.name],
            NULL_VALUE.name: ~has_row,
            SUBSCRIBED.name: causes["key"],
            **{name: values[name] for name in self._values},
        }
        return pa.table(columns).cast(self.result_schema)


class _RightRows:
    """The versions of right rows, by key and position in the apply order.

    Attributes:
        rows: The versions, with ``NULL_VALUE``.
        code: The code of the key of each version.
        since: The position from which each version is valid.
        has: True for versions with a row.
        had: True for versions that replace a row.
    """

    def __init__(self, rows: pa.Table, code: Ints, since: Ints) -> None:
        # The versions of a key are adjacent and in apply order, so the version before another one
        # is the row that it replaces.
        order = np.lexsort((since, code))
        self.rows, self.code, self.since = rows.take(pa.array(order)), code[order], since[order]
        self.has: Flags = ~np.asarray(self.rows[NULL_VALUE.name]).astype(np.bool_)
        self._head = run_starts(self.code)
        self.had: Flags = np.append(False, self.has[:-1])[: len(self.has)] & ~self._head
        self._timeline = Timeline(self.code, self.since)

    @classmethod
    def of(cls, state: pa.Table, old_code: Ints, batch: pa.Table, code: Ints) -> "_RightRows":
        old, new = (np.flatnonzero(np.asarray(rows[SIDE.name]) == RIGHT) for rows in (state, batch))
        # The state has no tombstones.
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
        """Return the index of the last version of each key before a position, -1 without one."""
        # For a key without an earlier version, the result is a row of another key, or -1.
        last = self._timeline.first_at_or_after(code, position) - 1
        is_own = last >= 0
        is_own[is_own] = self.code[last[is_own]] == code[is_own]
        return np.where(is_own, last, -1)

    def newest(self, schema: pa.Schema) -> pa.Table:
        """Return the last version of each key, if it is a row."""
        return self.rows.filter(pa.array(run_ends(self._head) & self.has)).select(schema.names)


class _Subscriptions:
    """Subscriptions from the position ``begin`` to ``end``, by key and subscriber.

    ``end`` is ``_NEVER`` for a subscription that continues.
    """

    def __init__(self, rows: pa.Table, code: Ints, begin: Ints, end: Ints) -> None:
        self.rows, self.code, self.begin, self.end = rows, code, begin, end
        self.subscriber = rows[SUBSCRIBER.name]

    @classmethod
    def of(
        cls, state: pa.Table, old_code: Ints, messages: pa.Table, code: Ints, position: Ints
    ) -> "_Subscriptions":
        """Return the subscriptions of the state and of messages at these positions."""
        old = np.flatnonzero(np.asarray(state[SIDE.name]) == LEFT)
        names = state.column_names
        rows = pa.concat_tables([state.take(pa.array(old)), messages.select(names)])
        begins = np.concatenate([np.ones(len(old), dtype=np.bool_), ~are_retractions(messages)])
        since = np.concatenate([np.full(len(old), _BEFORE), position])
        key_code = np.concatenate([old_code[old], code])
        # Codes are in the order of bytes. Kafka Streams scans the subscribers of a key in this
        # order.
        (subscriber,), _ = coded_keys(rows[SUBSCRIBER.name])
        order = np.lexsort((since, subscriber, key_code))
        # A subscriber leaves a key before it subscribes to it again, so the next one ends it.
        is_last = run_ends(run_starts(key_code[order], subscriber[order]))
        # ``roll`` wraps the first row to the last place, where ``is_last`` is always true.
        end = np.where(is_last, _NEVER, np.roll(since[order], -1))
        # A row that unsubscribes only ends the row before it.
        is_begun = begins[order]
        chosen = order[is_begun]
        return cls(rows.take(pa.array(chosen)), key_code[chosen], since[chosen], end[is_begun])
