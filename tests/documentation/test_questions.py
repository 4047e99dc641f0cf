"""The first screen of a page has the facts that its readers look for.

Each file in ``questions/`` has the name of a page and three questions that its readers have. They
were written before the page. ``answer`` is a part of the page with the fact.
"""

import tomllib
from pathlib import Path

import pytest

from tests.tidy.project import ROOT

_FILES = sorted((Path(__file__).parent / "questions").glob("*.toml"))
#: A desktop screen shows about this many words of a page, its code and tables included.
_SCREEN_WORDS = 300


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_first_screen_has_the_facts_for_three_questions(path: Path) -> None:
    """Each fact is within the first 300 words of the page."""
    entry = tomllib.loads(path.read_text())
    words = (ROOT / entry["page"]).read_text().split()
    screen = " ".join(words[:_SCREEN_WORDS])
    assert len(entry["questions"]) == 3
    for question in entry["questions"]:
        assert question["ask"].endswith("?")
        assert " ".join(question["answer"].split()) in screen, question["ask"]


def test_at_least_twenty_pages_have_questions() -> None:
    """The pages of all sections are among them."""
    pages = {tomllib.loads(path.read_text())["page"] for path in _FILES}
    assert len(pages) == len(_FILES)
    sections = {page.split("/")[1] for page in pages if page.startswith("docs/")}
    wanted = {"get-started", "concepts", "how-to", "troubleshooting", "migrate", "reference"}
    assert wanted <= sections
    assert len(pages) >= 20
