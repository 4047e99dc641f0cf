"""The number of odd words falls: each file has a ceiling, and the ceiling of a new file is 0."""

from collections.abc import Iterator

import orjson
import pytest

from tests.tidy.project import offenders
from tools.english import texts
from tools.english.__main__ import CEILINGS, IDENTIFIER_CEILINGS, lowered
from tools.english.counting import count, totals
from tools.english.identifiers import identifier_totals, odd_identifiers


def test_no_file_has_more_odd_words_than_its_ceiling() -> None:
    """No file has more odd words than its ceiling: see ``python -m tools.english FILE``."""
    ceilings = orjson.loads(CEILINGS.read_bytes())
    found = [
        f"{name}: {total} odd words and constructions, the ceiling is {ceilings.get(name, 0)}"
        for name, total in totals().items()
        if total > ceilings.get(name, 0)
    ]
    assert not found, f"use the words of CONTRIBUTING.md, never raise a ceiling:{offenders(found)}"


def test_no_module_has_more_odd_identifiers_than_its_ceiling() -> None:
    """The identifiers that a module defines have no words of the old vocabulary."""
    ceilings = orjson.loads(IDENTIFIER_CEILINGS.read_bytes())
    found = [
        f"{name}: {total} odd identifiers, the ceiling is {ceilings.get(name, 0)}"
        for name, total in identifier_totals().items()
        if total > ceilings.get(name, 0)
    ]
    assert not found, f"use the words of CONTRIBUTING.md, never raise a ceiling:{offenders(found)}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def told(answer, directory): clocks = 1", ["answer", "clocks", "told"]),
        ("class LetterPage: ...", []),
        ("class LettersPage: self.asks = 1", ["LettersPage", "asks"]),
        ("dead_letters = wall_clocks = DeadLetters = 1", []),
        ("def test_what_a_reader_is_told(): print(folder)", []),
        ("effective = understamped = tellers = 1", []),
    ],
)
def test_odd_identifiers_are_found(source: str, found: list[str]) -> None:
    """A banned word is a whole word of an identifier that the module defines."""
    assert odd_identifiers(source) == found


def test_a_ceiling_only_falls() -> None:
    """A file with more words keeps its ceiling, and a deleted file loses it."""
    found = {"fewer.md": 1, "more.md": 9, "new.md": 5}
    ceilings = {"fewer.md": 3, "more.md": 4, "gone.md": 2}
    assert lowered(ceilings, found) == {"fewer.md": 1, "more.md": 4}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("If you poll the service, it returns the newest window.", {}),
        ("Ask what it told; it answers.", {"ask": 1, "tell": 1, "semicolon": 1, "answer": 1}),
        ("A folder is no room behind a door.", {"folder": 1, "is no": 1, "room": 2, "behind": 1}),
        ("The wall clock and a wall-clock time, but not this clock.", {"clock": 1}),
        ("A dead letter is not a letter.", {"letter": 1}),
        ("word " * 31 + ". Next one.", {"long sentence": 1}),
        ("word " * 30 + ".", {}),
    ],
)  # fmt: skip
def test_words_and_constructions_are_counted(text: str, found: dict[str, int]) -> None:
    """Each word and construction has its own count."""
    assert count(iter([text])) == found


def _of_python(source: str) -> Iterator[str]:
    return texts.python(source, messages=True)


@pytest.mark.parametrize(
    ("source", "paragraphs"),
    [
        ('"""A module.\n\nIts second\nparagraph with ``code; here``."""\n',
         ["A module.", "Its second paragraph with x ."]),
        ("x = 1  # The reason.\n# Two\n# lines.\n", ["The reason. Two lines."]),
        ("import os  # noqa: F401\n", []),
        ('raise ValueError(f"{name}: the value {value} is not valid")\n',
         ["x: the value x is not valid"]),
        ('key = "a;b"\n', []),
    ],
)  # fmt: skip
def test_docstrings_comments_and_messages_are_read(source: str, paragraphs: list[str]) -> None:
    """Code and directives for tools are not prose."""
    assert list(_of_python(source)) == paragraphs


def test_prose_of_a_page_is_read() -> None:
    """Code, link addresses and table borders are not prose."""
    page = """---
title: x; y
---
# How to run it

Run `a; b` as [the guide](https://example.org/;) says.
It prints:

```bash
echo a; echo b
```

- one item
  that continues
- another

| a | b |
|---|---|
| c | d |
"""
    assert list(texts.markdown(page)) == [
        "How to run it", "Run as [the guide] says. It prints:", "one item that continues",
        "another", "a", "b", "c", "d",
    ]  # fmt: skip
