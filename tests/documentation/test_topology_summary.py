"""What `oriel topology` prints: the whole language on one screen."""

import re
from pathlib import Path

import pytest

import oriel
from oriel import aggregates
from oriel.__main__ import main
from tests.tidy.project import ROOT

_PAGE = ROOT / "docs" / "reference" / "topology-summary.md"
_STEPS = re.compile(r"^\| `(?:builder\.|\.\.\., )?(\w+)\(", re.MULTILINE)


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The package has the page as a link, so both are always the same."""
    assert main(["topology"]) == 0
    assert capsys.readouterr().out == _PAGE.read_text(encoding="utf-8")


def test_it_fits_on_one_screen() -> None:
    """A terminal of 50 lines and 130 columns shows it."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 50
    assert [line for line in lines if len(line) > 130] == []


def test_it_has_each_step_of_the_guide() -> None:
    """Each step that the guide's table lists is a word of the page."""
    guide = (ROOT / "docs" / "reference" / "topology.md").read_text(encoding="utf-8")
    steps = set(_STEPS.findall(guide.split("\n## Steps\n")[1].split("\n## ")[0]))
    assert len(steps) > 20
    assert steps - _words(_PAGE) == set()


def test_it_has_each_aggregate_and_each_kind_of_windows() -> None:
    """Each public aggregate and each window definition is a word of the page."""
    windows = {name for name in oriel.__all__ if name.endswith("Windows")}
    assert (windows | set(aggregates.__all__)) - _words(_PAGE) == set()


def _words(page: Path) -> set[str]:
    return set(re.findall(r"\w+", page.read_text(encoding="utf-8")))
