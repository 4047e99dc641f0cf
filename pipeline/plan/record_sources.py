"""Which record of a log each record of a sink is, as a text that is the same in every run.

    orders/3/1042                a record: topic, partition, offset
    orders/3/1042/0              its first element, where the stream is flattened
    views/0/5+clicks/1/7         a pair of two streams' records
    prices/0/9                   of two tables, the one whose record made the update

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
    """One input of a sink: what ``left`` and ``right`` topics are called, if there is a right one.

    ``pairs``: its records are of a join of streams, else of updates of two tables.
    """

    left: str
    right: str | None
    pairs: bool

    def texts(self, rows: pa.Table) -> pa.Array:
        """The text of each of the input's ``rows``: partition, offset, perhaps suborder."""
        place = rows["partition"], rows["offset"]
        if self.right is None:
            names = ("suborder",) if SUBORDER.name in rows.column_names else ()
            return _joined(self.left, *place, *(rows[name] for name in names))
        suborder = np.asarray(rows[SUBORDER.name])
        of_left, of_right = _joined(self.left, *place), _joined(self.right, *place)
        if not self.pairs:
            return pc.if_else(pa.array(suborder == 0), of_left, of_right)
        is_pair = (suborder != LEFT_ALONE) & (suborder != RIGHT_ALONE)
        partner = _joined(self.right, *map(pa.array, partner_places(suborder)))
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
        right = None if front is None else front.sides[-1].stamp.clock.name
        pairs = isinstance(pairing_join(definition), StreamJoin)
        found.append(InputSource(plan.stamp.clock.name, right, pairs))
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


def _joined(topic: str, *numbers: pa.ChunkedArray | pa.Array) -> pa.Array:
    texts = (pc.cast(each, pa.string()) for each in numbers)
    joined = pc.binary_join_element_wise(topic, *texts, "/", null_handling="skip")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
