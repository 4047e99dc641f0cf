"""Draw a topology as a Mermaid flowchart."""

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


def drawn(topics: Sequence[str], stores: Sequence[Store], sinks: Sequence[Store]) -> str:
    """Return a flowchart with topics, joins and stores as nodes, and row-wise steps on arrows."""
    drawing = _Drawing(topics, stores)
    for number, store in enumerate(stores):
        drawing.node(f"store{number}", "[{}]", store.name, store.kind, *step_calls(store.row_steps))
        for place, publication in enumerate(store.publications):
            published = drawing.node(f"sink{number}_{place}", "[({})]", publication.topic)
            drawing.arrow(f"store{number}", published)
    for number, sink in enumerate(sinks):
        drawing.node(f"sink{number}", "[({})]", sink.publications[0].topic)
    for name, units in (("store", stores), ("sink", sinks)):
        for number, unit in enumerate(units):
            for origin in unit.inputs:
                is_table = unit.aggregation.is_table
                drawing.reading(origin, f"{name}{number}", is_table=is_table)
    return "\n".join(drawing.lines) + "\n"


class _Drawing:
    """The lines of a flowchart, and the names of its nodes."""

    def __init__(self, topics: Sequence[str], stores: Sequence[Store]) -> None:
        self.lines = ["flowchart LR"]
        #: Topic of a source -> node. A store can also be a source.
        self._sources = {
            StoreSource.of(store.name).topic: f"store{number}"
            for number, store in enumerate(stores)
        }
        for number, topic in enumerate(topics):
            self._sources[topic] = self.node(f"topic{number}", "[({})]", topic)
        #: Identity of a join -> node. Streams of one join share the node.
        self._joins: dict[int, str] = {}

    def node(self, name: str, shape: str, *label: object) -> str:
        """Add a node and return its name."""
        self.lines.append(f"    {name}{shape.format(_quoted(label))}")
        return name

    def arrow(self, source: str, target: str, *label: object) -> None:
        """Add an arrow between two nodes."""
        text = f"|{_quoted(label)}|" if label else ""
        self.lines.append(f"    {source} -->{text} {target}")

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
        self.arrow(source, target, *filter(None, words))

    def _joined(self, join: Join, *, is_table: bool) -> str:
        label = join_call(join, is_table=is_table)
        node = self.node(f"join{len(self._joins)}", "([{}])", label)
        self._joins[id(join)] = node
        for side, is_side_table in join_inputs(join):
            self.reading(side, node, is_table=is_side_table)
        return node


def _quoted(lines: tuple[object, ...]) -> str:
    """Return the lines of a label as quoted HTML."""
    text = "\n".join(map(str, lines))
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        text = text.replace(character, entity)
    return '"' + text.replace("\n", "<br>") + '"'
