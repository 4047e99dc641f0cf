"""What the pages tell people to type works: every command, and every question to a service."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oriel.demo.records.event_log import append_lines, to_lines
from oriel.demo.records.flight_data import read_flights
from tests.app.serving import Serving
from tests.documentation.pages import Block, blocks, pages
from tests.e2e.documented_commands import PageRun
from tests.e2e.runs_in_one_process import Runs
from tests.storage.waiting import wait_until
from tests.tidy.project import ROOT

pytestmark = pytest.mark.e2e

#: Pages that begin in an empty folder; the others in one where the demo has run.
FROM_NOTHING = {ROOT / "README.md", ROOT / "docs" / "tutorial.md"}
_FLIGHTS = 4_000


def _typed(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in {"sh", "py"} and block.is_run]


_PAGES = [page for page in pages() if _typed(page)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> Iterator[tuple[Path, int]]:
    """Give a folder in which the demo's topology has read some flights, and its service's port."""
    folder = tmp_path_factory.mktemp("demo")
    flights = read_flights()[:_FLIGHTS]
    append_lines(folder / "events", np.asarray(flights["partition"]), to_lines(flights))
    topology = str(shutil.copy(ROOT / "demo" / "flights.py", folder))
    paths = ["--event-log", str(folder / "events"), "--data", str(folder / "data")]
    ended = runs.run(topology, *paths, "--once")
    assert ended.code == 0, ended.told
    service = Serving(folder / "data", "--index", str(folder / "index"))
    wait_until(lambda: service.get("/readyz").status == 200, "the demo's service")
    yield folder, service.port
    service.end()


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_tells_to_type_works(
    page: Path, tmp_path: Path, demo: tuple[Path, int], runs: Runs
) -> None:
    """Its blocks run in order, in one folder; output that it shows has the shape of today's."""
    example, port = demo
    folder = tmp_path / "folder"
    if page in FROM_NOTHING:
        folder.mkdir()
    else:
        shutil.copytree(example, folder, ignore=shutil.ignore_patterns("index"))
    with PageRun(folder, runs, port) as page_run:
        for block in blocks(page):
            if block.is_run:
                page_run.run(block)


def test_the_pages_for_users_are_among_them() -> None:
    """At least these have something to type."""
    names = {page.relative_to(ROOT).as_posix() for page in _PAGES}
    assert {"README.md", "docs/tutorial.md", "docs/client.md", "docs/operations.md"} <= names
