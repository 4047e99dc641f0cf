"""Pages are short, have titles of their kind, and use the words of the writing guide.

Decision records have rules of their own.
"""

import re
from pathlib import Path

import pytest

from tests.tidy.project import ROOT, files, offenders

_PAGES = [
    path
    for path in files()
    if path.suffix == ".md" and (path == ROOT / "README.md" or ROOT / "docs" in path.parents)
    if "decisions" not in path.parts
]
_PAGE_WORDS = 3_000
_HOW_TO_WORDS = 600
#: Expressions and how often they occur in 10,000 words: at least, at most.
_RATES = {
    "semicolons": (r";", 0, 15),
    "behind": (r"\b(?:behind|in front of)\b", 0, 4),
    "tell": (r"\b(?:tells?|told)\b", 0, 2),
    "you": (r"\byou(?:r|rs|rself)?\b", 80, 10_000),
    "for example": (r"\bfor example\b", 12, 10_000),
}
_BLOCK = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_CODE_AND_ADDRESSES = re.compile(r"`[^`\n]*`|(?<=\])\([^)\s]*\)")


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _is_generated(page: Path) -> bool:
    return "Written by `python -m" in _text(page)


def _prose(page: Path) -> str:
    """Return a page without code, addresses of links and comments."""
    return _CODE_AND_ADDRESSES.sub("x", _BLOCK.sub("", _text(page)))


def _without_generated_tables(page: Path) -> str:
    text = _prose(page)
    return re.sub(r"^\|.*$", "", text, flags=re.MULTILINE) if _is_generated(page) else text


def test_no_page_is_too_long() -> None:
    """A page that is not generated has at most 3,000 words."""
    long = [
        f"{page.relative_to(ROOT)}: {len(_text(page).split())} words"
        for page in _PAGES
        if len(_text(page).split()) > _PAGE_WORDS and not _is_generated(page)
    ]
    assert long == [], f"split these pages:{offenders(long)}"


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=lambda page: page.stem
)
def test_a_how_to_is_short(page: Path) -> None:
    """Its title begins with "How to", and it has at most 600 words without code and tables."""
    assert _text(page).startswith("# How to ")
    words = re.sub(r"^\|.*$", "", _prose(page), flags=re.MULTILINE).split()
    assert len(words) <= _HOW_TO_WORDS, "move facts to a page of the reference"


def test_pages_use_the_words_of_the_guide() -> None:
    """All pages together have the rates of good documentation."""
    prose = " ".join(_without_generated_tables(page) for page in _PAGES)
    words = len(prose.split())
    found = {
        name: round(len(re.findall(pattern, prose, re.IGNORECASE)) * 10_000 / words, 1)
        for name, (pattern, _, _) in _RATES.items()
    }
    outside = {
        name: rate for name, rate in found.items() if not _RATES[name][1] <= rate <= _RATES[name][2]
    }
    assert outside == {}


def test_a_link_names_its_target() -> None:
    """No link has the text "why", "how", "which" or "here"."""
    unnamed = [
        f"{page.relative_to(ROOT)}: {match[0]}"
        for page in _PAGES
        for match in re.finditer(r"\[(?:why|how|which|here)\]\([^)]*\)", _text(page), re.IGNORECASE)
    ]
    assert unnamed == [], f"name the target:{offenders(unnamed)}"
