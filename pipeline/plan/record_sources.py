"""Which record of a log each record of a sink is, as a text that is the same in every run.

    orders/3/1042                a record: topic, partition, offset
    orders/3/1042/0              its first element, where the stream is flattened
    views/0/5+clicks/1/7         a pair of two streams' records
    prices/0/9                   of joined tables, the one whose record made the update

A topic that a sink reads more than once is named as its clocks are: ``orders#2``. So no two records
of a sink have one text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oriel.pipeline.hops import PartitionNumbers
from oriel.pipeline.language import StreamJoin, pairing_join
from oriel.pipeline.plan.store import StorePlans
from oriel.pipeline.windows import LEFT_ALONE, RIGHT_ALONE, SUBORDER, partner_places


@dataclass(frozen=True)
class InputSource:
    """One input of a sink: what the topics are called whose records its own are made of.

    ``pairs``: its records are of a join of two streams, else of updates of tables if there are
    several topics.
    """

    topics: tuple[str, ...]
    pairs: bool

    def texts(self, rows: pa.Table) -> pa.Array:
        """The text of each of the input's ``rows``: partition, offset, perhaps suborder."""
        place = rows["partition"], rows["offset"]
        if len(self.topics) == 1:
            names = ("suborder",) if SUBORDER.name in rows.column_names else ()
            return _joined(self.topics[0], *place, *(rows[name] for name in names))
        if not self.pairs:
            topic = pa.array(self.topics).take(rows[SUBORDER.name])
            return _joined(topic, *place)
        left, right = self.topics
        suborder = np.asarray(rows[SUBORDER.name])
        of_left, of_right = _joined(left, *place), _joined(right, *place)
        is_pair = (suborder != LEFT_ALONE) & (suborder != RIGHT_ALONE)
        partner = _joined(right, *map(pa.array, partner_places(suborder)))
        pair = pc.binary_join_element_wise(of_left, partner, "+")
        alone = pc.if_else(pa.array(suborder == RIGHT_ALONE), of_right, of_left)
        return pc.if_else(pa.array(is_pair), pair, alone)


def input_sources(plans: StorePlans) -> tuple[InputSource, ...]:
    """What the records of each input of a sink are."""
    found = []
    for definition, plan in zip(plans.store.inputs, plans.inputs, strict=True):
        front = plan.join
        while front is not None and front.stage.keeps_records:
            front = front.sides[0].join
        others = () if front is None else tuple(s.stamp.clock.name for s in front.sides[1:])
        pairs = isinstance(pairing_join(definition), StreamJoin)
        found.append(InputSource((plan.stamp.clock.name, *others), pairs))
    return tuple(found)


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


def _joined(topic: str | pa.ChunkedArray, *numbers: pa.ChunkedArray | pa.Array) -> pa.Array:
    texts = (pc.cast(each, pa.string()) for each in numbers)
    joined = pc.binary_join_element_wise(topic, *texts, "/", null_handling="skip")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
