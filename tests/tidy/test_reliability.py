"""The list of faults: numbered without gaps, and each fault has a test that is there."""

import re

from tests.tidy.project import ROOT, offenders

_ROW = re.compile(r"^\| (\d+) \|.*\| `(tests/[\w/]+\.py)::(test_\w+)` \|$", re.MULTILINE)


def test_each_fault_has_its_number_and_its_test() -> None:
    """docs/contributing/reliability.md numbers the faults from 1 on, and names a test of each."""
    page = (ROOT / "docs" / "contributing" / "reliability.md").read_text()
    rows = _ROW.findall(page)
    faults = page.partition("\n## ")[0]
    lines = [line for line in faults.splitlines() if line.startswith("| ")]
    assert len(rows) == len(lines) - 1, "each row ends with `tests/FILE.py::test_NAME`"
    assert [int(number) for number, _, _ in rows] == list(range(1, len(rows) + 1))
    missing = [
        f"{number}: {file}::{name}"
        for number, file, name in rows
        if not (ROOT / file).exists() or f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert not missing, f"these tests are not there:{offenders(missing)}"
