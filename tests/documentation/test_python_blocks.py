"""The Python examples of the pages run: each page from top to bottom, in one namespace.

What builds a topology is also given to the test driver, which checks every step that needs
no Spark.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from oriel import Topology
from oriel.pipeline.lowered import Input, lower
from oriel.testing import TopologyTestDriver
from tests.documentation.pages import Block, blocks, pages
from tests.tidy.project import ROOT


def _python_blocks(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language == "python" and not block.note]


_PAGES = [page for page in pages() if _python_blocks(page)]


def _needs_spark(topology: Topology) -> bool:
    """Whether a step has an expression, or may have one."""
    return any(_has_steps(each) for store in lower(topology).stores for each in store.inputs)


def _has_steps(stream: Input) -> bool:
    sides = () if stream.join is None else stream.join.inputs
    return bool(stream.steps) or any(map(_has_steps, sides))


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every Python block of a page runs, and the topologies that it defines fit together."""
    # Blocks that are files may import each other, and write.
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    scope: dict[str, Any] = {}
    for block in _python_blocks(page):
        if block.file_name is not None:
            (tmp_path / block.file_name).write_text(block.text)
            monkeypatch.delitem(sys.modules, Path(block.file_name).stem, raising=False)
        before = scope.get("topology")
        # With these empty lines, errors and failed asserts have the line of the page.
        exec(compile("\n" * block.line + block.text, str(page), "exec"), scope)  # noqa: S102
        topology = scope.get("topology")
        if isinstance(topology, Topology) and topology is not before and not _needs_spark(topology):
            TopologyTestDriver(topology)


def test_pages_with_examples_are_found() -> None:
    """The pages for users are among those whose examples run."""
    names = {page.relative_to(ROOT).as_posix() for page in _PAGES}
    guides = {f"docs/migrate/{system}.md" for system in ("kafka-streams", "spark", "ksqldb")}
    assert {
        "README.md",
        "docs/reference/topology/streams.md",
        "docs/reference/testing.md",
        *guides,
    } <= names
