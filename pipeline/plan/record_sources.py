"""Which record of a log each record of a sink is, as a text that is the same in every run.

    orders/3/1042                a record: topic, partition, offset
    orders/3/1042/0              its first element, where the stream is flattened
    orders/3/1042/0/2            an element of that, flattened behind a lookup
    views/0/5+clicks/1/7         a pair of two streams' records; of three there are three
    views/0/5+clicks/1/7/0       its first element; so of all that is below
    prices/0/9                   of joined tables, the one whose record made the update
    prices/0/9/1                 of a grouped table, the row that the record put there; /0: the row
                                 that it took away; of the n-th joined table /2n and /2n+1, from 0

A topic that a sink reads more than once is named as its clocks are: ``orders#2``. So no two records
of a sink have one text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.hops import PartitionNumbers
from oriel.pipeline.language import (
    Input,
)
from oriel.pipeline.plan.inputs import InputPlan
from oriel.pipeline.plan.store import StorePlans
from oriel.pipeline.windows import Ints, Places, numbered_places


@dataclass(frozen=True)
class InputSource:
    """What the records of an input of a sink are, or of a side of its joins of streams.

    ``places`` is how they are told apart; ``logs`` what their topic is called, or the topics of
    tables whose updates they are; ``sides`` are those of a join of streams, or the streams that
    were merged (``are_merged``). ``names_numbers``: several may have one place; of a topic's record
    there is one update, but perhaps two changes. ``results``: so many of the numbers tell the
    results of a join apart, those behind them elements of these.
    """

    places: Places
    logs: tuple[str, ...] = ()
    sides: "tuple[InputSource, ...]" = ()
    names_numbers: bool = True
    are_merged: bool = False
    results: int = 0

    def texts(self, rows: pa.Table) -> pa.Array:
        """The text of each of the input's ``rows``: partition, offset, perhaps an element's."""
        partition, offset = (np.asarray(rows[name]) for name in ("partition", "offset"))
        return self._texts(partition.astype(np.int64), offset, self.places.read(rows))

    def _texts(self, partition: Ints, offset: Ints, numbers: Ints) -> pa.Array:
        if self.sides:
            texts_of = self._merged_texts if self.are_merged else self._joined_texts
            texts = texts_of(partition, offset, numbers[:, : self.results])
            return _joined(texts, *numbers[:, self.results :].T)
        # Of a pair that lacks this side, what stands here is not read.
        log = np.clip(self.places.log_of(numbers), 0, len(self.logs) - 1)
        beside = numbers.T if self.names_numbers else numbers[:, self.results :].T
        return _joined(pa.array(self.logs).take(pa.array(log)), partition, offset, *beside)

    def _merged_texts(self, partition: Ints, offset: Ints, numbers: Ints) -> pa.Array:
        texts, log = pa.nulls(len(partition), pa.string()), self.places.log_of(numbers)
        end = 0
        for stream in self.sides:
            begin, end = end, end + stream.places.logs
            own = numbers[:, 1 : 1 + stream.places.numbers]
            of_stream = stream._texts(partition, offset, own)  # noqa: SLF001
            texts = pc.if_else(pa.array((log >= begin) & (log < end)), of_stream, texts)
        return texts

    def _joined_texts(self, partition: Ints, offset: Ints, numbers: Ints) -> pa.Array:
        left, right = self.sides
        place = numbers[:, left.places.numbers]
        has_left = -numbers[:, 0] < left.places.logs
        has_right = ~has_left | (place != 0)
        of_right = numbered_places(place)
        of_left = left._texts(partition, offset, numbers[:, : left.places.numbers])  # noqa: SLF001
        right_texts = right._texts(  # noqa: SLF001
            np.where(has_left, of_right[0], partition),
            np.where(has_left, of_right[1], offset),
            numbers[:, left.places.numbers + 1 :],
        )
        both = pc.binary_join_element_wise(of_left, right_texts, "+")
        alone = pc.if_else(pa.array(has_left), of_left, right_texts)
        return pc.if_else(pa.array(has_left & has_right), both, alone)


def input_sources(plans: StorePlans) -> tuple[InputSource, ...]:
    """What the records of each input of a sink are."""
    return tuple(map(_source_of, plans.store.inputs, plans.inputs))


def _source_of(definition: Input, plan: InputPlan) -> InputSource:
    front = plan.join
    while front is not None and front.stage.operator.keeps_records:
        front = front.sides[0].join
    places, join = definition.places, definition.creating_join
    if front is None or join is None:
        return InputSource(places, (plan.stream.clock.name,))
    results = _after_creating_join(definition).places_before_steps.numbers
    sides = tuple(map(_source_of, join.inputs, front.sides))
    if join.is_pair:
        return InputSource(places, sides=sides, are_merged=join.merges, results=results)
    logs = tuple(log for side in sides for log in side.logs)
    is_named = join.are_changes or any(side.places.numbers for side in sides)
    return InputSource(places, logs, names_numbers=is_named, results=results)


def _after_creating_join(stream: Input) -> Input:
    """The stream whose own steps read the results that its records are made of."""
    join = stream.join
    if join is None or join is stream.creating_join:
        return stream
    return _after_creating_join(join.left)


def record_sources(rows: pa.Table, inputs: Sequence[InputSource]) -> pa.Array:
    """The text of each record of a sink; partitions have the engine's numbers."""
    number_of_row = np.asarray(rows["partition"]) % len(inputs)
    rows = PartitionNumbers(len(inputs)).restored(rows)
    if len(inputs) == 1:
        return inputs[0].texts(rows)
    by_input = [np.flatnonzero(number_of_row == number) for number in range(len(inputs))]
    texts = [
        each.texts(rows.take(pa.array(of_input)))
        for each, of_input in zip(inputs, by_input, strict=True)
    ]
    return pa.concat_arrays(texts).take(pa.array(np.argsort(np.concatenate(by_input))))


def _joined(topic: pa.Array, *numbers: Ints) -> pa.Array:
    return pc.binary_join_element_wise(
        topic, *(pa.array(n).cast(pa.string()) for n in numbers), "/"
    )
