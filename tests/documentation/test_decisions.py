"""The decision records: headers, numbers, index, and every reference to a record."""

import re

import pytest

from tests.tidy.project import ROOT, offenders, texts
from tools import decisions
from tools.decisions import RECORDS, Record

#: How files refer to a record: by a link or path with its name, or by its number alone.
_NAMED = re.compile(r"(?<![0-9a-z-])(\d{4}-[a-z0-9]+(?:-[a-z0-9]+)*\.md)\b")
_NUMBERED = re.compile(r"docs/decisions/(\d{4})\b(?!-)|\b[Dd]ecisions? \[?(\d{4})\b")

#: These tests contain examples of records that do not exist.
_EXAMPLES = tuple(f"tests/documentation/{name}.py" for name in ("test_citations", "test_decisions"))

_VALID = """# Fence with epochs

- Status: accepted
- Date: 2026-11-26
- Topics: recovery
- Outcome: Each start fences.

**Context.** C.

**Decision.** D.

**Consequences.** E.

**Alternatives.** F.
"""


def _record(text: str = _VALID, name: str = "0001-fence-with-epochs.md") -> Record:
    return Record(name, text)


def test_the_records_follow_the_template() -> None:
    """Each record has its header, parts and file name, and each missing number has a reason."""
    found = list(decisions.problems(decisions.records()))
    assert not found, f"correct these records:{offenders(found)}"


def test_the_index_is_that_of_the_headers() -> None:
    """The index lists each record once with its title, outcome and status."""
    page = decisions.PAGE.read_text(encoding="utf-8")
    assert page == decisions.page(), "run: python -m tools.decisions"
    for record in decisions.records():
        assert page.count(f"| [{record.number} {record.title}]({record.name}) |") == 1, record.name


def test_every_reference_to_a_record_resolves() -> None:
    """A link or path names an existing file, and a number alone is the number of a record."""
    names = {path.name for path in RECORDS.glob("*.md")}
    numbers = {name[:4] for name in names}
    read = [(name, text) for name, text in texts() if name not in _EXAMPLES]
    found = [f"{name}: {link}" for name, text in read for link in _NAMED.findall(text)
             if link not in names]  # fmt: skip
    found += [f"{name}: decision {number}" for name, text in read
              for pair in _NUMBERED.findall(text) for number in pair
              if number and number not in numbers]  # fmt: skip
    assert not found, f"these records do not exist:{offenders(found)}"
    linked = {link for _, text in read for link in _NAMED.findall(text)}
    assert linked == {name for name in names if name[:4].isdigit()}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (_VALID.replace("- Status: accepted\n", ""), "one line Status"),
        (_VALID.replace("accepted", "done"), "status must be"),
        (_VALID.replace("2026-11-26", "today"), "date must be"),
        (_VALID.replace("recovery", "magic"), "topics must be"),
        (_VALID.replace("- Outcome: Each start fences.\n", ""), "one line Outcome"),
        (_VALID.replace("accepted", "amended by 0002"), "must name exactly"),
        (_VALID.replace("**Consequences.** E.\n\n", ""), "parts must be"),
        (_VALID.replace("Fence with", "Fence by"), "file name must be"),
    ],
)
def test_a_wrong_record_is_found(text: str, problem: str) -> None:
    """Each rule of the template finds a record that breaks it, and a valid record passes."""
    assert not list(decisions.problems([_record()]))
    (found, *_) = decisions.problems([_record(text)])
    assert problem in found


def test_a_missing_number_and_a_one_sided_amendment_are_found() -> None:
    """A gap without a reason and a record that does not link back are problems."""
    later = _record(
        _VALID.replace("- Outcome", "- Amends: [0001](0001-fence-with-epochs.md)\n- Outcome"),
        "0003-fence-with-epochs.md",
    )
    found = list(decisions.problems([_record(), later]))
    assert found == [
        '0001: "Amended by: 0003" and "Amends: 0001" in 0003 must occur together',
        "0002: the number is missing. Add a record, or a reason to UNUSED.",
    ]


def test_the_unused_numbers_have_no_record() -> None:
    """A number that is listed as unused is not the number of a record."""
    assert ROOT in RECORDS.parents
    reused = _record(_VALID, "0040-fence-with-epochs.md")
    assert "0040: the number is used more than once, or is listed as unused" in list(
        decisions.problems([reused])
    )
