"""The pictures of the concept pages are what the tool writes, and the pages show them."""

import re
from pathlib import Path

import pytest

from tests.tidy.project import ROOT
from tools.concepts import joins, pictures
from tools.concepts.rows import Bar, RowPicture

_CONCEPTS = ROOT / "docs" / "concepts"


@pytest.mark.parametrize("path", pictures.files(), ids=lambda path: path.name)
def test_the_committed_picture_is_what_the_tool_writes(path: Path) -> None:
    """`python -m tools.concepts` writes the file."""
    assert path.read_text() == pictures.files()[path], "run: python -m tools.concepts"


def test_each_picture_is_shown_in_both_themes() -> None:
    """A page of docs/concepts shows both files of each picture."""
    pages = "".join(page.read_text() for page in _CONCEPTS.glob("*.md"))
    shown = set(
        re.findall(r"!\[[^\]]+\]\(\.\./pictures/([\w-]+\.svg)#only-(?:light|dark)\)", pages)
    )
    assert {path.name for path in pictures.files()} <= shown


@pytest.mark.parametrize("picture", pictures.pictures(), ids=lambda picture: picture.name)
def test_no_text_is_wider_than_its_space(picture: RowPicture) -> None:
    """Labels, notes and the texts of bars fit."""
    assert picture.too_wide() == []


def test_the_record_after_the_close_time_is_late() -> None:
    """The record at 10:00:50 is late, and the first window is final after the last record."""
    rows = {row.label: row.note for row in pictures.time().rows}
    assert [label for label, note in rows.items() if note == "late"] == ["partition 0, 10:00:50"]
    assert rows["partition 1, 10:01:15"] == "counts, first window final"


def test_a_changed_customer_changes_each_purchase() -> None:
    """The joined rows of both purchases change when the customer changes."""
    rows = {row.label: row.bars for row in joins.foreign_key().rows}
    assert rows["joined row 2"] == [Bar(12, 24, "ada london"), Bar(24, 40, "ada paris")]
    assert rows["joined row 1"][-1] == rows["joined row 2"][-1]
