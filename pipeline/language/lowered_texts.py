"""The texts of a topology that depend on how it is lowered: its plans, its drawing and messages.

Only this module imports the lowering, inside its functions, because the lowering imports the nodes.
For the same reason, its arguments have no types. Calls that create nodes do not use it.
"""

# ruff: noqa: PLC0415
from typing import Any


def described(topology: Any) -> str:
    """Return a topology as text, for ``Topology.describe``."""
    from oriel.pipeline.lowered import lower

    return lower(topology).describe()


def drawn(topology: Any) -> str:
    """Return a topology as a Mermaid flowchart."""
    from oriel.pipeline.lowered import lower

    return lower(topology).drawing().to_mermaid()


def explained(topology: Any) -> str:
    """Return the logical and the physical plan of a topology."""
    from oriel.pipeline.explained import explain

    return explain(topology)


def node_text(node: Any) -> str:
    """Return the calls that created a node, with its grouping."""
    from oriel.pipeline.lowered import lower_node

    return str(lower_node(node))


def stream_text(nodes: Any) -> str:
    """Return the calls that created a stream. A merged stream has several nodes."""
    from oriel.pipeline.lowered import stream_text

    return stream_text(nodes)


def table_text(table: Any) -> str:
    """Return the calls that created a table."""
    from oriel.pipeline.lowered import table_text

    return table_text(table)
