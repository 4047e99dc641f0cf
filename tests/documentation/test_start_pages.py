"""README.md and docs/index.md begin alike and show the picture. The quickstart fits `oriel new`."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.documentation.pages import blocks
from tests.tidy.project import ROOT
from tools import how_it_works

README = ROOT / "README.md"
_README_WORDS = 1_200
_SVG = "{http://www.w3.org/2000/svg}"
#: A safe width of a character in a sans-serif font, as a share of its size.
_LETTER_WIDTH = 0.58


def _first_paragraph(page: Path) -> str:
    return page.read_text().split("\n\n")[1]


def _files_of_pictures(page: Path) -> list[Path]:
    """Files that a page shows as pictures, in Markdown and in HTML."""
    text = page.read_text()
    names = re.findall(r"!\[[^\]]*\]\(([^)#\s]+)", text)
    names += re.findall(r"<(?:img|source)\b[^>]*?(?:src|srcset)=\"([^\"]+)\"", text)
    return [page.parent / name for name in names]


def test_the_readme_is_short() -> None:
    """README.md has at most 1,200 words, code and tables included."""
    words = README.read_text().split()
    assert len(words) <= _README_WORDS, "move details to a page in docs/"


def test_both_pages_begin_with_the_same_sentence() -> None:
    """The first paragraph is one sentence, equal on both pages."""
    sentence = _first_paragraph(README)
    assert _first_paragraph(ROOT / "docs" / "index.md") == sentence
    assert re.fullmatch(r"[^.!?]+\.", sentence)


def test_the_first_command_of_the_readme_has_no_placeholder() -> None:
    """You can type the first command as it is."""
    first = next(block for block in blocks(README) if block.language == "sh")
    assert first.text == "./oriel demo\n"


def test_the_quickstart_shows_the_topology_of_a_new_project() -> None:
    """`oriel new` writes the topology that the page explains."""
    page = ROOT / "docs" / "get-started" / "quickstart.md"
    (shown,) = (block.text for block in blocks(page) if block.language == "python")
    template = ROOT / "src" / "oriel" / "project" / "template" / "topology.py.template"
    assert shown == template.read_text()


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "index.md"], ids=lambda page: page.name)
def test_the_picture_is_shown_in_both_themes(page: Path) -> None:
    """Each picture of the page exists, and both files of the tool are among them."""
    shown = _files_of_pictures(page)
    assert [path for path in shown if not path.is_file()] == []
    assert set(how_it_works.pictures()) <= {path.resolve() for path in shown}


@pytest.mark.parametrize("path", how_it_works.pictures(), ids=lambda path: path.name)
def test_the_committed_picture_is_what_the_tool_writes(path: Path) -> None:
    """`python -m tools.how_it_works` writes the file."""
    assert path.read_text() == how_it_works.pictures()[path], "run: python -m tools.how_it_works"


@pytest.mark.parametrize("theme", how_it_works.THEMES)
def test_the_picture_has_every_step_in_its_box(theme: str) -> None:
    """The steps are drawn in order, and no text is wider than its box."""
    drawn = ET.fromstring(how_it_works.picture(how_it_works.THEMES[theme]))  # noqa: S314
    texts = [
        (text.text or "", float(text.get("font-size", 0))) for text in drawn.iter(f"{_SVG}text")
    ]
    assert [text for text, size in texts if size == how_it_works.TITLE_SIZE] == [
        "Kafka", "Pipeline", "Delta tables", "Service", "HTTP", "Dashboard", "SQL",
    ]  # fmt: skip
    widest = how_it_works.BOX_WIDTH
    assert [text for text, size in texts if len(text) * size * _LETTER_WIDTH > widest] == []
