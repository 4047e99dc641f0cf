"""A topology as a drawing in Mermaid's language."""

from collections.abc import Sequence

from oriel.pipeline.language.topology.inputs import Input, Join, Side, sides_of
from oriel.pipeline.language.topology.sources import StoreSource
from oriel.pipeline.language.topology.steps import grouping_text
from oriel.pipeline.language.topology.stores import Store


def drawn(topics: Sequence[str], stores: Sequence[Store], sinks: Sequence[Store]) -> str:
    """Topics, joins and stores, with the row-wise steps on the arrows between them."""
    drawing = _Drawing(topics, stores)
    for number, store in enumerate(stores):
        drawing.node(f"store{number}", "[{}]", store.name, store.kind, *store.row_steps)
        for place, publication in enumerate(store.publications):
            published = drawing.node(f"sink{number}_{place}", "[({})]", publication.topic)
            drawing.arrow(f"store{number}", published)
    for number, sink in enumerate(sinks):
        drawing.node(f"sink{number}", "[({})]", sink.publications[0].topic)
    for name, units in (("store", stores), ("sink", sinks)):
        for number, unit in enumerate(units):
            for origin in unit.inputs:
                drawing.reading(origin, f"{name}{number}")
    return "\n".join(drawing.lines) + "\n"


class _Drawing:
    """The lines of a drawing, and which node is which."""

    def __init__(self, topics: Sequence[str], stores: Sequence[Store]) -> None:
        self.lines = ["flowchart LR"]
        #: By a ``Source``'s topic; stores are sources, too.
        self._sources = {
            StoreSource.of(store.name).topic: f"store{number}"
            for number, store in enumerate(stores)
        }
        for number, topic in enumerate(topics):
            self._sources[topic] = self.node(f"topic{number}", "[({})]", topic)
        #: By identity: streams behind one join have one.
        self._joins: dict[int, str] = {}

    def node(self, name: str, shape: str, *label: object) -> str:
        """Draw a node; its name."""
        self.lines.append(f"    {name}{shape.format(_quoted(label))}")
        return name

    def arrow(self, source: str, target: str, *label: object) -> None:
        """Draw an arrow between nodes."""
        text = f"|{_quoted(label)}|" if label else ""
        self.lines.append(f"    {source} -->{text} {target}")

    def reading(self, stream: Input | Side, target: str) -> None:
        """Draw the arrow from what a stream reads, with its steps, and what is in front of it."""
        join = stream.join
        if join is None:
            source = self._sources[stream.source.topic]
        else:
            source = self._joins.get(id(join)) or self._joined(join)
        grouping = (f"group_by({grouping_text(stream.group_by)})",) if stream.group_by else ()
        self.arrow(source, target, *stream.steps, *grouping)

    def _joined(self, join: Join) -> str:
        node = self.node(f"join{len(self._joins)}", "([{}])", join)
        self._joins[id(join)] = node
        for side in sides_of(join):
            self.reading(side, node)
        return node


def _quoted(lines: tuple[object, ...]) -> str:
    """The lines of a label, which a browser reads as HTML."""
    text = "\n".join(map(str, lines))
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        text = text.replace(character, entity)
    return '"' + text.replace("\n", "<br>") + '"'
