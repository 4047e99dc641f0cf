"""The examples of docs/reference/semantics.md are what the window engines compute."""

import re

import pytest

from oriel import SessionWindows, SlidingWindows, TimeWindows
from oriel.pipeline.windows import Windows
from tests.documentation.pages import blocks
from tests.tidy.project import ROOT
from tools.window_pictures import arrivals, computed, one_by_one, rows_text

_PAGE = ROOT / "docs" / "reference" / "semantics.md"
_HEAD = re.compile(r"(tumbling|hopping|sliding|session) (\d+)(?: by (\d+))?, grace (\d+): (.+)")
_EXAMPLES = {block.place: block.text for block in blocks(_PAGE) if block.language == "text"}


def _windows(kind: str, length_ms: int, advance_ms: str | None, grace_ms: int) -> Windows:
    if kind == "sliding":
        return SlidingWindows.of_time_difference_and_grace(length_ms, grace_ms)
    if kind == "session":
        return SessionWindows.of_inactivity_gap_and_grace(length_ms, grace_ms)
    windows = TimeWindows.of_size_and_grace(length_ms, grace_ms)
    return windows if advance_ms is None else windows.advance_by(int(advance_ms))


def test_the_page_has_examples_of_each_kind() -> None:
    """The examples cover tumbling, hopping and sliding windows, and sessions."""
    kinds = {text.split()[0] for text in _EXAMPLES.values()}
    assert kinds == {"tumbling", "hopping", "sliding", "session"}


@pytest.mark.parametrize("place", _EXAMPLES)
def test_an_example_is_what_the_engine_computes(place: str) -> None:
    """The rows and late records of an example are those of the engine, record by record."""
    head, _, shown = _EXAMPLES[place].partition("\n")
    match = _HEAD.fullmatch(head)
    assert match is not None, f"{place}: write KIND LENGTH [by ADVANCE], grace GRACE: RECORDS"
    kind, length, advance, grace, records = match.groups()
    windows = _windows(kind, int(length), advance, int(grace))
    outcome = computed(windows, one_by_one(arrivals(records)))
    lines = [rows_text(windows.kind, [row]) for row in outcome.rows()]
    if outcome.late:
        lines.append(f"late: {' '.join(outcome.late)}")
    assert shown.splitlines() == lines
