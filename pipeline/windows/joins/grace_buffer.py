"""Records of a stream that wait before a join with a table (KIP-923).

In Kafka Streams, a stream with ``Joined.withGracePeriod`` waits in a buffer, so that the table can
receive the rows for its records. It leaves the buffer in the order of time. Here each record has a
turn, which depends only on its partition. ``t`` is its time, ``st`` the stream time of its
partition at its arrival, and G the grace:

    turn      max(t, st - G)
    leaves    stream time of its partition >= turn + G

A record in time (``t >= st - G``) has its own time as its turn, and leaves when stream time reaches
``t + G``. A later record leaves at once, as in Kafka Streams, after all records that left earlier.
So records leave in the order of their turns, for all batches. After the buffer, a stream has a
stream time of its own, as in Kafka Streams: the greatest time of the records that have left. For
results of a join, the stream time of a result after the buffer is its turn.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import LEFT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.inputs import (
    INPUT_FIELDS,
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    STREAM_TIME,
    InputRows,
    InputStreamTimes,
    JoinResult,
    OpenRecordsEngine,
    apply_order,
    replaced,
    value_fields,
)
from oriel.pipeline.windows.records import LINEAGE


class GraceBufferEngine(OpenRecordsEngine):
    """The records of one stream, with their record ids and times, and the turn as stream time.

    Its ``InputStreamTimes`` are the stream times of the partitions of this stream.
    """

    by_partition = LEFT
    keeps_order = owns_stream_time = True

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: InputRows = RECORDS,
        grace_ms: int,
        is_one_stream: bool = True,
    ) -> None:
        """Delay records with the columns ``values``.

        ``is_one_stream``: they have one order and one stream time, unlike results of a join.

        Raises:
            IllegalArgument: A column has a name that the join needs.
        """
        value_columns = value_fields((*RESULT_FIELDS, SIDE, MATCHED), carried, [values])
        lineage = rows.lineage.fields
        self.record_schema = pa.schema([*INPUT_FIELDS, *lineage, *(carried or ()), *value_columns])
        self.state_schema = self.record_schema.append(MATCHED)
        self.result_schema = pa.schema([*RESULT_FIELDS, *value_columns])
        self._grace_ms = grace_ms
        self._is_one_stream = is_one_stream
        self.delay_ms = grace_ms

    def held_back_ms(self, held_ms: Sequence[int]) -> int:
        # The stream time of one stream continues with the records that leave the buffer.
        return 0 if self._is_one_stream else super().held_back_ms(held_ms)

    @property
    def keeps_matches(self) -> bool:
        """Records have no matches here."""
        return False

    def stays(self, records: pa.Table, stream_times: InputStreamTimes) -> Flags:
        """Return which records are still in the buffer at these stream times."""
        partition = np.asarray(records["partition"])
        # In a join of streams, a match can be in any partition. Here a record only waits for its
        # own partition, so an idle partition delays no other.
        stream_time_ms = np.asarray(stream_times, dtype=np.int64)[partition]
        stays: Flags = self._turn_ms(records) + self._grace_ms > stream_time_ms
        return stays

    def concerned(
        self,
        records: pa.Table,
        matched: Flags,
        batch: pa.Table,
        stream_times: tuple[InputStreamTimes, InputStreamTimes],
    ) -> Flags:
        """Return the records that leave in the batch. Files also have records that left earlier."""
        del matched, batch
        before, after = stream_times
        return self.stays(records, before) & ~self.stays(records, after)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Return the records that leave, in the order of their turns."""
        batch = self._read(batch)
        # Every state of open records has the column of matches. Records of a buffer never match.
        unmatched = pa.repeat(pa.scalar(value=False), len(batch))
        records = pa.concat_tables([state, batch.append_column(MATCHED, unmatched)])
        stays = self.stays(records, times.after)
        leaving = records.combine_chunks().filter(pa.array(~stays))
        # ``apply_order`` sorts by the column of stream times, so the turn replaces it before the
        # sort.
        leaving = replaced(leaving, {STREAM_TIME.name: self._turn_ms(leaving)})
        leaving = leaving.take(pa.array(apply_order(leaving)))
        if LINEAGE.name not in leaving.column_names:
            leaving = leaving.append_column(LINEAGE, pa.nulls(len(leaving), LINEAGE.type))
        results = leaving.select(self.result_schema.names).cast(self.result_schema)
        return JoinResult(records.filter(pa.array(stays)), [results], stayed=stays[: len(state)])

    def _turn_ms(self, records: pa.Table) -> Ints:
        stream_time_ms = np.asarray(records[STREAM_TIME.name])
        # With a grace of 5, a record at 10 that arrives at stream time 20 has the turn 15. It
        # leaves at once, because 15 + 5 <= 20, and after all records with earlier turns.
        turn_ms: Ints = np.maximum(
            np.asarray(records["timestamp_ms"]), stream_time_ms - self._grace_ms
        )
        return turn_ms
