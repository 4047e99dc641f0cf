"""Each call of the language creates one node, and lowers nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from oriel import JoinWindows, StreamsBuilder, count
from oriel.pipeline.lowered import lowering

WITHIN = JoinWindows.of_time_difference_with_no_grace(5)
BUILDER = StreamsBuilder()
STREAM = BUILDER.stream("s", "v INT")
OTHER = BUILDER.stream("o", "w INT")
TABLE = BUILDER.table("t", "x INT")
RIGHT = BUILDER.table("r", "y INT")
JOINED = TABLE.join(RIGHT)
VERSIONED = BUILDER.versioned_table("h", "z INT", 100)
GLOBAL = BUILDER.global_table("g", "u INT")
(LEFT_NODE,), (OTHER_NODE,) = STREAM.origins, OTHER.origins


@pytest.mark.parametrize(
    ("call", "children"),
    [
        (lambda: STREAM.join(OTHER, WITHIN).origins[0], [LEFT_NODE, OTHER_NODE]),
        (lambda: STREAM.left_join(TABLE).origins[0], [LEFT_NODE, TABLE.node]),
        (lambda: STREAM.join(VERSIONED, grace_ms=5).origins[0], [LEFT_NODE, VERSIONED.origin]),
        (lambda: STREAM.join(GLOBAL, key="v").origins[0], [LEFT_NODE, GLOBAL.origin]),
        (lambda: VERSIONED.newest().node, [VERSIONED.origin]),
        (lambda: TABLE.outer_join(RIGHT).node, [TABLE.node, RIGHT.node]),
        (lambda: TABLE.join(RIGHT, foreign_key="x").node, [TABLE.node, RIGHT.node]),
        (lambda: JOINED.join(RIGHT, foreign_key="x").node, [JOINED.node, RIGHT.node]),
        (lambda: RIGHT.join(JOINED, foreign_key="y").node, [RIGHT.node, JOINED.node]),
        (lambda: JOINED.to_stream().origins[0], [JOINED.node]),
        (lambda: JOINED.group_by("x").origin, [JOINED.node]),
        (lambda: STREAM.group_by_key().count().as_table("join").node, [LEFT_NODE]),
    ],
)
def test_a_call_creates_an_operation_over_its_operands(
    call: Callable[[], Any], children: list[object]
) -> None:
    """The children are the nodes of the operands, and not inputs that are derived from them."""
    assert list(call().operation.children) == children


def test_no_call_lowers_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topology is built without the lowering, which its texts need."""
    builder = StreamsBuilder()
    with monkeypatch.context() as without_lowering:
        without_lowering.setattr(lowering, "_Lowering", None)
        table = builder.table("t", "x INT").join(builder.table("r", "y INT"), foreign_key="x")
        found = builder.stream("s", "v INT").join(table.filter("x > 1"))
        found.left_join(builder.global_table("g", "u INT"), key="v").to("found")
        found.group_by("v").aggregate(n=count()).filter("n > 1").materialize("counted")
        table.materialize("joined")
        topology = builder.build()
        with pytest.raises(TypeError):
            topology.describe()
    assert "foreign_key=x" in topology.describe()
