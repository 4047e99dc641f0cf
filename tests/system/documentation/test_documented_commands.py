"""The commands of the pages work. Those of the README and the tutorial need no files."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.pages import typed_pages
from tests.e2e.documented_commands import FROM_NOTHING, run_page, served_demo
from tests.e2e.runs_in_one_process import Runs
from tests.tidy.project import ROOT

pytestmark = pytest.mark.e2e

_PAGES = [page for page in typed_pages() if page not in FROM_NOTHING]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> Iterator[tuple[Path, int]]:
    """Return the directory of a finished demo, and the port of its service."""
    directory = tmp_path_factory.mktemp("demo")
    with served_demo(directory, runs) as port:
        yield directory, port


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_a_page_work(
    page: Path, tmp_path: Path, demo: tuple[Path, int], runs: Runs
) -> None:
    """The page's blocks run in order in one directory, and the output has the shape on the page."""
    example, port = demo
    directory = tmp_path / "folder"
    shutil.copytree(example, directory, ignore=shutil.ignore_patterns("index"))
    run_page(page, directory, runs, port)


@pytest.mark.parametrize("page", FROM_NOTHING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_a_start_page_work(
    page: Path, tmp_path: Path, demo: tuple[Path, int], runs: Runs
) -> None:
    """The page's blocks run in order in one empty directory, next to the service of the demo."""
    _, port = demo
    directory = tmp_path / "folder"
    directory.mkdir()
    run_page(page, directory, runs, port)


def test_the_pages_for_users_have_commands() -> None:
    """The test does not pass if a page loses its blocks."""
    names = {page.relative_to(ROOT).as_posix() for page in typed_pages()}
    assert {
        "README.md",
        "docs/get-started/tutorial.md",
        "docs/reference/python-client.md",
        "docs/how-to/back-up-and-restore.md",
    } <= names
