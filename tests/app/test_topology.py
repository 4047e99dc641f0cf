"""Tests of the topologies over HTTP."""

import random
from pathlib import Path
from typing import Any

import pytest

from oriel.app.server import Service
from oriel.app.server.settings import ServiceSettings
from oriel.storage import DataLayout, Drawing, DrawnArrow, DrawnNode
from oriel.storage.monitoring import record_topology
from tests.app.api_client import ApiClient, Served, served
from tests.app.problem_shape import assert_problem
from tests.app.test_access import token_in

#: A join of a topic and of the rows of a store, with an output topic of each store.
DRAWING = Drawing(
    (
        DrawnNode("topic0", "topic", "orders"),
        DrawnNode("topic1", "topic", "users"),
        DrawnNode("store0", "store", "counted", ("no windows",)),
        DrawnNode("store1", "store", "enriched", ("tumbling windows", "filter('n < 2')")),
        DrawnNode("sink0", "sink", "counts"),
        DrawnNode("join0", "join", "join(table 'users')"),
    ),
    (
        DrawnArrow("topic0", "store0", ("group_by(city)",)),
        DrawnArrow("store0", "sink0"),
        DrawnArrow("store0", "join0", ("filter('n > \"1\"')", "select_key(n)")),
        DrawnArrow("topic1", "join0"),
        DrawnArrow("join0", "store1"),
    ),
)
MERMAID = """\
flowchart LR
    topic0[("orders")]
    topic1[("users")]
    store0["counted<br>no windows"]
    store1["enriched<br>tumbling windows<br>filter('n &lt; 2')"]
    sink0[("counts")]
    join0(["join(table 'users')"])
    topic0 -->|"group_by(city)"| store0
    store0 --> sink0
    store0 -->|"filter('n > &quot;1&quot;')<br>select_key(n)"| join0
    topic1 --> join0
    join0 --> store1
"""


def _topologies(response: Any) -> Any:
    assert response.status == 200, response.body
    return response.json["pipelines"]


def test_each_pipeline_has_its_topology(store: Served) -> None:
    """The response has nodes, arrows and a flowchart of each pipeline, by name."""
    layout = DataLayout(store.data)
    record_topology(layout, "shop", DRAWING)
    record_topology(layout, "empty", Drawing((), ()))
    empty, shop = _topologies(store.get("/v1/topology"))
    assert (empty["pipeline"], empty["nodes"], empty["mermaid"]) == ("empty", [], "flowchart LR\n")
    assert shop["pipeline"] == "shop"
    assert shop["started_ms"] > 0
    assert shop["mermaid"] == MERMAID
    assert shop["nodes"][3] == {
        "id": "store1",
        "kind": "store",
        "name": "enriched",
        "lines": ["tumbling windows", "filter('n < 2')"],
    }
    assert shop["arrows"][0] == {
        "source": "topic0",
        "target": "store0",
        "steps": ["group_by(city)"],
    }


def test_a_missing_or_damaged_topology_is_404(store: Served) -> None:
    """Without a readable file, the problem says what to do."""
    assert_problem(store.get("/v1/topology"), 404, "topology-not-found", "Start a pipeline")
    layout = DataLayout(store.data)
    record_topology(layout, "shop", DRAWING)
    (file,) = layout.topologies.iterdir()
    content = file.read_bytes()
    for damaged in (b"", b"[]", b"{}", content[:-30], content.replace(b"orders", b"others")):
        file.write_bytes(damaged)
        assert_problem(store.get("/v1/topology"), 404, "topology-not-found", str(layout.topologies))
    file.write_bytes(content)
    assert len(_topologies(store.get("/v1/topology"))) == 1
    assert_problem(store.get("/v1/topology?x=1"), 400, "unknown-parameter", "x")


@pytest.mark.parametrize(
    ("pattern", "names", "arrows"),
    [
        ("counted", ["orders", "counted", "counts"], 2),
        ("enriched", ["users", "enriched", "join(table 'users')"], 2),
        ("*", [node.name for node in DRAWING.nodes], 5),
    ],
)
def test_a_token_for_some_stores_sees_only_these(
    tmp_path: Path, pattern: str, names: list[str], arrows: int
) -> None:
    """Other stores are left out, with everything before them. A key prefix changes nothing."""
    record_topology(DataLayout(tmp_path), "shop", DRAWING)
    with served(tmp_path) as made:
        made.index()
        file = tmp_path / "tokens.toml"
        bearer = token_in(file, "one", "--store", pattern, "--key-prefix", "a")
        none = token_in(file, "none", "--store", "nothing")
        client = ApiClient(Service(tmp_path, ServiceSettings(tokens=str(file))))
        (seen,) = _topologies(client.get("/v1/topology", [("Authorization", f"Bearer {bearer}")]))
        assert [node["name"] for node in seen["nodes"]] == names
        assert len(seen["arrows"]) == arrows
        ids = {node["id"] for node in seen["nodes"]}
        assert {id_ for one in seen["arrows"] for id_ in (one["source"], one["target"])} == ids
        refused = client.get("/v1/topology", [("Authorization", f"Bearer {none}")])
        assert_problem(refused, 404, "topology-not-found", "no pipeline")
        assert_problem(client.get("/v1/topology"), 401, "unauthorized", "has no token")
        client.service.catalog.close()


def _paths_to(node: str, arrows: list[tuple[str, str]]) -> list[list[str]]:
    """Return every path that ends at a node."""
    before = [source for source, target in arrows if target == node]
    return [[node], *([*path, node] for source in before for path in _paths_to(source, arrows))]


def test_random_drawings_show_what_reaches_a_shown_store() -> None:
    """A node is shown if a path without hidden stores leads to a shown store, or if it is a sink.

    The model follows each path.
    """
    chance = random.Random(5)
    for _ in range(300):
        kinds = [chance.choice(("topic", "join", "store", "store")) for _ in range(7)]
        pairs = [(a, b) for a in range(7) for b in range(a + 1, 7) if chance.random() < 0.25]
        pairs = [(a, b) for a, b in pairs if kinds[b] != "topic"]
        nodes = [DrawnNode(str(at), kind, f"n{at}") for at, kind in enumerate(kinds)]  # type: ignore[arg-type]
        sources = chance.sample([at for at in range(7) if kinds[at] == "store"] or [0], 1)
        nodes.append(DrawnNode("7", "sink", "out"))
        pairs += [(source, 7) for source in sources]
        arrows = [(str(a), str(b)) for a, b in pairs]
        hidden = {node.name for node in nodes if node.kind == "store" and chance.random() < 0.5}
        hidden_ids = {node.id for node in nodes if node.name in hidden}
        stores = {node.id for node in nodes if node.kind == "store"} - hidden_ids
        ends = stores | {"7"} if stores & {str(source) for source in sources} else stores
        expected = {
            each
            for end in ends
            for path in _paths_to(end, arrows)
            if not hidden_ids & set(path)
            for each in path
        }
        drawing = Drawing(tuple(nodes), tuple(DrawnArrow(a, b) for a, b in arrows))
        shown = drawing.of_stores(lambda name, names=hidden: name not in names)  # type: ignore[misc]
        assert {node.id for node in shown.nodes} == expected
        assert [(one.source, one.target) for one in shown.arrows] == [
            (a, b) for a, b in arrows if {a, b} <= expected
        ]
