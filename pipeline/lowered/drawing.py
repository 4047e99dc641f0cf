"""Draw a topology: its nodes and arrows with the calls of the user."""

from collections.abc import Sequence

from oriel.pipeline.language import StoreSource
from oriel.pipeline.lowered.inputs import Input, Join
from oriel.pipeline.lowered.stores import Store
from oriel.pipeline.lowered.written import (
    grouping_call,
    is_changes,
    join_call,
    join_inputs,
    step_calls,
    steps_after_source,
    without_changes,
)
from oriel.storage import Drawing, DrawnArrow, DrawnNode


def drawn(topics: Sequence[str], stores: Sequence[Store], sinks: Sequence[Store]) -> Drawing:
    """Return a drawing with topics, joins and stores as nodes, and row-wise steps on arrows."""
    drawing = _Drawing(topics, stores)
    for number, store in enumerate(stores):
        lines = (store.kind, *step_calls(store.row_steps))
        drawing.nodes.append(DrawnNode(f"store{number}", "store", store.name, lines))
        for place, publication in enumerate(store.publications):
            published = f"sink{number}_{place}"
            drawing.nodes.append(DrawnNode(published, "sink", publication.topic))
            drawing.arrows.append(DrawnArrow(f"store{number}", published))
    for number, sink in enumerate(sinks):
        drawing.nodes.append(DrawnNode(f"sink{number}", "sink", sink.publications[0].topic))
    for name, units in (("store", stores), ("sink", sinks)):
        for number, unit in enumerate(units):
            for origin in unit.inputs:
                is_table = unit.aggregation.is_table
                drawing.reading(origin, f"{name}{number}", is_table=is_table)
    return Drawing(tuple(drawing.nodes), tuple(drawing.arrows))


class _Drawing:
    """The nodes and arrows of a drawing."""

    def __init__(self, topics: Sequence[str], stores: Sequence[Store]) -> None:
        self.nodes = [
            DrawnNode(f"topic{number}", "topic", topic) for number, topic in enumerate(topics)
        ]
        self.arrows: list[DrawnArrow] = []
        #: Topic of a source -> node. A store can also be a source.
        self._sources = {
            StoreSource.of(store.name).topic: f"store{number}"
            for number, store in enumerate(stores)
        }
        self._sources |= {node.name: node.id for node in self.nodes}
        #: Identity of a join -> node. Streams of one join share the node.
        self._joins: dict[int, str] = {}

    def reading(self, stream: Input, target: str, *, is_table: bool = False) -> None:
        """Add the arrow from the source or join of a stream, and all upstream nodes and arrows."""
        is_table = is_table or is_changes(stream)
        stream = without_changes(stream)
        join = stream.join
        if join is None:
            source = self._sources[stream.source.topic]
        else:
            of_table = is_table and not stream.became_table
            source = self._joins.get(id(join)) or self._joined(join, is_table=of_table)
        words = (*steps_after_source(stream, is_table=is_table), grouping_call(stream))
        self.arrows.append(DrawnArrow(source, target, tuple(filter(None, words))))

    def _joined(self, join: Join, *, is_table: bool) -> str:
        node = f"join{len(self._joins)}"
        self.nodes.append(DrawnNode(node, "join", join_call(join, is_table=is_table)))
        self._joins[id(join)] = node
        for side, is_side_table in join_inputs(join):
            self.reading(side, node, is_table=is_side_table)
        return node
