"""The Python examples of the pages run: each page from top to bottom, in one namespace.

What builds a topology is also given to the test driver, which checks every step that needs
no Spark.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from oriel import Topology
from oriel.testing import TopologyTestDriver
from tests.tidy.project import ROOT, files

_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def _blocks(page: Path) -> list[tuple[int, str]]:
    """Each Python block with the number of the line before it."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[1]) for m in _BLOCK.finditer(text)]


_PAGES = [page for page in files() if page.suffix == ".md" and _blocks(page)]


def _needs_spark(topology: Topology) -> bool:
    """Whether a step has an expression, or may have one."""
    inputs = [one for store in topology.stores for one in store.inputs]
    joins = [one.join for one in inputs if one.join is not None]
    in_front = [side.steps for join in joins for side in (join.left, join.right)]
    return any([*in_front, *(one.steps for one in inputs)])


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run(page: Path) -> None:
    """Every Python block of a page runs, and the topologies that it defines fit together."""
    scope: dict[str, Any] = {}
    for line, block in _blocks(page):
        scope.pop("topology", None)
        # Errors and failed asserts then tell the line of the page.
        exec(compile("\n" * line + block, str(page), "exec"), scope)  # noqa: S102
        topology = scope.get("topology")
        if isinstance(topology, Topology) and not _needs_spark(topology):
            TopologyTestDriver(topology)


def test_pages_with_examples_are_found() -> None:
    """The pages for users are among those whose examples run."""
    found = {page.relative_to(ROOT).as_posix() for page in _PAGES}
    assert {"README.md", "docs/topology.md", "docs/testing.md"} <= found
