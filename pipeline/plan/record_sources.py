"""The source of each record of a sink, as a string that is the same in every run.

    orders/3/1042                a record: topic, partition, offset
    orders/3/1042/0              its first flattened record
    orders/3/1042/0/2            the third flattened record of this one
    orders/3/1042/0              the first row of process after this record of a key
    views/0/5+clicks/1/7         a result of a stream join: the left and the right record
    views/0/5+clicks/1/7/0       its first flattened record, and so on for all results below
    prices/0/9                   an update of joined tables: the record of the update
    prices/0/9/1                 a row of a grouped table: 1 for the new row of the record, 0 for
                                 the old row

If a sink reads a topic more than once, the topics have different names, for example ``orders#2``.
So all records of a sink have different strings.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.lowered import Input
from oriel.pipeline.plan.inputs import InputPlan
from oriel.pipeline.plan.store import StorePlans
from oriel.pipeline.stage_columns import PartitionIndexes
from oriel.pipeline.windows import Ints, Lineage, right_records


@dataclass(frozen=True)
class InputSource:
    """How the records of an input of a sink, or of a join, are identified.

    Attributes:
        lineage: The form of their lineages.
        topic: The name of the topic, for records of a source.
        sides: The inputs of the join that creates them, or of merged streams or joined tables.
        is_pair: True for a stream join, whose results are identified by both records.
        indexes: The number of indexes at the end of the lineage that are not of ``sides``.
    """

    lineage: Lineage
    topic: str = ""
    sides: "tuple[InputSource, ...]" = ()
    is_pair: bool = False
    indexes: int = 0

    def texts(self, rows: pa.Table) -> pa.Array:
        """Return the source of each of the input's ``rows``."""
        partition, offset = (np.asarray(rows[name], np.int64) for name in ("partition", "offset"))
        lineages = self.lineage.read(rows)
        # If the records are from several logs, the first index of a lineage is the log.
        log = lineages[:, 0] if self.lineage.has_log else np.zeros(len(rows), dtype=np.int64)
        return self._texts(partition, offset, log, lineages[:, self.lineage.has_log :])

    def _texts(self, partition: Ints, offset: Ints, log: Ints, in_log: Ints) -> pa.Array:
        """Return the sources of rows. ``in_log`` has their indexes without the log."""
        if not self.sides:
            texts = pa.repeat(self.topic, len(partition))
            return _slash_joined(texts, partition, offset, *in_log[:, : self.indexes].T)
        if self.is_pair:
            return self._join_strings(partition, offset, log, in_log)
        texts, first = pa.nulls(len(partition), pa.string()), 0
        for side in self.sides:
            # The logs of the inputs follow each other. With 2 logs on the left and 1 on the right,
            # log 2 is the right one. All rows are computed for each input, and only the rows of the
            # input are used.
            of_side = (log >= first) & (log < first + side.lineage.logs)
            texts_of_side = side._texts(partition, offset, log - first, in_log)  # noqa: SLF001
            length = side.lineage.length_in_log
            further = in_log[:, length : length + self.indexes].T
            texts = pc.if_else(pa.array(of_side), _slash_joined(texts_of_side, *further), texts)
            first += side.lineage.logs
        return texts

    def _join_strings(self, partition: Ints, offset: Ints, log: Ints, in_log: Ints) -> pa.Array:
        left, right = self.sides
        forms = left.lineage, right.lineage
        (right_partition, right_offset), right_log, of_right = right_records(forms, in_log)
        # An unmatched right record is itself the source record of the result, so the log of the
        # result is one of the logs on the right. An unmatched left record has the right offset -1.
        has_left = log < left.lineage.logs
        has_right = ~has_left | (right_offset >= 0)
        left_texts = left._texts(partition, offset, log, in_log)  # noqa: SLF001
        right_texts = right._texts(  # noqa: SLF001
            np.where(has_left, right_partition, partition),
            np.where(has_left, right_offset, offset),
            right_log,
            of_right,
        )
        both = pc.binary_join_element_wise(left_texts, right_texts, "+")
        unmatched = pc.if_else(pa.array(has_left), left_texts, right_texts)
        texts = pc.if_else(pa.array(has_left & has_right), both, unmatched)
        length = left.lineage.joined_length_in_log(right.lineage)
        return _slash_joined(texts, *in_log[:, length : length + self.indexes].T)


def input_sources(plans: StorePlans) -> tuple[InputSource, ...]:
    """Return how the records of each input of a sink are identified."""
    return tuple(map(_source_of, plans.store.inputs, plans.inputs))


def _source_of(definition: Input, plan: InputPlan) -> InputSource:
    created = plan.join
    # An operator that keeps the records of its left input does not change their source. It can have
    # a stream time of its own, whose name is not the topic.
    while created is not None and created.stage.operator.keeps_records:
        plan = created.sides[0]
        created = plan.join
    lineage, join = definition.lineage, definition.creating_join
    if created is None or join is None:
        return InputSource(lineage, topic=plan.stream.stream_time.name, indexes=lineage.length)
    if join.is_pair and not join.merges:
        left, right = map(_source_of, join.inputs, created.sides)
        indexes = lineage.length_in_log - left.lineage.joined_length_in_log(right.lineage)
        return InputSource(lineage, sides=(left, right), is_pair=True, indexes=indexes)
    if join.log_inputs == join.inputs:
        sides = tuple(map(_source_of, join.inputs, created.sides))
    else:
        # An update of a foreign-key join has the source of a table, not of a response.
        responses = created.sides[1].join
        assert responses is not None, "a foreign-key join reads responses"
        left, named = map(_source_of, join.log_inputs, (created.sides[0], responses.sides[1]))
        # A record of the right table updates several rows.
        extended = named.lineage.extended()
        sides = left, replace(named, lineage=extended, indexes=named.indexes + 1)
    longest = max(side.lineage.length_in_log for side in sides)
    return InputSource(lineage, sides=sides, indexes=lineage.length_in_log - longest)


def record_sources(rows: pa.Table, inputs: Sequence[InputSource]) -> pa.Array:
    """Return the source of each record of a sink. Partitions are the operator's indexes."""
    input_of_row = np.asarray(rows["partition"]) % len(inputs)
    rows = PartitionIndexes(len(inputs)).restored(rows)
    if len(inputs) == 1:
        return inputs[0].texts(rows)
    by_input = [np.flatnonzero(input_of_row == number) for number in range(len(inputs))]
    texts = [
        each.texts(rows.take(pa.array(of_input)))
        for each, of_input in zip(inputs, by_input, strict=True)
    ]
    # ``by_input`` is a permutation of the rows. Its argsort is the inverse permutation, which
    # restores their order.
    return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(by_input))))


def _slash_joined(topic: pa.Array, *numbers: Ints) -> pa.Array:
    return pc.binary_join_element_wise(
        topic, *(pa.array(n).cast(pa.string()) for n in numbers), "/"
    )


def header_texts(values: pa.ChunkedArray) -> list[bytes | None]:
    """Return the values of a column as texts of a header, None for null. Bytes are unchanged."""
    column = values.combine_chunks()
    # Arrow casts bytes to a string only if they are UTF-8.
    column = column if pa.types.is_binary(column.type) else column.cast(pa.string())
    texts: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return texts
