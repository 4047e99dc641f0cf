"""The summary of the language that `oriel topology` prints fits on one screen."""

import inspect
import re
from pathlib import Path

import pytest

import oriel
from oriel import aggregates
from oriel.__main__ import main
from tests.tidy.project import ROOT
from tools.site_docstrings import INTERNAL

_PAGE = ROOT / "docs" / "reference" / "topology-summary.md"
_STEPPED = (
    oriel.BranchedKStream,
    oriel.CogroupedKStream,
    oriel.KGroupedStream,
    oriel.KGroupedTable,
    oriel.KStream,
    oriel.KTable,
    oriel.SourceTable,
    oriel.StreamsBuilder,
    oriel.TimeWindowedKStream,
    oriel.VersionedTable,
)


def test_the_command_prints_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The package has the page as a link, so both are always the same."""
    assert main(["topology"]) == 0
    assert capsys.readouterr().out == _PAGE.read_text(encoding="utf-8")


def test_it_fits_on_one_screen() -> None:
    """A terminal of 50 lines and 130 columns shows it."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 50
    assert [line for line in lines if len(line) > 130] == []


def test_it_has_each_step() -> None:
    """Each public method of builders, streams and tables is a word of the page."""
    steps = {step for owner in _STEPPED for step in _methods(owner)}
    assert len(steps) > 20
    assert steps - _words(_PAGE) == set()


def test_it_has_each_aggregate_and_each_kind_of_windows() -> None:
    """Each public aggregate and each window definition is a word of the page."""
    windows = {name for name in oriel.__all__ if name.endswith("Windows")}
    assert (windows | set(aggregates.__all__)) - _words(_PAGE) == set()


def _methods(owner: type) -> set[str]:
    """Return the public methods of a class and of its bases in Oriel."""
    bases = (base for base in owner.__mro__ if base.__module__.startswith("oriel."))
    names = {name for base in bases for name in vars(base) if not name.startswith("_")}
    public = {name for name in names if f"{owner.__name__}.{name}" not in INTERNAL}
    return {name for name in public if inspect.isfunction(getattr(owner, name, None))}


def _words(page: Path) -> set[str]:
    return set(re.findall(r"\w+", page.read_text(encoding="utf-8")))
