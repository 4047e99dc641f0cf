"""docs/reference/tables.md has each reason of dead letters."""

import re

from oriel.pipeline.dead_letters import Reason
from tests.tidy.project import ROOT

_PAGE = ROOT / "docs" / "reference" / "tables.md"


def test_the_page_has_each_reason_once() -> None:
    """The table of reasons equals the codes of the pipeline."""
    _, _, rows = _PAGE.read_text().partition("| reason | the record |\n|---|---|\n")
    table = rows.partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)`", table, re.MULTILINE)) == sorted(Reason)
