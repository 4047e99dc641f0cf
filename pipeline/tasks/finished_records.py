"""The records of a stream that end before the next operator: invalid, filtered or flattened ones.

Invalid records become dead letters. Each record that ends here is counted once. A record that is
flattened ends here, because its flattened records continue instead of it.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import RecordTopics
from oriel.pipeline.plan import BatchPlan, StreamPlan
from oriel.pipeline.stage_columns import FIRST_ELEMENT
from oriel.pipeline.tasks.reports import Counters
from oriel.pipeline.windows import LINEAGE, are_retractions, extended_by, with_column


class FinishedRecords:
    """Counts the records of one task that end here, and collects their dead letters.

    Results of a join are not records. So an invalid or late result is counted as a result, and a
    filtered result is not counted.
    """

    def __init__(self, plan: BatchPlan, stream: StreamPlan) -> None:
        self._plan = plan
        self._stream = stream
        #: The record (partition, offset) of the last invalid row.
        self._last_invalid: tuple[int, int] | None = None
        #: The index of the next row among the flattened records of one record.
        self._next_element = 0
        self.counters = Counters()
        self.dead_letters: list[pa.Table] = []

    def count_input(self, rows: pa.Table) -> None:
        """Count the records of a source. Several flattened records of one record count once."""
        further = 0
        if FIRST_ELEMENT.name in rows.column_names:
            # The flag is null for a record without elements, which is one row. The sum skips nulls,
            # so only the second and later elements of a record are subtracted.
            further = pc.sum(pc.invert(rows[FIRST_ELEMENT.name]), min_count=0).as_py()
        self.counters += Counters(input=len(rows) - further)

    def count_late(self, rows: pa.Table, accepted: pa.Table) -> None:
        """Count the rows that are not among the ``accepted`` ones."""
        late = len(rows) - len(accepted)
        if self._stream.origin is not None:
            self.counters += Counters(late_results=late)
        else:
            elements = _elements_in(rows) - _elements_in(accepted)
            self.counters += Counters.of("late", late, elements)

    def numbered(self, rows: pa.Table) -> pa.Table:
        """Return rows after steps that flatten, with the index of each flattened record.

        A record that is flattened ends here, so this method counts it. Join results are not
        counted, because they are not records.
        """
        lineage_before = self._stream.flattened
        if lineage_before is None or not len(rows):
            return rows
        is_first = rows[FIRST_ELEMENT.name].combine_chunks()
        is_further = ~np.asarray(pc.fill_null(is_first, fill_value=True))
        # The elements of a record can be in two Arrow batches. Further elements before the first
        # record of this batch continue at ``_next_element``. For example, with the flags (further,
        # further, first, further) and ``_next_element`` 3, the indexes are 3, 4, 0, 1.
        row = np.arange(len(rows))
        number = row - np.maximum.accumulate(np.where(is_further, -self._next_element, row))
        self._next_element = int(number[-1]) + 1
        # If the rows are flattened records of an earlier step, their record is counted there. Only
        # the additional rows are new elements.
        if self._stream.origin is None and lineage_before.length:
            self.counters += Counters(elements=int(is_further.sum()))
        elif self._stream.origin is None:
            # A record with elements ends here as applied. A record without elements continues as
            # one row, and is counted as filtered or as dead-lettered.
            applied = pc.sum(is_first, min_count=0).as_py()
            self.counters += Counters(applied=applied, elements=len(rows) - is_first.null_count)
        if lineage_before.length:
            return with_column(rows, LINEAGE, extended_by(rows[LINEAGE.name], number))
        # A record without elements gets no lineage, so it is counted as a record and not as a
        # flattened record.
        lineages = pc.if_else(is_first.is_valid(), extended_by(None, number), None)
        return with_column(rows, LINEAGE, lineages)

    def usable(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are neither invalid nor filtered out."""
        is_invalid = pc.is_valid(rows["reason"])
        # The reason decides first. A row with a reason is a dead letter, whatever ``keep`` is.
        invalid, usable = (
            rows.filter(is_invalid),
            rows.filter(pc.and_(pc.invert(is_invalid), rows["keep"])),
        )
        origin = self._stream.origin
        if origin is None:
            self._finish_records(rows, invalid, usable)
            return usable
        # An old row is the new row of an earlier update, which had its dead letter then.
        if origin.has_old_rows:
            invalid = invalid.filter(pa.array(~are_retractions(invalid)))
        if len(invalid):
            self.counters += Counters(rejected_results=len(invalid))
            if self._stream.apply_order_logs or self._stream.flattened is not None:
                invalid = _first_of_each_record(invalid, origin)
            self.dead_letters += self._plan.dead_letters.of_results(origin, invalid)
        return usable

    def _finish_records(self, rows: pa.Table, invalid: pa.Table, usable: pa.Table) -> None:
        all_elements, invalid_flattened, usable_elements = map(
            _elements_in, (rows, invalid, usable)
        )
        self.counters += Counters.of("dead_lettered", len(invalid), invalid_flattened)
        self.counters += Counters.of(
            "filtered",
            len(rows) - len(invalid) - len(usable),
            all_elements - invalid_flattened - usable_elements,
        )
        if len(invalid):
            topic, source_reasons = self._stream.stream_time.topic, self._stream.source_reasons
            if invalid_flattened:
                # All elements are counted, but the dead-letter table has one row per record, as its
                # source has one message. The rows of a record are adjacent, but can be in two Arrow
                # batches. So the last row of the previous batch can be of the same record.
                record_ids = np.stack([np.asarray(invalid[n]) for n in ("partition", "offset")])
                is_first = np.append(True, np.any(np.diff(record_ids) != 0, axis=0))
                is_first[0] = tuple(record_ids[:, 0].tolist()) != self._last_invalid
                partition, offset = record_ids[:, -1].tolist()
                self._last_invalid = partition, offset
                invalid = invalid.filter(pa.array(is_first))
            dead_letters = self._plan.dead_letters.of_records(topic, invalid, source_reasons)
            self.dead_letters.append(dead_letters)


def _first_of_each_record(invalid: pa.Table, origin: RecordTopics) -> pa.Table:
    """Return the first result of each record and reason.

    A right row of a foreign-key join can have very many results.
    """
    columns = [invalid[name] for name in ("partition", "offset", "reason")]
    columns += [pa.array(origin.topic_indexes(invalid)), pa.array(np.arange(len(invalid)))]
    numbered = pa.table(columns, ["partition", "offset", "reason", "topic", "row"])
    firsts = numbered.group_by(["partition", "offset", "reason", "topic"]).aggregate(
        [("row", "min")]
    )
    return invalid.take(firsts["row_min"].sort())


def _elements_in(rows: pa.Table) -> int:
    """Return the number of flattened records. Other records have no lineage."""
    if LINEAGE.name not in rows.column_names:
        return 0
    return int(pc.count(rows[LINEAGE.name]).as_py())
