"""The distinct records of a stream: records without an earlier duplicate.

KIP-655 proposes this operation, but Kafka Streams does not have it. The event deduplicator in
Confluent's examples has the same rule, and keeps the times of an id in a window store. A record
has the time ``t``. Its partition has the stream time ``st`` when it arrives. W is ``within_ms`` and
G is the grace.

    late         t < st - G
    duplicate    an earlier record of its partition has the same key and the same values of ``by``,
                 is not late, and has a time in [t - W, t + W]

The earlier record can be a duplicate itself. So a key whose records are at most W apart continues
once. The rule does not depend on batches, because *earlier* is the order of offsets.

The state has spans instead of records. Two times that are at most 2 W + 1 apart are in one span,
because each time between is at most W from an end.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from oriel.pipeline.windows.arrays import (
    Flags,
    Ints,
    Timeline,
    coded_keys,
    lexsort,
    range_extremes,
    run_starts,
    running_max,
)
from oriel.pipeline.windows.definitions import LEFT, IllegalArgument
from oriel.pipeline.windows.engines import StateReader, Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    InputRows,
    InputStreamTimes,
    JoinEngine,
    JoinResult,
    are_older,
    slowest_stream_time,
    value_fields,
)
from oriel.pipeline.windows.records import LINEAGE, NULL_VALUE, arrival_keys

#: The values of ``by`` as one string, and the first and the last time of a span. No value column
#: has such a name.
_BY = pa.field("oriel.by", pa.string())
_FIRST = pa.field("oriel.first_ms", pa.int64())
_LAST = pa.field("oriel.last_ms", pa.int64())


class DistinctEngine(JoinEngine):
    """The records of one stream without late records and without duplicates.

    Its ``InputStreamTimes`` are the stream times of the partitions. The state has the spans of each
    partition, key and ``by``. A span is dropped if each record that it could reject is late in all
    partitions with a record.
    """

    by_partition = LEFT
    keeps_records = keeps_order = owns_stream_time = takes_null_values = True
    sub_key = _BY.name
    rows_leave_when_due = True

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        by: Sequence[str],
        within_ms: int,
        grace_ms: int,
        rows: InputRows = RECORDS,
    ) -> None:
        """Read records with the columns ``values``, and compare their columns ``by``.

        Raises:
            IllegalArgument: A column has a name that the operator needs, or a column of ``by`` does
                not exist or is an array, a struct or a map.
        """
        for name in by:
            if name not in values.names:
                message = f"distinct: no column {name!r}. The columns are {', '.join(values.names)}"
                raise IllegalArgument(message)
            if pt.is_nested(values.field(name).type):
                message = (
                    f"distinct: column {name!r} is an array, a struct or a map. Compare one of its "
                    "values, which you compute with map_values first"
                )
                raise IllegalArgument(message)
        columns = value_fields((*RESULT_FIELDS, SIDE, NULL_VALUE), carried, [values])
        own = (*INPUT_FIELDS, *rows.lineage.fields, NULL_VALUE)
        self.record_schema = pa.schema([*own, *(carried or ()), *columns])
        partition = INPUT_FIELDS[2]
        self.state_schema = pa.schema(
            [INPUT_FIELDS[0], partition, _BY, _FIRST, _LAST, *(carried or ())]
        )
        self.result_schema = pa.schema([*RESULT_FIELDS, NULL_VALUE, *columns])
        self._by, self._within_ms, self._grace_ms = tuple(by), within_ms, grace_ms

    def due_ms(self, state: pa.Table) -> Ints:
        """Return the last stream time at which a record in time can be a duplicate of each span."""
        last_ms = np.asarray(state[_LAST.name])
        # The record is at most at last_ms + W, and it is in time while stream time <= t + G.
        due_ms: Ints = last_ms + self._within_ms + self._grace_ms
        return due_ms

    def close_ms(self, times: InputStreamTimes) -> int:
        """Return the least stream time of partitions with a record. Rows due before it expire."""
        return slowest_stream_time(times)

    def needed_state(self, state: StateReader, batch: pa.Table, times: Times) -> Any:
        closing_ms = self.close_ms(times.before), self.close_ms(times.after)
        records = batch.append_column(_BY, self._by_values(batch))
        return state.working_set_of_sub_keys(records, batch["key"].slice(0, 0), closing_ms)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the distinct records, and count late records and duplicates."""
        batch = self._read(batch)
        arrived = batch.filter(pa.array(~are_older(batch, self._grace_ms))).combine_chunks()
        arrived = arrived.take(pa.array(lexsort(arrival_keys(arrived))))
        at_time = arrived["timestamp_ms"]
        own = {_BY.name: self._by_values(arrived), _FIRST.name: at_time, _LAST.name: at_time}
        columns = [own[n] if n in own else arrived[n] for n in self.state_schema.names]
        points = pa.table(columns, self.state_schema)
        seen = pa.concat_tables([state.select(self.state_schema.names), points]).combine_chunks()
        group = _groups(seen)
        duplicates = self._duplicates(seen, group, len(state))
        results = arrived.filter(pa.array(~duplicates))
        if LINEAGE.name not in results.column_names:
            results = results.append_column(LINEAGE, pa.nulls(len(results), LINEAGE.type))
        results = results.select(self.result_schema.names).cast(self.result_schema)
        spans = self._merged(seen, group)
        is_needed = self.due_ms(spans) >= self.close_ms(times.after)
        return JoinResult(
            spans.filter(pa.array(is_needed)),
            [results],
            late=(len(batch) - len(arrived),),
            filtered=(int(duplicates.sum()),),
        )

    def _duplicates(self, seen: pa.Table, group: Ints, spans: int) -> Flags:
        """Return which records are duplicates. ``seen`` has ``spans`` rows of the state first."""
        first_ms, last_ms = (np.asarray(seen[each.name]) for each in (_FIRST, _LAST))
        of_record, time_ms = group[spans:], first_ms[spans:]
        order = lexsort((time_ms, of_record))
        near = Timeline(of_record[order], time_ms[order]).within(
            of_record, time_ms - self._within_ms, time_ms + self._within_ms
        )
        # The records are in the order of arrival, so ``order`` has their numbers. A record is in
        # its own range.
        duplicates: Flags = range_extremes(order, near, np.minimum) < np.arange(len(time_ms))
        if not spans:
            return duplicates
        order = lexsort((first_ms[:spans], group[:spans]))
        timeline = Timeline(group[:spans][order], first_ms[:spans][order])
        # The spans of a group do not overlap. So the last span with a begin <= t + W also
        # ends latest. If no span of the group begins then, the place is -1 or in another group.
        place = timeline.first_after(of_record, time_ms + self._within_ms) - 1
        nearest = order[place]
        is_near = last_ms[nearest] >= time_ms - self._within_ms
        duplicates |= (place >= 0) & (group[nearest] == of_record) & is_near
        return duplicates

    def _merged(self, seen: pa.Table, group: Ints) -> pa.Table:
        """Return the spans of the state and of the records, with adjacent ones merged."""
        if not len(seen):
            return seen
        first_ms, last_ms = (np.asarray(seen[each.name]) for each in (_FIRST, _LAST))
        order = lexsort((first_ms, group))
        of_group = run_starts(group[order])
        until_ms = running_max(last_ms[order], of_group)
        begins = of_group.copy()
        begins[1:] |= first_ms[order][1:] > until_ms[:-1] + 2 * self._within_ms + 1
        begin = np.flatnonzero(begins)
        spans = seen.take(pa.array(order[begin]))
        end_ms = until_ms[np.append(begin[1:], len(order)) - 1]
        place = spans.column_names.index(_LAST.name)
        return spans.set_column(place, _LAST, pa.array(end_ms))

    def _by_values(self, batch: pa.Table) -> pa.ChunkedArray:
        """Return the values of ``by`` of each record as one string. Nulls are equal."""
        texts = []
        for name in self._by:
            text = pc.cast(batch[name], pa.string())
            for escaped in ("\\", "|"):
                text = pc.replace_substring(text, escaped, "\\" + escaped)
            # After the escapes, no text has a backslash before another character.
            texts.append(pc.fill_null(text, "\\null"))
        if not texts:
            return pa.chunked_array([pa.repeat(pa.scalar("", _BY.type), len(batch))])
        return pc.binary_join_element_wise(*texts, "|")


def _groups(seen: pa.Table) -> Ints:
    """Return a number for each row, which is equal for rows of one partition, key and ``by``."""
    (key_code,), _ = coded_keys(seen["key"])
    (by_code,), _ = coded_keys(seen[_BY.name])
    columns = (by_code, key_code, np.asarray(seen["partition"]).astype(np.int64))
    order = lexsort(columns)
    group = np.empty(len(seen), dtype=np.int64)
    group[order] = np.cumsum(run_starts(*(column[order] for column in columns)))
    return group
