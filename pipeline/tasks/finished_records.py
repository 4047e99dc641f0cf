"""The records of a stream that end before the next operator: invalid, filtered or flattened ones.

Invalid records become dead letters. Each record that ends here is counted once. A record that is
flattened ends here, because its flattened records continue instead of it.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.dead_letters import Origin
from oriel.pipeline.hops import FIRST_ELEMENT
from oriel.pipeline.plan import BatchPlan, StreamPlan
from oriel.pipeline.tasks.reports import Counters
from oriel.pipeline.windows import LINEAGE, extended_by, takes_away, with_column


class FinishedRecords:
    """Counts the records of one task that end here, and collects their dead letters.

    Results of a join are not records. So an invalid or late result is counted as a result, and a
    filtered result is not counted.
    """

    def __init__(self, plan: BatchPlan, stream: StreamPlan) -> None:
        self._plan = plan
        self._stream = stream
        #: The record (partition, offset) of the last invalid row.
        self._last_bad: tuple[int, int] | None = None
        #: The index of the next row among the flattened records of one record.
        self._next_element = 0
        self.counters = Counters()
        self.dead_letters: list[pa.Table] = []

    def count_input(self, rows: pa.Table) -> None:
        """Count the records of a source. Several flattened records of one record count once."""
        further = 0
        if FIRST_ELEMENT.name in rows.column_names:
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
        in_front = self._stream.flattened
        if in_front is None or not len(rows):
            return rows
        is_first = rows[FIRST_ELEMENT.name].combine_chunks()
        is_further = ~np.asarray(pc.fill_null(is_first, fill_value=True))
        row = np.arange(len(rows))
        number = row - np.maximum.accumulate(np.where(is_further, -self._next_element, row))
        self._next_element = int(number[-1]) + 1
        if self._stream.origin is None and in_front.length:
            self.counters += Counters(elements=int(is_further.sum()))
        elif self._stream.origin is None:
            applied = pc.sum(is_first, min_count=0).as_py()
            self.counters += Counters(applied=applied, elements=len(rows) - is_first.null_count)
        if in_front.length:
            return with_column(rows, LINEAGE, extended_by(rows[LINEAGE.name], number))
        lineages = pc.if_else(is_first.is_valid(), extended_by(None, number), None)
        return with_column(rows, LINEAGE, lineages)

    def usable(self, rows: pa.Table) -> pa.Table:
        """Return the rows that are neither invalid nor filtered out."""
        is_bad = pc.is_valid(rows["reason"])
        bad, usable = rows.filter(is_bad), rows.filter(pc.and_(pc.invert(is_bad), rows["keep"]))
        if self._stream.origin is None:
            self._finish_records(rows, bad, usable)
        else:
            self._finish_results(bad, self._stream.origin)
        return usable

    def _finish_records(self, rows: pa.Table, bad: pa.Table, usable: pa.Table) -> None:
        all_elements, bad_elements, usable_elements = map(_elements_in, (rows, bad, usable))
        self.counters += Counters.of("dead_lettered", len(bad), bad_elements)
        self.counters += Counters.of(
            "filtered",
            len(rows) - len(bad) - len(usable),
            all_elements - bad_elements - usable_elements,
        )
        if len(bad):
            topic, source_reasons = self._stream.clock.topic, self._stream.source_reasons
            if bad_elements:
                bad = self._one_a_record(bad)
            letters = self._plan.dead_letters.of_records(topic, bad, source_reasons)
            self.dead_letters.append(letters)

    def _finish_results(self, bad: pa.Table, origin: Origin) -> None:
        if origin.subtracts:
            bad = bad.filter(pa.array(~takes_away(bad)))
        if len(bad):
            self.counters += Counters(rejected_results=len(bad))
            if self._stream.effect_logs or self._stream.flattened is not None:
                bad = _one_of_each_record(bad, origin)
            self.dead_letters += self._plan.dead_letters.of_results(origin, bad)

    def _one_a_record(self, bad: pa.Table) -> pa.Table:
        """Return the first invalid row of each record, because a record has one dead letter.

        The rows of a record are adjacent, but can be in two Arrow batches.
        """
        places = np.stack([np.asarray(bad[name]) for name in ("partition", "offset")])
        is_first = np.append(True, np.any(np.diff(places) != 0, axis=0))
        is_first[0] = tuple(places[:, 0].tolist()) != self._last_bad
        partition, offset = places[:, -1].tolist()
        self._last_bad = partition, offset
        return bad.filter(pa.array(is_first))


def _one_of_each_record(bad: pa.Table, origin: Origin) -> pa.Table:
    """Return the first result of each record and reason.

    A right row of a foreign-key join can have very many results.
    """
    columns = [bad[name] for name in ("partition", "offset", "reason")]
    columns += [pa.array(origin.topic_numbers(bad)), pa.array(np.arange(len(bad)))]
    numbered = pa.table(columns, ["partition", "offset", "reason", "topic", "row"])
    firsts = numbered.group_by(["partition", "offset", "reason", "topic"]).aggregate(
        [("row", "min")]
    )
    return bad.take(firsts["row_min"].sort())


def _elements_in(rows: pa.Table) -> int:
    """Return the number of flattened records. Other records have no lineage."""
    if LINEAGE.name not in rows.column_names:
        return 0
    return int(pc.count(rows[LINEAGE.name]).as_py())
