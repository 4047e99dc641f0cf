"""The updates of two joined tables as a stream: what the joined row is after each record.

A record replaces what its key had on its own side, one without a value deletes it. What the
joined row is then comes out with the greater time of the record and of the row that the
other side has; where there is no joined row after it, nothing comes out. (Kafka Streams sends
a record without a value there. Aggregations without windows and sliding ones drop it; the
others count it, which is a difference that docs/for-kafka-streams.md names.)

Records take effect as they arrive, batch after batch and within a batch in the order
(stream time, side, partition, offset). So results depend on how the two topics are cut into
batches against each other, as they depend on the arrival in Kafka; that is the price of
telling of each update. Cuts don't matter for one topic alone, nor for records of one side
between the same records of the other. That holds for a key that comes from one partition
of each topic, as keyed records do; where it comes from several, their cuts against each
other matter, too. (``tables`` keeps the joined table as a function of the two logs.)
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints, coded_keys, heads
from oriel.pipeline.windows.definitions import LEFT, RIGHT
from oriel.pipeline.windows.joins.sides import (
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    Clocks,
    How,
    JoinEngine,
    JoinResult,
    has_joined_row,
    joined_values,
    split_by_key,
)
from oriel.pipeline.windows.records import NULL_VALUE


@dataclass(frozen=True)
class Histories:
    """Old rows and new records by key, each key's in the order of effect; ``new`` says which.

    ``head`` marks the first of each key. ``newest`` has, by [side, record], the number of the row
    that its key has on that side after the record; -1 where there is none.
    """

    records: pa.Table
    new: Flags
    head: Flags
    newest: Ints

    @property
    def state(self) -> pa.Table:
        """The newest rows of each key."""
        last = np.append(self.head[1:], True)[: len(self.head)]
        rows = np.concatenate([side[last & (side >= 0)] for side in self.newest])
        return self.records.take(pa.array(rows))


class TableUpdatesEngine(JoinEngine):
    """The updates of two joined tables.

    The state is the newest row of each key and side. A deletion leaves nothing: the records of
    a later batch all take effect after it, so none of them can be older than what it deleted.

    A result has the place and the stream time of the record that it follows, the greater time
    of that record and of the other side's row (semantics 5), and as suborder the record's side:
    the two topics' places can be equal. Results come in the order of effect. Records after
    which there is no joined row are filtered.
    """

    def __init__(
        self, how: How, left: pa.Schema, right: pa.Schema, carried: pa.Schema | None = None
    ) -> None:
        """Join columns as ``JoinEngine`` says.

        Raises:
            IllegalArgument: ``how`` is unknown, or two columns have one name.
        """
        own = (*RESULT_FIELDS, SIDE, NULL_VALUE)
        values = joined_values(how, How, own, carried, (left, right))
        self._how = how
        self._values_of_side = (left.names, right.names)
        self.record_schema = pa.schema([*SIDE_FIELDS, NULL_VALUE, *(carried or ()), *values])
        self.state_schema = self.record_schema
        self.result_schema = pa.schema([*RESULT_FIELDS, *values])

    def process(self, state: pa.Table, batch: pa.Table, clocks: Clocks) -> JoinResult:
        """Let the records of ``batch`` take effect; clocks don't matter."""
        del clocks
        batch = self._read(batch)
        other_keys, touched = split_by_key(state, batch["key"])
        histories = self._histories(touched, batch)
        told, rows, suborder = self._told(histories)
        results = self._results(histories.records, told, rows, suborder)
        state = pa.concat_tables([other_keys, histories.state]).combine_chunks()
        return JoinResult(state, [results], filtered=len(batch) - len(np.unique(told)))

    def _histories(self, old_rows: pa.Table, batch: pa.Table) -> Histories:
        """The histories of each key."""
        return histories_of(old_rows, batch)

    def _told(self, histories: Histories) -> tuple[Ints, Ints, Ints]:
        """The number of each result's record, the rows of both sides in it, and its suborder."""
        left, right = histories.newest >= 0
        told = np.flatnonzero(histories.new & has_joined_row(self._how, left, right))
        side = np.asarray(histories.records["side"])[told]
        return told, histories.newest[:, told], side.astype(np.int64)

    def _results(self, records: pa.Table, told: Ints, rows: Ints, suborder: Ints) -> pa.Table:
        """Joined rows in the order of effect, as ``_told`` says."""
        order = np.lexsort((suborder, *_effect_keys(records.take(pa.array(told)))))
        told, rows, suborder = told[order], rows[:, order], suborder[order]
        own = records.take(pa.array(told))
        of_left = np.asarray(own["side"]) == LEFT
        other_row = np.where(of_left, rows[RIGHT], rows[LEFT])
        time_ms = np.asarray(records["timestamp_ms"])
        columns = [
            own["key"],
            # A deleted row lends no time: -1 is before every time.
            np.maximum(time_ms[told], np.where(other_row < 0, -1, time_ms[other_row])),
            own["partition"],
            own["offset"],
            suborder,
            own["stream_time_ms"],
            *(
                records[name].take(pa.array(rows[side], mask=rows[side] < 0))
                for side in (LEFT, RIGHT)
                for name in self._values_of_side[side]
            ),
        ]
        return pa.table(columns, schema=self.result_schema)


def histories_of(old_rows: pa.Table, batch: pa.Table, *, by_partition: bool = False) -> Histories:
    """Sort old rows and new records by (key, order of effect), and find both sides' newest.

    ``by_partition``: a key has a history in each partition that it comes from.
    """
    records = pa.concat_tables([old_rows, batch]).combine_chunks()
    (key_code,), keys = coded_keys(records["key"])
    if by_partition:
        key_code = key_code + len(keys) * np.asarray(records["partition"]).astype(np.int64)
    new = np.arange(len(records)) >= len(old_rows)
    # Old rows took effect in an earlier batch, whatever their stream time: ``new`` comes first.
    order = np.lexsort((*_effect_keys(records), new, key_code))
    records, key_code = records.take(pa.array(order)), key_code[order]
    head = heads(key_code)
    number = np.arange(len(records))
    first_of_key = np.maximum.accumulate(np.where(head, number, 0))
    record_side = np.asarray(records["side"])
    deletes = np.asarray(records[NULL_VALUE.name])
    newest = np.full((2, len(records)), -1, dtype=np.int64)
    for side in (LEFT, RIGHT) if len(records) else ():
        # The last record of the side so far, of any key: one before the key's first is another's.
        last = np.maximum.accumulate(np.where(record_side == side, number, -1))
        newest[side] = np.where((last < first_of_key) | deletes[last], -1, last)
    return Histories(records, new[order], head, newest)


def _effect_keys(records: pa.Table) -> tuple[Ints, ...]:
    """Sort keys of the order of effect, the last first as in ``np.lexsort``.

    The stream time is the order of arrival as far as a partition knows it; side, partition and
    offset make the order total, so that a replayed batch gives the same results.
    """
    names = ("offset", "partition", "side", "stream_time_ms")
    return tuple(np.asarray(records[name]) for name in names)
