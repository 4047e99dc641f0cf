"""The picture of a topology: topics, joins, stores and sinks, and arrows between them.

The pipeline creates it from its topology. Each node and arrow has the calls of the user as texts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

NodeKind = Literal["topic", "join", "store", "sink"]

#: The shape of each kind of node in Mermaid.
_SHAPES: Mapping[str, str] = {
    "topic": "[({})]", "join": "([{}])", "store": "[{}]", "sink": "[({})]"
}  # fmt: skip


@dataclass(frozen=True)
class DrawnNode:
    """One node.

    Attributes:
        id: The identifier in the drawing.
        kind: The kind.
        name: The name of the topic or store, or the call of the join.
        lines: Further lines, for example the window and the steps of a store.
    """

    id: str
    kind: NodeKind
    name: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class DrawnArrow:
    """Records that flow from one node to another.

    Attributes:
        source: The identifier of the first node.
        target: The identifier of the second node.
        steps: The calls between the nodes.
    """

    source: str
    target: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drawing:
    """A topology as nodes and arrows."""

    nodes: tuple[DrawnNode, ...]
    arrows: tuple[DrawnArrow, ...]

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Create a drawing from its JSON fields."""
        nodes = (replace(DrawnNode(**one), lines=tuple(one["lines"])) for one in fields["nodes"])
        arrows = (replace(DrawnArrow(**one), steps=tuple(one["steps"])) for one in fields["arrows"])
        return cls(tuple(nodes), tuple(arrows))

    def to_mermaid(self) -> str:
        """Return the drawing as a Mermaid flowchart."""
        nodes = (
            f"    {node.id}{_SHAPES[node.kind].format(_quoted((node.name, *node.lines)))}"
            for node in self.nodes
        )
        arrows = (
            f"    {arrow.source} -->{_label(arrow.steps)} {arrow.target}" for arrow in self.arrows
        )
        return "\n".join(["flowchart LR", *nodes, *arrows]) + "\n"

    def of_stores(self, is_shown: Callable[[str], bool]) -> Self:
        """Return only the stores with ``is_shown``, with their inputs and output topics.

        An input that is another store is left out, with everything before it.
        """
        stores = [node for node in self.nodes if node.kind == "store"]
        wanted = {store.id for store in stores if is_shown(store.name)}
        hidden = {store.id for store in stores} - wanted
        arrows = [one for one in self.arrows if not hidden & {one.source, one.target}]
        sinks = {node.id for node in self.nodes if node.kind == "sink"}
        wanted |= sinks & {one.target for one in arrows if one.source in wanted}
        # Each round adds the nodes before the wanted ones.
        while before := {one.source for one in arrows if one.target in wanted} - wanted:
            wanted |= before
        nodes = tuple(node for node in self.nodes if node.id in wanted)
        return replace(
            self, nodes=nodes, arrows=tuple(one for one in arrows if one.target in wanted)
        )


def _label(steps: Sequence[str]) -> str:
    return f"|{_quoted(steps)}|" if steps else ""


def _quoted(lines: Sequence[str]) -> str:
    """Return the lines of a label as quoted HTML."""
    text = "\n".join(lines)
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;")):
        text = text.replace(character, entity)
    return '"' + text.replace("\n", "<br>") + '"'
