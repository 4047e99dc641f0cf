"""The list of tested failures has numbers without gaps, and the test of each failure exists."""

import re

from tests.tidy.project import ROOT, offenders

_ROW = re.compile(r"^\| (\d+) \|.*\| `(tests/[\w/]+\.py)::(test_\w+)` \|$", re.MULTILINE)


def test_each_failure_has_its_number_and_its_test() -> None:
    """docs/contributing/failures.md numbers the failures from 1, and names one test per row."""
    page = (ROOT / "docs" / "contributing" / "failures.md").read_text()
    rows = _ROW.findall(page)
    table = page.partition("\n## Failures\n")[2].partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) == len(lines) - 1, "each row ends with `tests/FILE.py::test_NAME`"
    assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
    missing = [
        f"{number}: {file}::{name}"
        for number, file, name in rows
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert not missing, f"these tests do not exist:{offenders(missing)}"
