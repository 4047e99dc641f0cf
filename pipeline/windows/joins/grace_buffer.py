"""Records of a stream that wait for a grace, in front of what they look up (KIP-923).

In Kafka Streams a stream with ``Joined.withGracePeriod`` waits in a buffer, so that the table can
bring what belongs to its records, and goes on in the order of time. Here each record has a turn,
which follows from its partition alone. ``t`` is its time, ``st`` the stream time of its partition
when it came, G the grace:

    turn       max(t, st - G)
    goes on    clock of its partition >= turn + G

A record in time (``t >= st - G``) has its turn at its own time, and goes on once the clock has
reached ``t + G``. A later one goes on at once, as in Kafka, behind all that went on before. So
records go on in the order of their turns, however batches are cut. Behind the buffer one stream has
a clock of its own, as in Kafka: the greatest time of the records that have gone on. What goes on of
a join's results has the turn as its stream time.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from oriel.pipeline.windows.arrays import Flags, Ints
from oriel.pipeline.windows.definitions import LEFT
from oriel.pipeline.windows.engines import Times
from oriel.pipeline.windows.joins.sides import (
    MATCHED,
    RECORDS,
    RESULT_FIELDS,
    SIDE,
    SIDE_FIELDS,
    STREAM_TIME,
    Clocks,
    JoinResult,
    OpenRecordsEngine,
    SideRows,
    effect_order,
    replaced,
    values_beside,
)
from oriel.pipeline.windows.records import PLACE_FIELDS, SUBORDER


class GraceBufferEngine(OpenRecordsEngine):
    """The records of one stream, each with its own place and time, and its turn as stream time.

    ``Clocks`` have the stream time of each partition.
    """

    by_partition = LEFT
    keeps_order = owns_stream_time = True

    def __init__(
        self,
        values: pa.Schema,
        carried: pa.Schema | None = None,
        *,
        rows: SideRows = RECORDS,
        grace_ms: int,
        is_one_stream: bool = True,
    ) -> None:
        """Hold back records that have the columns ``values``; ``rows`` is what they are.

        ``is_one_stream``: they have one order and one stream time, unlike results of a join.

        Raises:
            IllegalArgument: a column has a name that the join needs.
        """
        beside = values_beside((*RESULT_FIELDS, SIDE, MATCHED), carried, [values])
        numbers = rows.places.fields
        self.record_schema = pa.schema([*SIDE_FIELDS, *numbers, *(carried or ()), *beside])
        self.state_schema = self.record_schema.append(MATCHED)
        # Rows behind have a suborder in any case.
        numbers = numbers or [SUBORDER]
        self.result_schema = pa.schema([*PLACE_FIELDS, *numbers, STREAM_TIME, *beside])
        self._grace_ms = grace_ms
        self._is_one_stream = is_one_stream
        self.delay_ms = grace_ms

    def held_back_ms(self, held_ms: Sequence[int]) -> int:
        # The stream time of one stream continues with the records that leave the buffer.
        return 0 if self._is_one_stream else super().held_back_ms(held_ms)

    @property
    def keeps_matches(self) -> bool:
        """Nothing pairs here."""
        return False

    def stays(self, records: pa.Table, clocks: Clocks) -> Flags:
        """Which records have yet to go on at these clocks."""
        clock_ms = np.asarray(clocks, dtype=np.int64)[np.asarray(records["partition"])]
        stays: Flags = self._turn_ms(records) + self._grace_ms > clock_ms
        return stays

    def concerned(
        self,
        records: pa.Table,
        matched: Flags,
        batch: pa.Table,
        clocks: tuple[Clocks, Clocks],
    ) -> Flags:
        """Those that go on with the batch; a version's files keep those that went on before."""
        del matched, batch
        before, after = clocks
        return self.stays(records, before) & ~self.stays(records, after)

    def apply(self, state: pa.Table, batch: pa.Table, times: Times) -> JoinResult:
        """Let records go on, in the order of their turns."""
        batch = self._read(batch)
        unmatched = pa.repeat(pa.scalar(value=False), len(batch))
        records = pa.concat_tables([state, batch.append_column(MATCHED, unmatched)])
        stays = self.stays(records, times.after)
        going = records.combine_chunks().filter(pa.array(~stays))
        going = replaced(going, {STREAM_TIME.name: self._turn_ms(going)})
        going = going.take(pa.array(effect_order(going)))
        if SUBORDER.name not in going.column_names:
            going = going.append_column(SUBORDER, pa.nulls(len(going), SUBORDER.type))
        results = going.select(self.result_schema.names).cast(self.result_schema)
        return JoinResult(records.filter(pa.array(stays)), [results], stayed=stays[: len(state)])

    def _turn_ms(self, records: pa.Table) -> Ints:
        stream_time_ms = np.asarray(records[STREAM_TIME.name])
        turn_ms: Ints = np.maximum(
            np.asarray(records["timestamp_ms"]), stream_time_ms - self._grace_ms
        )
        return turn_ms
